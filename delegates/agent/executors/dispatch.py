"""Table of executors by kind, and the run of one task to its result."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from delegates.agent.executors.aws import run_aws
from delegates.agent.executors.docker_registry import run_docker_registry
from delegates.agent.executors.doctor import run_doctor
from delegates.agent.executors.git import run_git
from delegates.agent.executors.http import run_check, run_http
from delegates.agent.executors.shell import run_shell
from delegates.agent.executors.task_results import (
    ExecutorContext,
    TaskResult,
    build_aborted,
    build_failure,
    build_not_sent,
)
from delegates.agent.executors.terraform import run_terraform
from delegates.agent.isolation import CannotIsolate
from delegates.agent.tasks import HeldTask
from guards.address_policy import AddressRefused
from guards.environment_secrets import list_proxy_secrets
from guards.masks import SecretMask
from guards.safe_http import RequestFailed, ResponseTooLarge
from guards.urls import HostNotResolved

Executor = Callable[[HeldTask, ExecutorContext], TaskResult]
log = logging.getLogger("slipway.delegate")

EXECUTORS: Mapping[str, Executor] = {
    "aws": run_aws,
    "check": run_check,
    "docker_registry": run_docker_registry,
    "doctor": run_doctor,
    "git": run_git,
    "http": run_http,
    "shell": run_shell,
    "terraform": run_terraform,
}


def execute_task(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    """Run a task of any kind until it ends. Never raises an error of the task."""
    task = held_task.task
    executor = EXECUTORS.get(task.kind.lower())
    if executor is None:
        # A delegate of a newer release may have it.
        message = f"this delegate cannot run tasks of kind {task.kind!r}: upgrade it"
        return build_failure("UnknownTask", message, capability=True)
    if held_task.stopped.is_set():
        return build_aborted()
    if task.is_write and time.monotonic() > task.send_before:
        return build_not_sent("TooLate", f"{task.send_within_seconds:g} s had passed before it could be sent")
    # Scripts and other programs inherit the proxy.
    mask = SecretMask((*task.mask, *list_proxy_secrets()))
    return _redact_result(_run(executor, held_task, replace(around, mask=mask)), mask)


# A server's message may be longer than the manager accepts an answer.
MAX_ERROR_CHARACTERS = 4_000
# The manager knows these codes.
_WIRE_CODES = {AddressRefused: "AddressRefused", ResponseTooLarge: "TooMuch"}


def _run(executor: Executor, held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    try:
        return executor(held_task, around)
    except HostNotResolved as problem:
        return build_failure("NameNotResolved", str(problem), capability=True)
    except RequestFailed as problem:
        return build_failure(problem.code, problem.message, capability=problem.is_local_failure)
    except (AddressRefused, ResponseTooLarge) as problem:
        return build_failure(_WIRE_CODES[type(problem)], str(problem))
    except CannotIsolate as problem:
        return build_failure("NotIsolated", str(problem), capability=True)
    except ValueError as problem:
        return build_failure("BadParameters", str(problem))
    except (KeyError, TypeError) as problem:
        return build_failure("BadParameters", f"the parameters of the task cannot be used: {problem!r}")
    except Exception as problem:
        # A bug in one executor must not leave its task without an answer.
        log.exception("Internal error in task %s", held_task.task.id)
        return build_failure("DelegateError", f"an internal error of the delegate: {type(problem).__name__}")


def _redact_result(answer: TaskResult, mask: SecretMask) -> TaskResult:
    """Return the answer with the texts of its error redacted, then cut; the result is unchanged."""
    if answer.error is None:
        return answer
    # After the redaction: a cut could split a secret.
    hidden = {
        key: mask.mask_text(value)[:MAX_ERROR_CHARACTERS] if isinstance(value, str) else value
        for key, value in answer.error.items()
    }
    return replace(answer, error=hidden)
