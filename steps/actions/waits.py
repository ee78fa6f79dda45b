"""Actions that wait: for a given time, or while CloudWatch alarms and metrics stay healthy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import ge, gt, le, lt
from typing import Any

from aws.apis.cloudwatch import CloudWatchMetric, MetricPoint
from steps.actions.base import Action, ActionFailed, action
from steps.actions.context import StepContext

WAITS_UNTIL = "waitsUntil"


@action
@dataclass(frozen=True)
class WaitForTime(Action):
    """Wait so many seconds; a person may end it sooner."""

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
    """Return a time in words, such as 1 hour 30 minutes."""
    parts = [(seconds // 3600, "hour"), (seconds // 60 % 60, "minute"), (seconds % 60, "second")]
    return " ".join(f"{n} {unit}{'' if n == 1 else 's'}" for n, unit in parts if n) or "0 seconds"


ALARM_READ_INTERVAL = timedelta(seconds=15)
# CloudWatch has the last values of a period a little after its end.
COMPARISONS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanThreshold": (gt, "above"),
    "GreaterThanOrEqualToThreshold": (ge, "not below"),
    "LessThanThreshold": (lt, "below"),
    "LessThanOrEqualToThreshold": (le, "not above"),
}


@action
@dataclass(frozen=True)
class WatchAlarms(Action):
    """Watch for so many seconds; each of `metrics` is what a step says of one."""

    repeats = True

    alarms: list[str]
    metrics: list[dict[str, Any]] = field(default_factory=list)
    seconds: int = 300

    @property
    def title(self) -> str:
        return f"Watch alarms and metrics for {format_duration(self.seconds)}"

    def start(self, context: StepContext) -> None:
        self._refuse_unknown(context)
        begun = context.now()
        until = begun + timedelta(seconds=self.seconds)
        context.set_outputs(**{WAITS_UNTIL: until.isoformat(), "watchedSince": begun.isoformat()})
        sources = [*(f"alarm {name}" for name in self.alarms), *(_title(one) for one in self.metrics)]
        context.log(f"Watching {', '.join(sources)} for {format_duration(self.seconds)}")

    def _refuse_unknown(self, context: StepContext) -> None:
        known = context.cloudwatch.describe_alarms(self.alarms) if self.alarms else {}
        missing = [name for name in self.alarms if name not in known]
        if missing:
            raise ActionFailed(
                "ALARM_MISSING",
                f"CloudWatch has no alarm named {', '.join(missing)} in this account and region. Create it, "
                f"or correct the alarms of the step.",
            )

    def is_done(self, context: StepContext) -> bool:
        until = datetime.fromisoformat(str(context.get_output(WAITS_UNTIL)))
        now = context.now()
        quiet = self._alarms(context)
        self._metrics(context, until)
        if now < until:
            context.wait_for_change(min(until, now + ALARM_READ_INTERVAL))
            return False
        for name in quiet:
            context.log(f"Alarm {name} has insufficient data", "warning")
        context.log("No alarm or metric reached its threshold", "success")
        return True

    def _alarms(self, context: StepContext) -> list[str]:
        """Tell what has changed; gives back the alarms without data. Raises `ActionFailed`."""
        if not self.alarms:
            return []
        found = context.cloudwatch.describe_alarms(self.alarms)
        seen = context.progress.setdefault("alarms", {})
        for name in self.alarms:
            alarm = found.get(name)
            state = alarm.state if alarm else "GONE"
            if seen.get(name) != state:
                seen[name] = state
                context.log(f"Alarm {name}: {state}", "error" if state == "ALARM" else "info")
            if alarm is not None and state == "ALARM":
                raise ActionFailed("ALARM", f"Alarm {name} is in ALARM: {alarm.reason or 'no reason given'}")
            if alarm is None:
                raise ActionFailed("ALARM_MISSING", f"Alarm {name} was deleted during verification.")
        return [name for name in self.alarms if seen[name] == "INSUFFICIENT_DATA"]

    def _metrics(self, context: StepContext, until: datetime) -> None:
        if not self.metrics:
            return
        since = datetime.fromisoformat(str(context.get_output("watchedSince")))
        listed = context.cloudwatch.get_metric_values(
            [build_metric(one) for one in self.metrics], since, until
        )
        last_points = context.progress.setdefault("told", {})
        for number, (one, points) in enumerate(zip(self.metrics, listed, strict=True)):
            for point in points:
                if point.at > last_points.get(str(number), ""):
                    context.log(f"{_title(one)} at {point.at[11:19]}: {point.value:g}")
                    last_points[str(number)] = point.at
                _refuse_threshold_breach(one, point)


def _refuse_threshold_breach(one: Mapping[str, Any], point: MetricPoint) -> None:
    is_broken, word = COMPARISONS[one["comparison"]]
    if is_broken(point.value, float(one["threshold"])):
        raise ActionFailed(
            "THRESHOLD",
            f"{_title(one)} was {point.value:g} at {point.at}, {word} the threshold of {one['threshold']:g}.",
        )


def build_metric(one: Mapping[str, Any]) -> CloudWatchMetric:
    """Return the metric that a step names."""
    return CloudWatchMetric(
        one["namespace"],
        one["metricName"],
        {str(name): str(value) for name, value in one.get("dimensions", {}).items()},
        one["statistic"],
        one["period"],
    )


def _title(one: Mapping[str, Any]) -> str:
    return f"{one['statistic']} of {one['namespace']} {one['metricName']}"
