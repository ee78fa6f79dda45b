"""Chooses the executor of a task and turns whatever happens into an answer."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from delegates.agent.executors.answers import Answer, Surroundings, aborted, failed, not_sent
from delegates.agent.executors.aws import run_aws
from delegates.agent.executors.check import run_check
from delegates.agent.executors.docker_registry import run_docker_registry
from delegates.agent.executors.git import run_git
from delegates.agent.executors.http import run_http
from delegates.agent.executors.shell import run_shell
from delegates.agent.executors.terraform import run_terraform
from delegates.agent.isolation import CannotIsolate
from delegates.agent.work import Held
from guards.addresses import AddressRefused
from guards.masks import Mask
from guards.places import NameNotResolved
from guards.safe_http import NotReached, TooMuch

Executor = Callable[[Held, Surroundings], Answer]
log = logging.getLogger("slipway.delegate")

EXECUTORS: Mapping[str, Executor] = {
    "aws": run_aws,
    "check": run_check,
    "docker_registry": run_docker_registry,
    "git": run_git,
    "http": run_http,
    "shell": run_shell,
    "terraform": run_terraform,
}


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
    mask = Mask(task.mask)
    return _masked(_run(executor, held, replace(around, mask=mask)), mask)


def _run(executor: Executor, held: Held, around: Surroundings) -> Answer:
    try:
        return executor(held, around)
    except NameNotResolved as problem:
        return failed("NameNotResolved", str(problem), capability=True)
    except NotReached as problem:
        return failed(problem.code, problem.message, capability=problem.capability)
    except (AddressRefused, TooMuch) as problem:
        return failed(type(problem).__name__, str(problem))
    except CannotIsolate as problem:
        return failed("NotIsolated", str(problem), capability=True)
    except ValueError as problem:
        return failed("BadParameters", str(problem))
    except (KeyError, TypeError) as problem:
        return failed("BadParameters", f"the parameters of the task cannot be used: {problem!r}")
    except Exception as problem:
        # A bug in one executor must not leave its task without an answer.
        log.exception("Task %s met an error of the delegate's own", held.task.id)
        return failed("DelegateError", f"an error of the delegate's own: {type(problem).__name__}")


def _masked(answer: Answer, mask: Mask) -> Answer:
    """The same with secrets hidden in what people read; the result is values, kept as they are."""
    if answer.error is None:
        return answer
    hidden = {
        key: mask.text(value) if isinstance(value, str) else value for key, value in answer.error.items()
    }
    return replace(answer, error=hidden)
