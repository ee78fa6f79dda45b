"""Which parts of the picture AWS keeps back: policy or delegate deny a call that sync can do without."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from aws.errors import AwsError, Denied
from aws.names import iam_action
from instances import columns
from instances.reading import Question, operation_of

ASKED_AGAIN: Final = timedelta(hours=1)
Lacking = Sequence[Mapping[str, Any]]


def with_one(known: Lacking, question: Question, error: AwsError, now: datetime) -> list[Mapping[str, Any]]:
    """The same parts and this one."""
    denied = error.action if isinstance(error, Denied) else ""
    entry = {
        "operation": question.operation,
        "action": columns.text(denied or iam_action(question.service, question.operation), 128),
        "why": columns.text(error.sentence),
        "until": (now + ASKED_AGAIN).isoformat(),
    }
    return [*without(known, question), entry]


def without(known: Lacking, question: Question) -> list[Mapping[str, Any]]:
    """The same parts without the one that this call tells."""
    return [one for one in known if one.get("operation") != question.operation]


def holds(known: Lacking, phase: str, now: datetime) -> bool:
    """Whether what a phase asks for was kept back a short while ago."""
    kept = [one for one in known if one.get("operation") == operation_of(phase)]
    return any((until := columns.moment(one.get("until"))) and until > now for one in kept)
