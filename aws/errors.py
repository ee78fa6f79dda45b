"""Errors of AWS calls, classified by whether the call can be retried or may have taken effect."""

import re
from typing import Any, ClassVar

from aws.operations import get_iam_action

_DENIED_ACTION = re.compile(r"not authorized to perform: ?([\w-]+:\w+)")
_DENIED_RESOURCE = re.compile(r"on resource: ?(\S+)")
_DENIED_PRINCIPAL = re.compile(r"(?:User|Principal): ?(\S+) is not authorized")


class AwsError(Exception):
    """Error of an AWS call; subclasses give the reason where it changes the next action.

    `may_have_happened` is true only for a write that may have taken effect without a usable response, and for
    the refusal of its repetition. `is_retryable` is true if the same call may succeed later. The caller
    decides about a retry, because only the caller can tell a write from a read.
    """

    may_have_happened: bool = False
    is_retryable: ClassVar[bool] = False

    def __init__(self, code: str, message: str, service: str = "", operation: str = "") -> None:
        super().__init__(code, message, service, operation)
        self.code = code
        self.message = message
        self.service = service
        self.operation = operation

    @property
    def display_message(self) -> str:
        """Return the error as a person should read it."""
        text = self.message.rstrip(".") or "no reason given"
        return f"AWS refused {self._call}: {text} ({self.code})."

    @property
    def _call(self) -> str:
        return f"{self.service} {self.operation}".strip() or "the call"

    def __str__(self) -> str:
        return self.display_message

    def to_record(self) -> dict[str, Any]:
        """Return the error as JSON, for the journal; `parse_error_record` makes it an exception again."""
        return {
            "kind": type(self).__name__,
            "code": self.code,
            "message": self.message,
            "service": self.service,
            "operation": self.operation,
        }


class NotFound(AwsError):
    """Error raised for a missing resource."""

    @property
    def display_message(self) -> str:
        return f"AWS cannot find the resource of {self._call}: {self.message.rstrip('.')} ({self.code})."


# Of Application Auto Scaling, for a call that succeeds a little later: another update is pending, or a new
# scalable target is not visible yet.
PENDING_UPDATE_CODE, NOT_VISIBLE_CODE = "ConcurrentUpdateException", "ObjectNotFoundException"


class Throttled(AwsError):
    """Error raised for a throttled call, which had no effect; retry later."""

    is_retryable = True

    @property
    def display_message(self) -> str:
        if self.code in (PENDING_UPDATE_CODE, NOT_VISIBLE_CODE):
            return f"AWS refused {self._call} for now: {self.message.rstrip('.')} ({self.code})."
        return f"AWS is throttling {self._call} ({self.code}): too many calls in this account and region."


class Invalid(AwsError):
    """Error raised for parameters that are invalid or contradict the current state."""


class Unauthenticated(AwsError):
    """The credentials themselves are missing, unknown or expired."""

    @property
    def display_message(self) -> str:
        text = self.message.rstrip(".")
        return f"The credentials were not accepted for {self._call}: {text} ({self.code})."


class Denied(AwsError):
    """The credentials are good, but a policy does not allow this action."""

    def __init__(
        self,
        code: str,
        message: str,
        service: str = "",
        operation: str = "",
        *,
        action: str = "",
        resource: str = "",
        principal: str = "",
    ) -> None:
        super().__init__(code, message, service, operation)
        self.action = action or _search_group(_DENIED_ACTION, message) or get_iam_action(service, operation)
        self.resource = resource or _search_group(_DENIED_RESOURCE, message).rstrip(".,")
        self.principal = principal or _search_group(_DENIED_PRINCIPAL, message)

    @property
    def display_message(self) -> str:
        holder = f" of {self.principal}" if self.principal else " of these credentials"
        return f"{self.refusal}: allow this action in the IAM policy{holder}."

    @property
    def refusal(self) -> str:
        """Return what AWS denied, without the remedy."""
        return f"AWS denied {self.action}" + (f" on {self.resource}" if self.resource else "")

    def to_record(self) -> dict[str, Any]:
        return super().to_record() | {
            "action": self.action,
            "resource": self.resource,
            "principal": self.principal,
        }


class NotSent(AwsError):
    """The call never reached AWS: no address, no connection, no time left to send it."""

    is_retryable = True

    @property
    def display_message(self) -> str:
        return f"{self._call} was not sent: {self.message.rstrip('.')} ({self.code})."


class Unavailable(NotSent):
    """Error raised by an unavailable service; the message is a whole sentence, the call had no effect."""

    @property
    def display_message(self) -> str:
        return self.message


class Unanswered(AwsError):
    """Error raised without a usable response: a write may have taken effect."""

    may_have_happened = True
    is_retryable = True

    @property
    def display_message(self) -> str:
        return f"AWS did not respond to {self._call}: {self.message.rstrip('.')} ({self.code})."


class Undelivered(AwsError):
    """Error of a call that no delegate made; the message is a complete sentence."""

    @property
    def display_message(self) -> str:
        return self.message


def parse_error_record(record: dict[str, Any]) -> AwsError:
    """Return the exception of a `to_record` record; an unknown kind becomes a plain `AwsError`.

    Agents send such records too: unknown keys are dropped.
    """
    error_class = _ERROR_CLASSES.get(str(record.get("kind")), AwsError)
    fields = (*_COMMON_FIELDS, *_DENIED_FIELDS) if error_class is Denied else _COMMON_FIELDS
    return error_class(**{key: str(record.get(key) or "") for key in fields})


_COMMON_FIELDS = ("code", "message", "service", "operation")
_DENIED_FIELDS = ("action", "resource", "principal")
_ERROR_CLASSES: dict[str, type[AwsError]] = {
    kind.__name__: kind
    for kind in (
        AwsError,
        NotFound,
        Throttled,
        Invalid,
        Unauthenticated,
        Denied,
        NotSent,
        Unavailable,
        Unanswered,
        Undelivered,
    )
}


def find_denied_action(text: str) -> str:
    """Return the IAM action that a reason of AWS names as denied; empty if it names none."""
    return _search_group(_DENIED_ACTION, text)


def _search_group(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1) if match else ""
