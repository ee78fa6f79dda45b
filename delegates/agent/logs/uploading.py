"""Sends the lines of tasks, each chunk until it is acknowledged."""

from delegates.agent.backoff import Backoff
from delegates.agent.logs.spool import TaskLines
from delegates.agent.manager import Refused, Unreachable
from delegates.agent.program import Agent, NotRegistered, log

# What the manager says when it does not want a task's lines from us any more.
_UNWANTED = (403, 404, 409, 410, 413)


def uploading(agent: Agent) -> None:
    """Send what tasks have written, twice a second."""
    backoff = Backoff(first=0.5, most=15)
    while not agent.ended.wait(agent.terms.log_flush_seconds):
        if _upload_all(agent):
            backoff.reset()
        else:
            agent.ended.wait(backoff.next())


def _upload_all(agent: Agent) -> bool:
    arrived = [upload(agent, lines) for lines in agent.spool.waiting()]
    return all(arrived)


def upload(agent: Agent, lines: TaskLines) -> bool:
    """Send all lines of one task that there are now; false if the manager could not take them."""
    with lines.uploads:
        while found := lines.first():
            number, chunk = found
            try:
                _send(agent, lines, number, chunk)
            except NotRegistered:
                return False
            except Unreachable as problem:
                log.warning("Log lines of task %s did not arrive: %s", lines.task_id, problem)
                return False
    return True


def _send(agent: Agent, lines: TaskLines, number: int, chunk: list[dict[str, object]]) -> None:
    body = {"fence": lines.fence, "sequence": number, "lines": chunk}
    try:
        answer = agent.ask(f"/agent/v1/tasks/{lines.task_id}/logs", body)
    except Refused as refusal:
        if refusal.code == "log_gap" and isinstance(refusal.body.get("next"), int):
            lines.renumber(int(refusal.body["next"]))
        elif refusal.status in _UNWANTED:
            log.warning("The manager takes no more lines of task %s: %s", lines.task_id, refusal)
            lines.forget()
        else:
            raise Unreachable(str(refusal)) from refusal
        return
    lines.acknowledge(max(int(answer.get("next", 0)), number + len(chunk)))
