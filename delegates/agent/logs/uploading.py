"""Sends the lines of tasks, each chunk until it is acknowledged."""

import time

from delegates.agent.backoff import Backoff
from delegates.agent.logs.spool import TaskLines
from delegates.agent.manager import Refused, Unreachable
from delegates.agent.program import Agent, NotRegistered, log
from delegates.agent.work import Held

REST_SECONDS = 60.0

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
    """Send the lines of one task that there are now; false if the manager could not take them.

    It stops where the manager wants a pause, and leaves what is written meanwhile to the next time: the
    lines of other tasks wait for this.
    """
    with lines.uploads:
        for _ in range(len(lines.segments)):
            if lines.is_throttled or not (found := lines.first()):
                break
            number, chunk = found
            try:
                _send(agent, lines, number, chunk)
            except NotRegistered:
                return False
            except Unreachable as problem:
                log.warning("Log lines of task %s did not arrive: %s", lines.task_id, problem)
                return False
    return True


def upload_rest(agent: Agent, held: Held, lines: TaskLines) -> None:
    """Send what a task has left to send: with its answer the manager takes no more of its lines.

    A task that was lost, and a manager that takes nothing for a minute, are not waited for.
    """
    deadline, backoff = time.monotonic() + REST_SECONDS, Backoff(first=0.2, most=5)
    while not upload(agent, lines) or lines.segments:
        if agent.ended.is_set() or held.is_lost or time.monotonic() > deadline:
            log.warning("Task %s is answered before all of its log lines arrived", lines.task_id)
            return
        agent.ended.wait(max(backoff.next(), lines.throttled_until - time.monotonic()))


def _send(agent: Agent, lines: TaskLines, number: int, chunk: list[dict[str, object]]) -> None:
    body = {"fence": lines.fence, "sequence": number, "lines": chunk}
    try:
        answer = agent.ask(f"/agent/v1/tasks/{lines.task_id}/logs", body)
    except Refused as refusal:
        if refusal.code == "log_gap" and isinstance(refusal.body.get("next"), int):
            lines.renumber(int(refusal.body["next"]))
        elif refusal.code == "log_throttled":
            lines.throttled_until = time.monotonic() + max(refusal.retry_after, 0.5)
        elif refusal.status in _UNWANTED:
            log.warning("The manager takes no more lines of task %s: %s", lines.task_id, refusal)
            lines.forget()
        else:
            raise Unreachable(str(refusal)) from refusal
        return
    lines.acknowledge(max(int(answer.get("next", 0)), number + len(chunk)))
