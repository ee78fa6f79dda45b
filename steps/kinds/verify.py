"""Verify step: watches CloudWatch alarms and metrics after a deployment (R019)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from guards.limits import VERIFY_SOURCES
from steps.actions.waits import COMPARISONS, WatchAlarms
from steps.kinds.registry import BadStepError, Plan, SpecColumn, describe_field, step, unit
from steps.kinds.wait import describe_duration_problem, parse_wait_duration

_REQUIRED_FIELDS = ("namespace", "metricName", "threshold")
_FIELDS = (*_REQUIRED_FIELDS, "dimensions", "statistic", "comparison", "period")
_DEFAULTS: Final = {
    "statistic": "Average",
    "comparison": "GreaterThanThreshold",
    "period": 60,
    "dimensions": {},
}
METRIC_COLUMNS: Final = (
    SpecColumn("namespace", "text", "Such as AWS/ApplicationELB.", is_needed=True),
    SpecColumn("metricName", is_needed=True),
    SpecColumn("dimensions", "pairs", "Such as LoadBalancer=app/shop/0123456789abcdef."),
    SpecColumn("statistic", "text", "Average, Sum, Minimum, Maximum or p99.", default="Average"),
    SpecColumn("comparison", "choice", choices=tuple(COMPARISONS), default="GreaterThanThreshold"),
    SpecColumn("threshold", "number", is_needed=True),
    SpecColumn("period", "number", "Seconds, a multiple of 60.", default="60"),
)


@dataclass(frozen=True)
class VerifySpec:
    """Settings of the watch: alarms, metrics and duration.

    A metric has namespace, metricName, dimensions, statistic, period (in seconds), threshold and comparison.
    """

    alarms: list[str] = field(
        default_factory=list,
        metadata=describe_field("The names of CloudWatch alarms, of metrics or composite."),
    )
    metrics: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field("The step fails if a metric meets its comparison.", columns=METRIC_COLUMNS),
    )
    duration: str = field(default="5m", metadata=describe_field("How long to watch, such as 5m."))

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"Verify: {problem}")

    def _list_problems(self) -> Iterator[str]:
        if problem := describe_duration_problem(self.duration):
            yield problem
        if not self.alarms and not self.metrics:
            yield "it needs alarms or metrics under spec"
        yield from list_source_problems(self.alarms, self.metrics)

    @property
    def planned_wait_seconds(self) -> int:
        """Return the length of the watch; an expression is resolved when the step starts."""
        return parse_wait_duration(self.duration)


def list_source_problems(alarms: Sequence[Any], metrics: Sequence[Any]) -> Iterator[str]:
    """Yield the problems of alarms and metrics that a step is to watch."""
    if len(alarms) + len(metrics) > VERIFY_SOURCES:
        yield f"it watches {VERIFY_SOURCES} at most"
    if any(not isinstance(entry, str) or not entry.strip() for entry in alarms):
        yield "alarms is a list of names"
    for number, entry in enumerate(metrics, start=1):
        yield from (f"metric {number}: {problem}" for problem in _list_metric_problems(entry))


def complete_metrics(metrics: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the metrics of a step with the defaults of their optional fields."""
    return [{**_DEFAULTS, **metric} for metric in metrics]


def _list_metric_problems(metric: Any) -> Iterator[str]:
    if not isinstance(metric, Mapping) or not set(metric) <= set(_FIELDS):
        yield f"it has {', '.join(_FIELDS)}"
        return
    if missing := [name for name in _REQUIRED_FIELDS if name not in metric]:
        yield f"it needs {', '.join(missing)}"
    if metric.get("comparison", "GreaterThanThreshold") not in COMPARISONS:
        yield f"comparison is one of {', '.join(COMPARISONS)}"
    if not _is_number(metric.get("threshold", 0)):
        yield "threshold is a number"
    if not isinstance(metric.get("dimensions", {}), Mapping):
        yield "dimensions is a mapping of names to values"
    period = metric.get("period", 60)
    if not isinstance(period, int) or isinstance(period, bool) or period < 60 or period % 60:
        yield "period is a multiple of 60 seconds"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


VERIFY_TYPE: Final = "Verify"


@step(
    VERIFY_TYPE,
    title="Verify",
    spec=VerifySpec,
    outputs={
        "watchedSince": "When the watch began.",
        "waitsUntil": "When the watch ends.",
    },
    timeout_minutes=10,
    starter={"alarms": ["my-alarm"], "duration": "5m"},
    deploys=False,
)
def verify(spec: VerifySpec) -> Plan:
    """Fail as soon as an alarm rings or a metric passes its threshold."""
    metrics = complete_metrics(spec.metrics)
    yield unit("Verify", WatchAlarms(list(spec.alarms), metrics, spec.planned_wait_seconds))
