"""The CloudWatch verbs: how alarms stand, and the values of metrics over a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aws.caller import Caller

MOST_ALARMS = 100
# What GetMetricData takes in one call.
METRICS_PER_CALL = 500


@dataclass(frozen=True)
class Alarm:
    """One alarm, of a metric or composite; `state` is OK, ALARM or INSUFFICIENT_DATA."""

    name: str
    state: str
    reason: str


@dataclass(frozen=True)
class Metric:
    """One statistic of one metric, in values of `period` seconds each."""

    namespace: str
    name: str
    dimensions: Mapping[str, str] = field(default_factory=dict)
    statistic: str = "Average"
    period: int = 60


@dataclass(frozen=True)
class Point:
    """A value, and the beginning of the period that it stands for, in ISO 8601."""

    at: str
    value: float


@dataclass(frozen=True)
class CloudWatch:
    """Speaks CloudWatch through a caller. Each verb raises `AwsError`."""

    caller: Caller

    def alarms(self, names: Sequence[str]) -> dict[str, Alarm]:
        """The alarms of these names that exist, at most 100 of them."""
        params = {"AlarmNames": list(names), "AlarmTypes": ["MetricAlarm", "CompositeAlarm"]}
        answer = self.caller.call("cloudwatch", "DescribeAlarms", {**params, "MaxRecords": MOST_ALARMS})
        listed = [*answer.get("MetricAlarms", []), *answer.get("CompositeAlarms", [])]
        return {
            str(one["AlarmName"]): Alarm(
                str(one["AlarmName"]), str(one.get("StateValue", "")), str(one.get("StateReason") or "")
            )
            for one in listed
        }

    def values(self, metrics: Sequence[Metric], since: datetime, until: datetime) -> list[list[Point]]:
        """The points of each metric in order, the oldest first; empty where there are none."""
        answer = self.caller.call("cloudwatch", "GetMetricData", metric_data(metrics, since, until))
        found = {str(one.get("Id")): one for one in answer.get("MetricDataResults", [])}
        return [_points(found.get(f"m{number}", {})) for number in range(len(metrics))]


def metric_data(metrics: Sequence[Metric], since: datetime, until: datetime) -> dict[str, Any]:
    """The parameters of GetMetricData; the result of the first metric is `m0`, of the next `m1`."""
    return {
        "StartTime": since.isoformat(timespec="seconds"),
        "EndTime": until.isoformat(timespec="seconds"),
        "ScanBy": "TimestampAscending",
        "MetricDataQueries": [_query(number, one) for number, one in enumerate(metrics)],
    }


def _query(number: int, metric: Metric) -> dict[str, Any]:
    dimensions = [{"Name": name, "Value": value} for name, value in sorted(metric.dimensions.items())]
    return {
        "Id": f"m{number}",
        "MetricStat": {
            "Metric": {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions},
            "Period": metric.period,
            "Stat": metric.statistic,
        },
    }


def _points(result: Mapping[str, Any]) -> list[Point]:
    pairs = zip(result.get("Timestamps", []), result.get("Values", []), strict=False)
    return sorted((Point(str(at), float(value)) for at, value in pairs), key=lambda one: one.at)
