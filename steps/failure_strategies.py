"""Failure strategies of steps: error types, reactions, and the choice of a reaction."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
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
    "TIMED_OUT": "Timeout",
}
_OUTCOME_CODES = ("FAILED", "ROLLED_BACK_BY_AWS", "SUPERSEDED")


@dataclass(frozen=True)
class FailureReaction:
    """What is done about a failure; `then` follows where this comes to nothing."""

    type: str
    count: int = 0
    intervals: tuple[int, ...] = ()
    """Seconds before the first retry, the second, and so on; the last one stays."""
    timeout: int = 0
    """Seconds for which a person is asked."""
    then: "FailureReaction | None" = None

    def pause_before(self, retry: int) -> int:
        """Seconds to wait before the retry of this number, counted from 0."""
        return self.intervals[min(retry, len(self.intervals) - 1)] if self.intervals else 0


DEFAULT_REACTION = FailureReaction("StageRollback")


def classify_error(code: str, *, has_verdict: bool = False) -> str:
    """Return the kind of error that strategies name, of a failure's code.

    `was_judged`: the code says how a deployment to ECS ended, not why a call was refused.
    """
    return _ERROR_TYPES_BY_CODE.get(
        code, "Verification" if has_verdict or code in _OUTCOME_CODES else "Unknown"
    )


def parse_failure_strategies(written: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """What `failureStrategies` says, which keeps to the schema, as a step's row keeps it."""
    return tuple(
        {
            "errors": list(one["onFailure"]["errors"]),
            "action": asdict(_parse_reaction(one["onFailure"]["action"])),
        }
        for one in written
    )


def choose_reaction(strategies: Iterable[Mapping[str, Any]], error: str) -> FailureReaction:
    """The reaction of the first strategy that names this error or all; else the stage is rolled back."""
    for strategy in strategies:
        if error in strategy["errors"] or ALL_ERRORS in strategy["errors"]:
            return read_reaction(strategy["action"])
    return DEFAULT_REACTION


def read_reaction(kept: Mapping[str, Any]) -> FailureReaction:
    """Return a reaction as a step's row keeps it."""
    then = kept.get("then")
    return FailureReaction(
        type=kept["type"],
        count=kept.get("count", 0),
        intervals=tuple(kept.get("intervals", ())),
        timeout=kept.get("timeout", 0),
        then=read_reaction(then) if then else None,
    )


def _parse_reaction(written: Mapping[str, Any]) -> FailureReaction:
    spec = written.get("spec") or {}
    after = spec.get("onRetryFailure") or spec.get("onTimeout")
    return FailureReaction(
        type=written["type"],
        count=spec.get("retryCount", 0),
        intervals=tuple(parse_duration(one) for one in spec.get("retryIntervals", ())),
        timeout=parse_duration(spec.get("timeout", "0s")),
        then=_parse_reaction(after["action"]) if after else None,
    )


def parse_duration(time: str) -> int:
    """Return the seconds of a time such as 90s, 30m, 2h or 1d."""
    return int(time[:-1]) * _UNIT_SECONDS[time[-1]]
