"""Fetches tasks: at once when told that there is one, by long poll where no socket tells (R015, R016)."""

import time
from collections.abc import Mapping
from typing import Any

from delegates.agent.backoff import Backoff
from delegates.agent.manager import Refused, Unreachable
from delegates.agent.performing import perform
from delegates.agent.program import Agent, NotRegistered, log
from delegates.agent.work import Task, read_task

SOCKET_SECONDS = 10.0


def acquiring(agent: Agent) -> None:
    """Fetch and hand out tasks until the agent ends."""
    backoff = Backoff(first=0.2, most=5)
    if agent.settings.uses_socket:
        # A long poll is for where there is no socket; the first one may be about to open.
        agent.socket_tried.wait(SOCKET_SECONDS)
    while not agent.ended.is_set():
        agent.look_for_tasks.clear()
        if not agent.takes_tasks or not agent.work.free:
            agent.look_for_tasks.wait(1.0)
            continue
        try:
            tasks = acquire(agent, wait_seconds=0 if agent.has_socket else agent.terms.poll_seconds)
            backoff.reset()
        except NotRegistered:
            continue
        except (Unreachable, Refused) as problem:
            log.warning("No tasks could be fetched: %s", problem)
            agent.ended.wait(backoff.next())
            continue
        for task in tasks:
            agent.pool.submit(perform, agent, agent.work.take(task)).add_done_callback(agent.look_after)
        if not tasks and agent.has_socket:
            # A notice may get lost with its socket; this look finds what it spoke of.
            agent.look_for_tasks.wait(agent.terms.poll_seconds)


def acquire(agent: Agent, *, wait_seconds: float) -> list[Task]:
    """One fetch. Raises what `Agent.ask` raises."""
    asked_at = time.monotonic()
    body = {"wait_seconds": wait_seconds, "free": agent.work.free}
    answer = agent.ask("/agent/v1/tasks/acquire", body, wait_seconds=wait_seconds)
    return [task for entry in answer.get("tasks") or () if (task := _read(entry, given_at(answer, asked_at)))]


def given_at(answer: Mapping[str, Any], asked_at: float) -> float:
    """When the manager gave the tasks away, at the earliest, by our own clock.

    The answer may have lain in a socket for long while this process was stopped, so its arrival says nothing;
    the manager says how long it held the question instead.
    """
    held_seconds = answer.get("held_seconds")
    now = time.monotonic()
    return now if held_seconds is None else min(asked_at + float(held_seconds), now)


def _read(entry: Any, acquired_at: float) -> Task | None:
    try:
        return read_task(entry, acquired_at)
    except (KeyError, TypeError, ValueError) as problem:
        log.error("A task came in a form that this agent (too old?) cannot read: %r", problem)
        return None
