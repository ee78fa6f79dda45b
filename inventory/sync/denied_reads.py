"""Reads that IAM or a delegate denies; sync continues without them and retries every hour."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from aws.errors import AwsError, Denied
from aws.operations import get_iam_action
from delegates.access.remedies import get_role_arn
from inventory.sync import column_values
from inventory.sync.cursor import ReadCall, get_describe_operation

RETRY_INTERVAL: Final = timedelta(hours=1)
DeniedReads = Sequence[Mapping[str, Any]]


def add_denied_read(
    known: DeniedReads, question: ReadCall, error: AwsError, now: datetime
) -> list[Mapping[str, Any]]:
    """The same parts and this one."""
    denied = error if isinstance(error, Denied) else None
    entry = {
        "operation": question.operation,
        "action": column_values.clean_text(
            denied.action if denied else get_iam_action(question.service, question.operation), 128
        ),
        "why": column_values.clean_text(error.display_message),
        "principal": column_values.clean_text(get_role_arn(denied.principal)) if denied else "",
        "until": (now + RETRY_INTERVAL).isoformat(),
    }
    return [*remove_denied_read(known, question), entry]


def remove_denied_read(known: DeniedReads, question: ReadCall) -> list[Mapping[str, Any]]:
    """The same parts without the one that this call tells."""
    return [one for one in known if one.get("operation") != question.operation]


def remove_phase(known: DeniedReads, phase: str) -> list[Mapping[str, Any]]:
    """The same parts without the one of a phase, of which nothing is wanted any more."""
    return [one for one in known if one.get("operation") != get_describe_operation(phase)]


def is_operation_denied(known: DeniedReads, operation: str) -> bool:
    """Whether what this operation tells is kept back."""
    return any(one.get("operation") == operation for one in known)


def is_phase_denied(known: DeniedReads, phase: str, now: datetime) -> bool:
    """Whether what a phase asks for was kept back a short while ago."""
    kept = [one for one in known if one.get("operation") == get_describe_operation(phase)]
    return any((until := column_values.parse_datetime(one.get("until"))) and until > now for one in kept)


def is_read_since(one: Mapping[str, Any] | None, moment: datetime | None) -> bool:
    """Whether what a part would have told was read, at that moment, after it was kept back."""
    until = column_values.parse_datetime(one.get("until")) if one else None
    return until is not None and moment is not None and moment > until - RETRY_INTERVAL
