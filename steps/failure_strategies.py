"""What a pipeline says is to be done when a step fails: read from its YAML, chosen by what went wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
ALL_ERRORS = "AllErrors"
ERRORS = (
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
ENDS = ("Abort", "Ignore", "MarkAsFailure", "MarkAsSuccess", "StageRollback")
AFTER_RETRIES = (*ENDS, "ManualIntervention")
REACTIONS = (*AFTER_RETRIES, "Retry")

_BY_CODE = {
    "APPROVAL_EXPIRED": "Timeout",
    "APPROVAL_REJECTED": "ApprovalRejection",
    "ACCESS_DENIED": "Authorization",
    "CREDENTIALS_REFUSED": "Authentication",
    "CONNECTOR_NOT_USABLE": "Connectivity",
    "MARKED_AS_FAILURE": "UserMarkedFailure",
    "NO_DELEGATE": "DelegateProvisioning",
    "TIMED_OUT": "Timeout",
}
_JUDGED = ("FAILED", "ROLLED_BACK_BY_AWS", "SUPERSEDED")


@dataclass(frozen=True)
class Reaction:
    """What is done about a failure; `then` follows where this comes to nothing."""

    type: str
    count: int = 0
    intervals: tuple[int, ...] = ()
    """Seconds before the first retry, the second, and so on; the last one stays."""
    timeout: int = 0
    """Seconds for which a person is asked."""
    then: "Reaction | None" = None

    def pause_before(self, retry: int) -> int:
        """Seconds to wait before the retry of this number, counted from 0."""
        return self.intervals[min(retry, len(self.intervals) - 1)] if self.intervals else 0


DEFAULT = Reaction("StageRollback")


def error_type(code: str, *, was_judged: bool = False) -> str:
    """The kind of error that strategies name, of a failure's code.

    `was_judged`: the code says how a deployment to ECS ended, not why a call was refused.
    """
    return _BY_CODE.get(code, "Verification" if was_judged or code in _JUDGED else "Unknown")


def strategies_from(written: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """What `failureStrategies` says, which keeps to the schema, as a step's row keeps it."""
    return tuple(
        {
            "errors": list(one["onFailure"]["errors"]),
            "action": asdict(_reaction(one["onFailure"]["action"])),
        }
        for one in written
    )


def reaction_to(strategies: Iterable[Mapping[str, Any]], error: str) -> Reaction:
    """The reaction of the first strategy that names this error or all; else the stage is rolled back."""
    for strategy in strategies:
        if error in strategy["errors"] or ALL_ERRORS in strategy["errors"]:
            return reaction_from(strategy["action"])
    return DEFAULT


def reaction_from(kept: Mapping[str, Any]) -> Reaction:
    """A reaction as a step's row keeps it."""
    then = kept.get("then")
    return Reaction(
        type=kept["type"],
        count=kept.get("count", 0),
        intervals=tuple(kept.get("intervals", ())),
        timeout=kept.get("timeout", 0),
        then=reaction_from(then) if then else None,
    )


def _reaction(written: Mapping[str, Any]) -> Reaction:
    spec = written.get("spec") or {}
    after = spec.get("onRetryFailure") or spec.get("onTimeout")
    return Reaction(
        type=written["type"],
        count=spec.get("retryCount", 0),
        intervals=tuple(seconds_of(one) for one in spec.get("retryIntervals", ())),
        timeout=seconds_of(spec.get("timeout", "0s")),
        then=_reaction(after["action"]) if after else None,
    )


def seconds_of(time: str) -> int:
    """The seconds of a time such as 90s, 30m, 2h or 1d."""
    return int(time[:-1]) * _SECONDS[time[-1]]
