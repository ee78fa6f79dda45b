"""Failure strategies of steps: error types, reactions, and the choice of a reaction."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
ALL_ERRORS = "AllErrors"
ERROR_TYPES = (
    ALL_ERRORS,
    "ApprovalRejection",
    "Authentication",
    "Authorization",
    "Connectivity",
    "DelegateProvisioning",
    "DelegateRestart",
    "InputTimeoutError",
    "PolicyEvaluationFailure",
    "Timeout",
    "Unknown",
    "UserMarkedFailure",
    "Verification",
)
FINAL_REACTIONS = ("Abort", "Ignore", "MarkAsFailure", "MarkAsSuccess", "StageRollback")
_PASSING_REACTIONS = ("Ignore", "MarkAsSuccess")
REACTIONS_AFTER_RETRIES = (*FINAL_REACTIONS, "ManualIntervention")
REACTIONS = (*REACTIONS_AFTER_RETRIES, "Retry")

_ERROR_TYPES_BY_CODE = {
    "APPROVAL_EXPIRED": "Timeout",
    "APPROVAL_REJECTED": "ApprovalRejection",
    "ACCESS_DENIED": "Authorization",
    "CREDENTIALS_REFUSED": "Authentication",
    "CONNECTOR_NOT_USABLE": "Connectivity",
    "MARKED_AS_FAILURE": "UserMarkedFailure",
    "NO_DELEGATE": "DelegateProvisioning",
    "POLICY_VIOLATED": "PolicyEvaluationFailure",
    "TIMED_OUT": "Timeout",
}
_OUTCOME_CODES = ("FAILED", "ROLLED_BACK_BY_AWS", "SUPERSEDED")


@dataclass(frozen=True)
class FailureReaction:
    """Reaction to a failure; `then` is the next reaction if this one fails."""

    type: str
    count: int = 0
    intervals: tuple[int, ...] = ()
    """Seconds before the first retry, the second, and so on; the last one repeats."""
    timeout: int = 0
    """Seconds that a manual intervention waits for a person."""
    then: "FailureReaction | None" = None

    def get_retry_pause(self, retry: int) -> int:
        """Return the seconds to wait before the retry of this number, counted from 0."""
        return self.intervals[min(retry, len(self.intervals) - 1)] if self.intervals else 0


DEFAULT_REACTION = FailureReaction("StageRollback")


def classify_error(code: str, *, has_verdict: bool = False) -> str:
    """Return the error type of a failure code, as strategies name it.

    `has_verdict` means that the code is the result of an ECS deployment, not of a refused call.
    """
    return _ERROR_TYPES_BY_CODE.get(
        code, "Verification" if has_verdict or code in _OUTCOME_CODES else "Unknown"
    )


def parse_failure_strategies(documents: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return `failureStrategies` of a pipeline, valid by the schema, in the form that a step stores."""
    return tuple(
        {
            "errors": list(document["onFailure"]["errors"]),
            "action": asdict(_parse_reaction(document["onFailure"]["action"])),
        }
        for document in documents
    )


def choose_reaction(strategies: Iterable[Mapping[str, Any]], error: str) -> FailureReaction:
    """Return the reaction of the first strategy with this error or all; else a stage rollback."""
    for strategy in strategies:
        if error in strategy["errors"] or ALL_ERRORS in strategy["errors"]:
            return read_reaction(strategy["action"])
    return DEFAULT_REACTION


def hold_approval(reaction: FailureReaction) -> FailureReaction:
    """Return the reaction to a failed approval: what would let the run pass becomes a rollback."""
    if reaction.type in _PASSING_REACTIONS:
        return DEFAULT_REACTION
    return replace(reaction, then=hold_approval(reaction.then)) if reaction.then else reaction


def read_reaction(record: Mapping[str, Any]) -> FailureReaction:
    """Return a reaction from its stored form."""
    then = record.get("then")
    return FailureReaction(
        type=record["type"],
        count=record.get("count", 0),
        intervals=tuple(record.get("intervals", ())),
        timeout=record.get("timeout", 0),
        then=read_reaction(then) if then else None,
    )


def _parse_reaction(document: Mapping[str, Any]) -> FailureReaction:
    spec = document.get("spec") or {}
    next_reaction = spec.get("onRetryFailure") or spec.get("onTimeout")
    return FailureReaction(
        type=document["type"],
        count=spec.get("retryCount", 0),
        intervals=tuple(parse_duration(interval) for interval in spec.get("retryIntervals", ())),
        timeout=parse_duration(spec.get("timeout", "0s")),
        then=_parse_reaction(next_reaction["action"]) if next_reaction else None,
    )


def parse_duration(duration: str) -> int:
    """Return the seconds of a duration such as 90s, 30m, 2h or 1d."""
    return int(duration[:-1]) * _UNIT_SECONDS[duration[-1]]
