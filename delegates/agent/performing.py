"""Runs one task in a thread of the pool and answers it, until the manager has the answer."""

import time
from typing import Any

from delegates.agent.backoff import Backoff
from delegates.agent.executors import Answer, Lines, Surroundings, execute
from delegates.agent.executors.answers import failed
from delegates.agent.failpoints import failpoint
from delegates.agent.isolation import Level
from delegates.agent.logs.uploading import upload_rest
from delegates.agent.manager import Refused, Unreachable
from delegates.agent.program import Agent, NotRegistered, log
from delegates.agent.work import Held

# The answer itself is at fault, because it is too large or holds what the manager cannot keep.
_UNREADABLE = (400, 413)


def perform(agent: Agent, held: Held) -> None:
    """Run a task, send its log as far as that goes now, and complete it."""
    started = time.monotonic()
    task = held.task
    what = str(task.params.get("operation", task.kind))
    failpoint("task.acquired", what)
    lines = agent.spool.open(task.id, task.fence)
    answer = execute(held, _surroundings(agent, lines))
    failpoint("task.performed", what)
    lines.close()
    upload_rest(agent, held, lines)
    body = answer.to_json() | {
        "fence": task.fence,
        "next_sequence": lines.next_sequence,
        "duration_ms": round((time.monotonic() - started) * 1000),
    }
    failpoint("task.completing", what)
    _complete(agent, held, body)
    failpoint("task.completed", what)
    agent.work.let_go(held, failed=answer.status != Answer.SUCCEEDED)
    agent.look_for_tasks.set()


def _surroundings(agent: Agent, lines: Lines) -> Surroundings:
    said = agent.settings
    # What one project's repositories hold, another one's script would read there.
    cache = said.home / "repositories" if agent.isolation.level != Level.NONE else None
    return Surroundings(
        lines, said.blocks_shell, said.allowed_operations, git_cache=cache, isolation=agent.isolation
    )


def _complete(agent: Agent, held: Held, body: dict[str, Any]) -> None:
    """Send the answer until it is acknowledged or of no more use."""
    backoff = Backoff(first=0.2, most=15)
    while not agent.ended.is_set():
        try:
            agent.ask(f"/agent/v1/tasks/{held.task.id}/complete", body)
            return
        except NotRegistered:
            agent.registered.wait(1.0)
        except Unreachable as problem:
            log.warning("The answer of task %s did not arrive: %s", held.task.id, problem)
            agent.ended.wait(backoff.next())
        except Refused as refusal:
            if refusal.status in _UNREADABLE and body.get("result"):
                log.error("The manager cannot take the answer of task %s: %s", held.task.id, refusal)
                body |= failed("AnswerRefused", f"the manager cannot take the answer: {refusal}").to_json()
            elif refusal.status != 429:
                log.warning("The manager did not take the answer of task %s: %s", held.task.id, refusal)
                return
            agent.ended.wait(max(refusal.retry_after, backoff.next()))
