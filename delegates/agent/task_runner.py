"""Task runner: acquires tasks, renews leases, runs executors, completes tasks."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from delegates.agent.agent import Agent, NotRegistered, log
from delegates.agent.executors import ExecutorContext, TaskLogSink, TaskResult, execute_task
from delegates.agent.executors.dispatch import MAX_ERROR_CHARACTERS
from delegates.agent.executors.task_results import build_failure
from delegates.agent.isolation import IsolationLevel
from delegates.agent.logs.delegate_log import TASK_LOGGER
from delegates.agent.logs.spool import SpooledTaskLog
from delegates.agent.logs.uploads import upload_remaining_lines
from delegates.agent.manager_client import Backoff, ManagerUnreachable, RequestRefused
from delegates.agent.tasks import AgentTask, HeldTask, parse_task
from guards.tracing import resume_trace_context

task_log = logging.getLogger(TASK_LOGGER)
# A connection that died without a word must leave time to renew over another one.
RENEW_TIMEOUT_SECONDS = 5.0


def renew_leases(agent: Agent) -> None:
    """Renew all leases every few seconds while the agent has tasks."""
    while not agent.ended.wait(agent.limits.renew_seconds):
        fences = agent.work.list_fences()
        if not fences:
            continue
        tasks = [{"id": task_id, "fence": fence} for task_id, fence in fences.items()]
        try:
            answer = agent.post_with_session(
                "/agent/v1/tasks/renew", {"tasks": tasks}, read_seconds=RENEW_TIMEOUT_SECONDS
            )
        except NotRegistered:
            continue
        except (ManagerUnreachable, RequestRefused) as problem:
            log.warning("%d leases were not renewed: %s", len(tasks), problem)
            continue
        agent.work.stop(answer.get("aborted") or (), answer.get("lost") or (), fences=fences)


FAILPOINTS = ("task.acquired", "task.performed", "task.completing", "task.completed")
_failpoint_hooks: list[Callable[[str, str], None]] = []


def pass_failpoint(name: str, operation: str) -> None:
    """Pass a named point of a task; a test hook may end the process here."""
    for hook in _failpoint_hooks:
        hook(name, operation)


def set_failpoint_hook(hook: Callable[[str, str], None] | None) -> None:
    """Call `hook` at every failpoint; None removes the hook."""
    _failpoint_hooks[:] = [] if hook is None else [hook]


# The answer itself is invalid: too large, or with characters that cannot be stored.
_UNREADABLE = (400, 413)


def run_task(agent: Agent, held_task: HeldTask) -> None:
    """Run a task, send its available log lines, and complete it."""
    task = held_task.task
    with resume_trace_context(task.trace_context, "delegate task", delegate_task=task.id):
        started = time.monotonic()
        status = _run_bound_task(agent, held_task, started)
        fields = {"kind": task.kind, "status": status, "duration_ms": _count_milliseconds(started)}
        task_log.info("Task ended", extra=fields)
    agent.work.remove(held_task, failed=status != TaskResult.SUCCEEDED)
    agent.poll_tasks_now.set()


def _run_bound_task(agent: Agent, held_task: HeldTask, started: float) -> str:
    """Run and complete a task; return its status."""
    task = held_task.task
    operation = str(task.params.get("operation", task.kind))
    pass_failpoint("task.acquired", operation)
    lines = agent.spool.open(task.id, task.fence)
    answer = execute_task(held_task, _build_context(agent, lines))
    pass_failpoint("task.performed", operation)
    lines.close()
    upload_remaining_lines(agent, held_task, lines)
    body = answer.to_json() | {
        "fence": task.fence,
        "duration_ms": _count_milliseconds(started),
    }
    pass_failpoint("task.completing", operation)
    _complete(agent, held_task, lines, body)
    pass_failpoint("task.completed", operation)
    return answer.status


def _count_milliseconds(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def _build_context(agent: Agent, lines: TaskLogSink) -> ExecutorContext:
    settings = agent.settings
    # Another project's script could read one project's repositories.
    cache = settings.home / "repositories" if agent.isolation.level != IsolationLevel.NONE else None
    return ExecutorContext(
        lines,
        settings.blocks_shell,
        settings.allowed_operations,
        settings.token_files,
        git_cache=cache,
        isolation=agent.isolation,
    )


def _complete(agent: Agent, held_task: HeldTask, lines: SpooledTaskLog, body: dict[str, Any]) -> None:
    """Send the answer until it is acknowledged or of no more use."""
    backoff, is_replaced = Backoff(first=0.2, most=15), False
    while not agent.ended.is_set():
        counted = {**body, "next_sequence": lines.next_sequence}
        try:
            agent.post_with_session(f"/agent/v1/tasks/{held_task.task.id}/complete", counted)
            return
        except NotRegistered:
            agent.registered.wait(1.0)
        except ManagerUnreachable as problem:
            log.warning("Could not send the result of task %s: %s", held_task.task.id, problem)
            agent.ended.wait(backoff.next())
        except RequestRefused as refusal:
            if refusal.status in _UNREADABLE and not is_replaced:
                log.error("The manager cannot accept the result of task %s: %s", held_task.task.id, refusal)
                body, is_replaced = _replace_answer(body, refusal), True
            elif refusal.status != 429:
                log.warning("The manager refused the result of task %s: %s", held_task.task.id, refusal)
                return
            agent.ended.wait(max(refusal.retry_after, backoff.next()))
        # After an outage the answer must not overtake lines that wait: the manager would refuse them.
        upload_remaining_lines(agent, held_task, lines)


def _replace_answer(body: Mapping[str, Any], refusal: RequestRefused) -> dict[str, Any]:
    """Return a short answer in place of a refused one; without any, the task would count as lost."""
    message = f"the manager cannot accept the result: {refusal}"[:MAX_ERROR_CHARACTERS]
    answer = build_failure("AnswerRefused", message).to_json()
    if body["status"] == TaskResult.SUCCEEDED:
        return {**body, **answer}
    # What they decide stays: whether anything was sent, and whether another delegate may do it.
    kept = {name: value for name, value in (body["error"] or {}).items() if name in ("kind", "capability")}
    return {**body, **answer, "status": body["status"], "error": answer["error"] | kept}


SOCKET_SECONDS = 10.0


def run_tasks(agent: Agent) -> None:
    """Fetch and hand out tasks until the agent ends."""
    backoff = Backoff(first=0.2, most=5)
    if agent.settings.uses_socket:
        # Long polls are for agents without a socket; the first socket may be about to open.
        agent.socket_tried.wait(SOCKET_SECONDS)
    while not agent.ended.is_set():
        agent.poll_tasks_now.clear()
        if not agent.accepts_tasks or not agent.work.free:
            agent.poll_tasks_now.wait(1.0)
            continue
        try:
            tasks = fetch_tasks(agent, wait_seconds=0 if agent.has_socket else agent.limits.poll_seconds)
            backoff.reset()
        except NotRegistered:
            continue
        except (ManagerUnreachable, RequestRefused) as problem:
            log.warning("No tasks could be fetched: %s", problem)
            agent.ended.wait(backoff.next())
            continue
        for task in tasks:
            agent.pool.submit(run_task, agent, agent.work.add(task)).add_done_callback(agent.fail_on_error)
        if not tasks and agent.has_socket:
            # A notice may be lost with its socket; this poll finds its task.
            agent.poll_tasks_now.wait(agent.limits.poll_seconds)


def fetch_tasks(agent: Agent, *, wait_seconds: float) -> list[AgentTask]:
    """Send one fetch request. Raises the errors of `Agent.post_with_session`."""
    requested_at = time.monotonic()
    body = {"wait_seconds": wait_seconds, "free": agent.work.free}
    answer = agent.post_with_session("/agent/v1/tasks/acquire", body, wait_seconds=wait_seconds)
    return [
        task
        for entry in answer.get("tasks") or ()
        if (task := _parse_entry(entry, get_assignment_time(answer, requested_at)))
    ]


def get_assignment_time(answer: Mapping[str, Any], requested_at: float) -> float:
    """Return the earliest time of the assignment on the agent's clock.

    A paused process receives the response late, so its arrival time is useless. Instead the manager reports
    the duration of the poll.
    """
    held_seconds = answer.get("held_seconds")
    now = time.monotonic()
    return now if held_seconds is None else min(requested_at + float(held_seconds), now)


def _parse_entry(entry: Any, acquired_at: float) -> AgentTask | None:
    try:
        return parse_task(entry, acquired_at)
    except (KeyError, TypeError, ValueError) as problem:
        log.error("Unknown task format, this agent may be outdated: %r", problem)
        return None
