"""Chooses the executor of a task and turns whatever happens into an answer."""

import logging
import time
from collections.abc import Callable, Mapping

from delegates.agent.executors.answers import Answer, Surroundings, aborted, failed, not_sent
from delegates.agent.executors.aws import run_aws
from delegates.agent.work import Held

Executor = Callable[[Held, Surroundings], Answer]
log = logging.getLogger("slipway.delegate")

EXECUTORS: Mapping[str, Executor] = {"aws": run_aws}


def execute(held: Held, around: Surroundings) -> Answer:
    """Run a task to its end, whatever its kind. Never raises for what a task did."""
    task = held.task
    executor = EXECUTORS.get(task.kind.lower())
    if executor is None:
        return failed("UnknownTask", f"this delegate cannot run tasks of kind {task.kind!r}: upgrade it")
    if held.stopped.is_set():
        return aborted()
    if task.is_write and time.monotonic() > task.send_before:
        return not_sent("TooLate", f"{task.send_within_seconds:g} s had passed before it could be sent")
    try:
        return executor(held, around)
    except (KeyError, TypeError, ValueError) as problem:
        log.exception("Task %s has parameters that cannot be used", task.id)
        return failed("BadParameters", f"the parameters of the task cannot be used: {problem!r}")
    except Exception as problem:
        # A bug in one executor must not leave its task without an answer.
        log.exception("Task %s met an error of the delegate's own", task.id)
        return failed("DelegateError", f"an error of the delegate's own: {type(problem).__name__}")
