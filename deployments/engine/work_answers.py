"""What the answers to work mean: errors in our words, and what is kept of a result."""

from collections.abc import Mapping
from typing import Any, Protocol

from aws.errors import AwsError, NotSent, Undelivered, from_record
from connectors.models import Connector
from delegates.errands import (
    kept_of,
    kept_result,
)
from delegates.owners import BAD_ANSWER, Payload
from delegates.terraform_cloud import OPERATIONS, error_of_terraform
from guards.masks import Mask
from steps.actions.work import SEND_REQUEST, SERVICE


class Ended(Protocol):
    """How work ended, as a delegate or an executor says it."""

    @property
    def status(self) -> str: ...
    @property
    def error(self) -> Mapping[str, Any] | None: ...
    @property
    def result(self) -> Mapping[str, Any] | None: ...


def result_of(
    operation: str, payload: Payload, result: Mapping[str, Any], connector: Connector | None = None
) -> dict[str, Any]:
    """What is kept of a result: a server that is told a secret may say it again."""
    if operation in OPERATIONS:
        return kept_result(connector, operation, result)
    if operation != SEND_REQUEST:
        return kept_of(operation, result)
    return {**result, "body": Mask(payload.mask).text(str(result.get("body", "")))}


def may_be_adopted(operation: str) -> bool:
    """Whether something can show what became of work whose answer is lost."""
    return operation in OPERATIONS


def error_of(answer: Ended, operation: str, *, is_write: bool) -> AwsError | None:
    """What an answer that is not good means; a script that ended with an exit code has been run."""
    if operation in OPERATIONS:
        return error_of_terraform(answer, is_write=is_write)
    error = answer.error or {}
    if error.get("kind") not in (None, "TaskError", "NotSent"):
        return from_record({name: str(value) for name, value in error.items()})
    code, message = str(error.get("code", answer.status)), str(error.get("message") or "no reason was given")
    if answer.status == "SUCCEEDED" or (answer.status == "FAILED" and code in _HAS_RUN):
        return None
    if answer.status == "NOT_SENT" or (error.get("capability") and code in _LACKS):
        return NotSent(code, message, SERVICE)
    return Undelivered(_CODES.get(code, "TASK_FAILED"), _sentence(message), SERVICE)


# It has run, and its result says what came of it.
_HAS_RUN = ("ScriptFailed", "ProgramFailed")

# What another delegate may have.
_LACKS = ("NoInterpreter", "NoGit", "NoTerraform", "ShellBlocked")

_CODES = {
    "Aborted": "TASK_ABORTED",
    "AddressRefused": "ADDRESS_REFUSED",
    BAD_ANSWER: "BAD_ANSWER",
    "BadParameters": "BAD_PARAMETERS",
    "GitFailed": "GIT_FAILED",
    "HostKeyChanged": "HOST_KEY_CHANGED",
    "NameNotResolved": "NOT_REACHED",
    "NoAnswer": "NOT_REACHED",
    "NoBackend": "NO_BACKEND",
    "NotConnected": "NOT_REACHED",
    "OutputsTooLarge": "OUTPUTS_TOO_LARGE",
    "PlanTooLarge": "PLAN_TOO_LARGE",
    "TimedOut": "TIMED_OUT",
}


def _sentence(text: str) -> str:
    told = text.strip().rstrip(".")
    return f"{told[:1].upper()}{told[1:]}."
