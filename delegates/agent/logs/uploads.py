"""Uploads of task logs and of delegate.log to the manager."""

import time

from delegates.agent.agent import Agent, NotRegistered, log
from delegates.agent.logs.spool import LogChunk, SpooledTaskLog
from delegates.agent.manager_client import Backoff, ManagerUnreachable, RequestRefused
from delegates.agent.tasks import HeldTask

FINAL_LINES_SECONDS = 60.0
# Codes with which the manager permanently refuses a task's lines.
_REJECTED_STATUSES = (403, 404, 409, 410, 413)


def upload_task_logs(agent: Agent) -> None:
    """Send the tasks' log lines twice a second."""
    backoff = Backoff(first=0.5, most=15)
    while not agent.ended.wait(agent.limits.log_flush_seconds):
        if _upload_all(agent):
            backoff.reset()
        else:
            agent.ended.wait(backoff.next())


def _upload_all(agent: Agent) -> bool:
    arrived = [upload_task_log(agent, lines) for lines in agent.spool.waiting()]
    return all(arrived)


def upload_task_log(agent: Agent, lines: SpooledTaskLog) -> bool:
    """Send the current lines of one task; return false if the manager refuses them.

    Stop when the manager requests a pause. Lines written meanwhile wait for the next call, so that other
    tasks' lines are not delayed.
    """
    with lines.uploads:
        for _ in range(len(lines.segments)):
            if lines.is_throttled or not (chunk := lines.first()):
                break
            try:
                _send(agent, lines, chunk)
            except NotRegistered:
                return False
            except ManagerUnreachable as problem:
                log.warning("Could not send log lines of task %s: %s", lines.task_id, problem)
                return False
    return True


def upload_remaining_lines(agent: Agent, held_task: HeldTask, lines: SpooledTaskLog) -> None:
    """Send the remaining lines of a task before its answer, because the manager accepts none after it.

    Lost tasks, and a manager that accepts nothing for a minute, end the wait. Without lines there is none.
    """
    deadline, backoff = time.monotonic() + FINAL_LINES_SECONDS, Backoff(first=0.2, most=5)
    while not upload_task_log(agent, lines) or lines.segments:
        if agent.ended.is_set() or held_task.is_lost or time.monotonic() > deadline:
            log.warning("The result of task %s is sent before all of its log lines", lines.task_id)
            return
        agent.ended.wait(max(backoff.next(), lines.throttled_until - time.monotonic()))


def _send(agent: Agent, lines: SpooledTaskLog, chunk: LogChunk) -> None:
    body = b'{"fence":%d,"sequence":%d,"lines":[%s]}' % (lines.fence, chunk.sequence, chunk.lines)
    try:
        answer = agent.post_with_session(f"/agent/v1/tasks/{lines.task_id}/logs", body)
    except RequestRefused as refusal:
        if refusal.code == "log_gap" and isinstance(refusal.body.get("next"), int):
            lines.renumber(int(refusal.body["next"]))
        elif refusal.code == "log_throttled":
            lines.throttled_until = time.monotonic() + max(refusal.retry_after, 0.5)
        elif refusal.status in _REJECTED_STATUSES:
            log.warning("The manager accepts no more lines of task %s: %s", lines.task_id, refusal)
            lines.forget()
        else:
            raise ManagerUnreachable(str(refusal)) from refusal
        return
    lines.acknowledge(max(int(answer.get("next", 0)), chunk.sequence + chunk.line_count))


AGENT_LOG_INTERVAL_SECONDS = 2.0
UNREADABLE_STATUSES = (400, 413)


def upload_agent_log(agent: Agent) -> None:
    """Send the log's new lines every other second."""
    backoff = Backoff(first=2, most=30)
    instance, number = "", 0
    while not agent.ended.wait(AGENT_LOG_INTERVAL_SECONDS):
        try:
            if instance != agent.instance_id:
                # Another process of this instance may have sent lines before: request the next number.
                number = _send_agent_lines(agent, 1, [])
                instance = agent.instance_id
            while lines := agent.outgoing.first():
                number = max(_send_agent_lines(agent, number, lines), number)
                agent.outgoing.sent()
            backoff.reset()
        except RequestRefused as refusal:
            if "next" in refusal.body:
                number = int(refusal.body["next"])
            elif refusal.status in UNREADABLE_STATUSES:
                # A permanent refusal: a retry cannot succeed.
                agent.outgoing.sent()
            agent.ended.wait(backoff.next())
        except (NotRegistered, ManagerUnreachable):
            agent.ended.wait(backoff.next())


def _send_agent_lines(agent: Agent, number: int, lines: list[str]) -> int:
    return int(agent.post_with_session("/agent/v1/logs", {"sequence": number, "lines": lines}).get("next", 0))
