"""The step that watches CloudWatch after a deployment (R019)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from guards.limits import WATCHED_THINGS
from steps.actions.verify import COMPARISONS, WatchAlarms
from steps.kinds.base import BadStepError, Plan, about, step, unit
from steps.kinds.columns import Column
from steps.kinds.waiting import seconds_in, time_problem

_NEEDED = ("namespace", "metricName", "threshold")
_FIELDS = (*_NEEDED, "dimensions", "statistic", "comparison", "period")


@dataclass(frozen=True)
class VerifySpec:
    """Which alarms and metrics, and for how long.

    A metric has namespace, metricName, dimensions, statistic, period (in seconds), threshold and comparison.
    """

    alarms: list[str] = field(
        default_factory=list, metadata=about("The names of CloudWatch alarms, of metrics or composite.")
    )
    metrics: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=about(
            "Where what a comparison says comes true, the step fails.",
            columns=(
                Column("namespace", "text", "Such as AWS/ApplicationELB.", is_needed=True),
                Column("metricName", is_needed=True),
                Column("dimensions", "pairs", "Such as LoadBalancer=app/shop/0123456789abcdef."),
                Column("statistic", "text", "Average, Sum, Minimum, Maximum or p99.", default="Average"),
                Column("comparison", "choice", choices=tuple(COMPARISONS), default="GreaterThanThreshold"),
                Column("threshold", "number", is_needed=True),
                Column("period", "number", "Seconds, a multiple of 60.", default="60"),
            ),
        ),
    )
    duration: str = field(default="5m", metadata=about("How long to watch, such as 5m."))

    def __post_init__(self) -> None:
        """Raises `BadStepError`."""
        if problem := next(self._problems(), ""):
            raise BadStepError(f"Verify: {problem}")

    def _problems(self) -> Iterator[str]:
        if problem := time_problem(self.duration):
            yield problem
        if not self.alarms and not self.metrics:
            yield "it needs alarms or metrics under spec"
        if len(self.alarms) + len(self.metrics) > WATCHED_THINGS:
            yield f"it watches {WATCHED_THINGS} at most"
        if any(not isinstance(one, str) or not one.strip() for one in self.alarms):
            yield "alarms is a list of names"
        for number, one in enumerate(self.metrics, start=1):
            yield from (f"metric {number}: {problem}" for problem in _metric_problems(one))

    @property
    def seconds_on_purpose(self) -> int:
        """The time that is watched; that of an expression is known when the step begins."""
        return seconds_in(self.duration)


def _metric_problems(one: Any) -> Iterator[str]:
    if not isinstance(one, Mapping) or not set(one) <= set(_FIELDS):
        yield f"it has {', '.join(_FIELDS)}"
        return
    if lacking := [name for name in _NEEDED if name not in one]:
        yield f"it needs {', '.join(lacking)}"
    if one.get("comparison", "GreaterThanThreshold") not in COMPARISONS:
        yield f"comparison is one of {', '.join(COMPARISONS)}"
    if not _is_number(one.get("threshold", 0)):
        yield "threshold is a number"
    if not isinstance(one.get("dimensions", {}), Mapping):
        yield "dimensions is a mapping of names to values"
    period = one.get("period", 60)
    if not isinstance(period, int) or isinstance(period, bool) or period < 60 or period % 60:
        yield "period is a multiple of 60 seconds"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@step(
    "Verify",
    title="Verify",
    spec=VerifySpec,
    timeout_minutes=10,
    starter={"alarms": ["my-alarm"], "duration": "5m"},
)
def verify(spec: VerifySpec) -> Plan:
    """Fail as soon as an alarm rings or a metric passes its threshold."""
    defaults = {"statistic": "Average", "comparison": "GreaterThanThreshold", "period": 60, "dimensions": {}}
    metrics = [{**defaults, **one} for one in spec.metrics]
    yield unit("Verify", WatchAlarms(list(spec.alarms), metrics, spec.seconds_on_purpose))
