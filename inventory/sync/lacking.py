"""Which parts of the picture AWS keeps back: policy or delegate deny a call that sync can do without."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from aws.errors import AwsError, Denied
from aws.names import iam_action
from delegates.next_steps import role_of
from inventory.sync import columns
from inventory.sync.reading import Question, operation_of

ASKED_AGAIN: Final = timedelta(hours=1)
Lacking = Sequence[Mapping[str, Any]]


def with_one(known: Lacking, question: Question, error: AwsError, now: datetime) -> list[Mapping[str, Any]]:
    """The same parts and this one."""
    denied = error if isinstance(error, Denied) else None
    entry = {
        "operation": question.operation,
        "action": columns.text(
            denied.action if denied else iam_action(question.service, question.operation), 128
        ),
        "why": columns.text(error.sentence),
        "principal": columns.text(role_of(denied.principal)) if denied else "",
        "until": (now + ASKED_AGAIN).isoformat(),
    }
    return [*without(known, question), entry]


def without(known: Lacking, question: Question) -> list[Mapping[str, Any]]:
    """The same parts without the one that this call tells."""
    return [one for one in known if one.get("operation") != question.operation]


def forgotten(known: Lacking, phase: str) -> list[Mapping[str, Any]]:
    """The same parts without the one of a phase, of which nothing is wanted any more."""
    return [one for one in known if one.get("operation") != operation_of(phase)]


def names(known: Lacking, operation: str) -> bool:
    """Whether what this operation tells is kept back."""
    return any(one.get("operation") == operation for one in known)


def holds(known: Lacking, phase: str, now: datetime) -> bool:
    """Whether what a phase asks for was kept back a short while ago."""
    kept = [one for one in known if one.get("operation") == operation_of(phase)]
    return any((until := columns.moment(one.get("until"))) and until > now for one in kept)


def was_told_since(one: Mapping[str, Any] | None, moment: datetime | None) -> bool:
    """Whether what a part would have told was read, at that moment, after it was kept back."""
    until = columns.moment(one.get("until")) if one else None
    return until is not None and moment is not None and moment > until - ASKED_AGAIN
