"""Reads that IAM or a delegate denies, or that fail otherwise; sync continues without them for an hour."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from aws.errors import AwsError, Denied
from delegates.access.remedies import get_role_arn
from inventory.sync import column_values
from inventory.sync.cursor import ReadCall, get_describe_operation

RETRY_INTERVAL: Final = timedelta(hours=1)
DeniedReads = Sequence[Mapping[str, Any]]


def add_denied_read(
    entries: DeniedReads, call: ReadCall, error: AwsError, now: datetime
) -> list[Mapping[str, Any]]:
    """Return the denied reads with this one added; its `action` is empty if no permission is missing."""
    denial = error if isinstance(error, Denied) else None
    entry = {
        "operation": call.operation,
        "action": column_values.clean_text(denial.action, 128) if denial else "",
        "why": column_values.clean_text(error.display_message),
        "principal": column_values.clean_text(get_role_arn(denial.principal)) if denial else "",
        "until": (now + RETRY_INTERVAL).isoformat(),
    }
    return [*remove_denied_read(entries, call), entry]


def remove_denied_read(entries: DeniedReads, call: ReadCall) -> list[Mapping[str, Any]]:
    """Return the denied reads without the one of this call."""
    return [entry for entry in entries if entry.get("operation") != call.operation]


def remove_phase(entries: DeniedReads, phase: str) -> list[Mapping[str, Any]]:
    """Return the denied reads without the one of a phase that reads nothing any more."""
    return [entry for entry in entries if entry.get("operation") != get_describe_operation(phase)]


def is_operation_denied(entries: DeniedReads, operation: str) -> bool:
    """Return whether reads of this operation are denied."""
    return any(entry.get("operation") == operation for entry in entries)


def is_phase_denied(entries: DeniedReads, phase: str, now: datetime) -> bool:
    """Return whether the read of a phase was denied recently."""
    matching = [entry for entry in entries if entry.get("operation") == get_describe_operation(phase)]
    return any(
        (retry_at := column_values.parse_datetime(entry.get("until"))) and retry_at > now
        for entry in matching
    )


def is_read_since(entry: Mapping[str, Any] | None, moment: datetime | None) -> bool:
    """Return whether a read succeeded at `moment`, after its denial."""
    retry_at = column_values.parse_datetime(entry.get("until")) if entry else None
    return retry_at is not None and moment is not None and moment > retry_at - RETRY_INTERVAL
