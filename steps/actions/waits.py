"""Actions that wait: for a given time, or while CloudWatch alarms and metrics stay healthy."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import ge, gt, le, lt
from typing import Any

from aws.apis.cloudwatch import CloudWatchAlarm, CloudWatchMetric, MetricPoint
from steps.actions.base import Action, ActionFailed, action
from steps.actions.context import StepContext

WAITS_UNTIL = "waitsUntil"


@action
@dataclass(frozen=True)
class WaitForTime(Action):
    """Wait a number of seconds; a person may end the wait sooner."""

    repeats = True
    may_be_cut_short = True

    seconds: int

    @property
    def title(self) -> str:
        return f"Wait for {format_duration(self.seconds)}"

    def start(self, context: StepContext) -> None:
        until = context.now() + timedelta(seconds=self.seconds)
        context.set_outputs(**{WAITS_UNTIL: until.isoformat()})
        context.log(f"Waiting for {format_duration(self.seconds)}, until {until:%Y-%m-%d %H:%M:%S} UTC")

    def is_done(self, context: StepContext) -> bool:
        until = datetime.fromisoformat(str(context.get_output(WAITS_UNTIL)))
        if context.now() < until:
            context.wait_for_change(until)
            return False
        context.log("Wait finished")
        return True


def format_duration(seconds: int) -> str:
    """Return a duration in words, such as 1 hour 30 minutes."""
    parts = [(seconds // 3600, "hour"), (seconds // 60 % 60, "minute"), (seconds % 60, "second")]
    return " ".join(f"{n} {unit}{'' if n == 1 else 's'}" for n, unit in parts if n) or "0 seconds"


ALARM_READ_INTERVAL = timedelta(seconds=15)
ALARM_STATE = "ALARM"
# The log line of an alarm whose state has changed.
ALARM_LINE = re.compile(r"Alarm .+: (OK|ALARM|INSUFFICIENT_DATA|GONE)\Z")
COMPARISONS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanThreshold": (gt, "above"),
    "GreaterThanOrEqualToThreshold": (ge, "not below"),
    "LessThanThreshold": (lt, "below"),
    "LessThanOrEqualToThreshold": (le, "not above"),
}


@action
@dataclass(frozen=True)
class WatchAlarms(Action):
    """Watch alarms and metrics for a number of seconds; `metrics` are settings of the step."""

    repeats = True

    alarms: list[str]
    metrics: list[dict[str, Any]] = field(default_factory=list)
    seconds: int = 300

    @property
    def title(self) -> str:
        return f"Watch alarms and metrics for {format_duration(self.seconds)}"

    def start(self, context: StepContext) -> None:
        self._refuse_unknown(context)
        started_at = context.now()
        until = started_at + timedelta(seconds=self.seconds)
        context.set_outputs(**{WAITS_UNTIL: until.isoformat(), "watchedSince": started_at.isoformat()})
        context.log(f"Watching {', '.join(self.list_sources())} for {format_duration(self.seconds)}")

    def list_sources(self) -> list[str]:
        """Return the names of all that is watched."""
        return [*(f"alarm {name}" for name in self.alarms), *(_title(metric) for metric in self.metrics)]

    def _refuse_unknown(self, context: StepContext) -> None:
        if self.alarms:
            read_alarms(context, self.alarms)

    def is_done(self, context: StepContext) -> bool:
        until = datetime.fromisoformat(str(context.get_output(WAITS_UNTIL)))
        now = context.now()
        alarms_without_data = self._check_alarms(context)
        self._check_metrics(context, until)
        if now < until:
            context.wait_for_change(min(until, now + ALARM_READ_INTERVAL))
            return False
        for name in alarms_without_data:
            context.log(f"Alarm {name} has insufficient data", "warning")
        for number, metric in enumerate(self.metrics):
            if str(number) not in context.progress["logged"]:
                text = (
                    f"CloudWatch has no value of {_title(metric)}: check its namespace, dimensions and period"
                )
                context.log(text, "warning")
        if self.alarms or self.metrics:
            context.log("No alarm or metric reached its threshold", "success")
        return True

    def _check_alarms(self, context: StepContext) -> list[str]:
        """Log changed alarms and return those without data. Raises `ActionFailed` for one in ALARM."""
        if not self.alarms:
            return []
        alarms = context.cloudwatch.describe_alarms(self.alarms)
        states = context.progress.setdefault("alarms", {})
        for name in self.alarms:
            alarm = alarms.get(name)
            state = alarm.state if alarm else "GONE"
            if states.get(name) != state:
                states[name] = state
                context.log(f"Alarm {name}: {state}", "error" if state == ALARM_STATE else "info")
            if alarm is not None and state == ALARM_STATE:
                raise ActionFailed("ALARM", f"Alarm {name} is in ALARM: {alarm.reason or 'no reason given'}")
            if alarm is None:
                raise ActionFailed("ALARM_MISSING", f"Alarm {name} was deleted during verification.")
        return [name for name in self.alarms if states[name] == "INSUFFICIENT_DATA"]

    def _check_metrics(self, context: StepContext, until: datetime) -> None:
        if not self.metrics:
            return
        since = datetime.fromisoformat(str(context.get_output("watchedSince")))
        values = context.cloudwatch.get_metric_values(
            [build_metric(metric) for metric in self.metrics], since, until
        )
        last_points = context.progress.setdefault("logged", {})
        for number, (metric, points) in enumerate(zip(self.metrics, values, strict=True)):
            for point in points:
                if metric["comparison"].startswith("Less") and _is_incomplete(metric, point, context.now()):
                    continue
                if point.at > last_points.get(str(number), ""):
                    context.log(f"{_title(metric)} at {point.at[11:19]}: {point.value:g}")
                    last_points[str(number)] = point.at
                _refuse_threshold_breach(metric, point)


def read_alarms(context: StepContext, names: Sequence[str]) -> dict[str, CloudWatchAlarm]:
    """Return the alarms by name. Raises `ActionFailed` for one that does not exist."""
    alarms = context.cloudwatch.describe_alarms(names)
    if missing := [name for name in names if name not in alarms]:
        raise ActionFailed(
            "ALARM_MISSING",
            f"CloudWatch has no alarm named {', '.join(missing)} in this account and region. Create it, "
            f"or correct the alarms of the step.",
        )
    return alarms


def _is_incomplete(metric: Mapping[str, Any], point: MetricPoint, now: datetime) -> bool:
    """Return whether the period of a value goes on: a sum or a count that is low now may only grow."""
    return datetime.fromisoformat(point.at) + timedelta(seconds=metric["period"]) > now


def _refuse_threshold_breach(metric: Mapping[str, Any], point: MetricPoint) -> None:
    is_breached, word = COMPARISONS[metric["comparison"]]
    if is_breached(point.value, float(metric["threshold"])):
        raise ActionFailed(
            "THRESHOLD",
            f"{_title(metric)} was {point.value:g} at {point.at}, {word} the threshold of "
            f"{metric['threshold']:g}.",
        )


def build_metric(metric: Mapping[str, Any]) -> CloudWatchMetric:
    """Return the CloudWatch metric of a step's setting."""
    return CloudWatchMetric(
        metric["namespace"],
        metric["metricName"],
        {str(name): str(value) for name, value in metric.get("dimensions", {}).items()},
        metric["statistic"],
        metric["period"],
    )


def _title(metric: Mapping[str, Any]) -> str:
    return f"{metric['statistic']} of {metric['namespace']} {metric['metricName']}"
