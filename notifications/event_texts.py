"""Texts of events: one sentence for each, in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

# As many fields as a line of chat has room for.
MOST_NAMED_FIELDS: Final = 5
_END_PHRASES: Final = {
    "SUCCESS": "succeeded",
    "IGNORE_FAILED": "succeeded, with a failure that was ignored",
    "ABORTED": "was aborted",
    "EXPIRED": "expired",
    "APPROVAL_REJECTED": "was rejected",
    "ROLLED_BACK": "was rolled back",
}


@dataclass(frozen=True)
class ExecutionSubject:
    """Execution by its name, such as "Release #12", and what it deploys to where."""

    name: str
    services: Sequence[str]
    environments: Sequence[str]

    def describe(self, phrase: str, cause: str = "") -> str:
        """Return the sentence with a phrase, such as "rolls back", and its cause."""
        location = (
            f" ({', '.join(self.services)} to {', '.join(self.environments)})"
            if self.services and self.environments
            else ""
        )
        return f"{self.name} {phrase}{location}{f': {cause}' if cause else '.'}"


def add_advice(text: str, advice: str) -> str:
    """Return the sentence of a failure with what to do about it, where that is known."""
    return f"{text.rstrip('.')}. What to do: {advice}" if advice else text


def describe_end(status: str, *, was_rolled_back: bool) -> str:
    """Return the phrase for the end of an execution."""
    phrase = _END_PHRASES.get(status, "failed")
    return f"{phrase} and was rolled back" if was_rolled_back and status != "ROLLED_BACK" else phrase


def describe_start() -> str:
    """Return the phrase for the start of an execution."""
    return "started"


def describe_rollback() -> str:
    """Return the phrase for the start of a rollback."""
    return "rolls back"


def describe_approval(groups: Sequence[str], until: str) -> str:
    """Return the phrase for an approval that waits."""
    return f"awaits approval by {', '.join(groups)} until {until}"


def describe_intervention(step: str, until: str) -> str:
    """Return the phrase for a failed step that waits for a decision; `until` may be empty."""
    return f"awaits manual intervention at step {step}{f' until {until}' if until else ''}"


def list_drifted_fields(fields: Sequence[str]) -> str:
    """Return the first fields, and the number of the others."""
    more = len(fields) - MOST_NAMED_FIELDS
    return f"{', '.join(fields[:MOST_NAMED_FIELDS])}{f' and {more} more' if more > 0 else ''}"


def describe_drift(service: str, environment: str, fields: Sequence[str]) -> str:
    """Return the sentence for an ECS service that differs from its deployment."""
    return f"{service} was changed outside Slipway: {list_drifted_fields(fields)}{_locate(environment)}."


def describe_drift_end(service: str, environment: str, reason: str) -> str:
    """Return the sentence for one that no longer differs, or with a reason, that is not compared."""
    if reason:
        return f"{service} is no longer compared{_locate(environment)}: {reason}"
    return f"{service} matches its last deployment again{_locate(environment)}."


def _locate(environment: str) -> str:
    return f" in {environment}" if environment else ""


def describe_delegate(name: str, *, is_away: bool) -> str:
    """Return the sentence for a delegate that disconnected or connected."""
    return f"Delegate {name} {'is disconnected: no heartbeat' if is_away else 'is connected'}."


def describe_failed_upgrade(name: str, cause: str) -> str:
    """Return the sentence for an automatic upgrade of a delegate that failed."""
    return f"The automatic upgrade of delegate {name} failed: {cause}"


def describe_git_sync(name: str, cause: str = "") -> str:
    """Return the sentence for a Git sync that failed with a cause, or works again."""
    return f"Git sync {name} failed: {cause}" if cause else f"Git sync {name} works again."


def describe_digest(counts: Mapping[str, int], since: datetime, now: datetime) -> str:
    """Return the sentence of a digest; `counts` are the numbers of events by their title."""
    kinds = ", ".join(f"{number} × {title}" for title, number in counts.items())
    minutes = max(1, round((now - since).total_seconds() / 60))
    return f"{sum(counts.values())} events in {minutes} min: {kinds}."


def describe_test(rule: str, username: str) -> str:
    """Return the sentence of a test."""
    return f"Test of the notification rule {rule}, sent by {username}. No action needed."
