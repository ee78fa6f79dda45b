"""Client for CloudWatch: alarm states and metric values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aws.caller import Caller, paginate
from aws.errors import Unavailable

MOST_ALARMS = 100
# Limit of GetMetricData for one call.
METRICS_PER_CALL = 500
# Statuses of a metric whose values are not all returned.
_INCOMPLETE_STATUSES = ("PartialData", "InternalError")


@dataclass(frozen=True)
class CloudWatchAlarm:
    """One alarm, of a metric or composite; `state` is OK, ALARM or INSUFFICIENT_DATA."""

    name: str
    state: str
    reason: str


@dataclass(frozen=True)
class CloudWatchMetric:
    """One statistic of one metric, in values of `period` seconds each."""

    namespace: str
    name: str
    dimensions: Mapping[str, str] = field(default_factory=dict)
    statistic: str = "Average"
    period: int = 60


@dataclass(frozen=True)
class MetricPoint:
    """Value with the start of its period in ISO 8601."""

    at: str
    value: float


@dataclass(frozen=True)
class CloudWatchClient:
    """Speaks CloudWatch through a caller. Each verb raises `AwsError`."""

    caller: Caller

    def describe_alarms(self, names: Sequence[str]) -> dict[str, CloudWatchAlarm]:
        """Return the alarms of these names that exist, at most 100 of them."""
        params = {"AlarmNames": list(names), "AlarmTypes": ["MetricAlarm", "CompositeAlarm"]}
        response = self.caller.call("cloudwatch", "DescribeAlarms", {**params, "MaxRecords": MOST_ALARMS})
        alarms = [*response.get("MetricAlarms", []), *response.get("CompositeAlarms", [])]
        return {
            str(alarm["AlarmName"]): CloudWatchAlarm(
                str(alarm["AlarmName"]), str(alarm.get("StateValue", "")), str(alarm.get("StateReason") or "")
            )
            for alarm in alarms
        }

    def get_metric_values(
        self, metrics: Sequence[CloudWatchMetric], since: datetime, until: datetime
    ) -> list[list[MetricPoint]]:
        """Return the points of each metric, oldest first; empty without data.

        Raises `Unavailable` if CloudWatch cannot return all of them now.
        """
        results: dict[str, list[Mapping[str, Any]]] = {}
        for result in paginate(
            self.caller,
            "cloudwatch",
            "GetMetricData",
            build_metric_data_request(metrics, since, until),
            result_key="MetricDataResults",
            cursor_key="NextToken",
        ):
            results.setdefault(str(result.get("Id")), []).append(result)
        if any(pages[-1].get("StatusCode") in _INCOMPLETE_STATUSES for pages in results.values()):
            raise Unavailable("PartialData", "CloudWatch did not return all values of the metrics.")
        return [_parse_points(results.get(f"m{number}", ())) for number in range(len(metrics))]


def build_metric_data_request(
    metrics: Sequence[CloudWatchMetric], since: datetime, until: datetime
) -> dict[str, Any]:
    """Return the parameters of GetMetricData; the result of the first metric is `m0`, of the next `m1`."""
    return {
        "StartTime": since.isoformat(timespec="seconds"),
        "EndTime": until.isoformat(timespec="seconds"),
        "ScanBy": "TimestampAscending",
        "MetricDataQueries": [_build_metric_query(number, metric) for number, metric in enumerate(metrics)],
    }


def _build_metric_query(number: int, metric: CloudWatchMetric) -> dict[str, Any]:
    dimensions = [{"Name": name, "Value": value} for name, value in sorted(metric.dimensions.items())]
    return {
        "Id": f"m{number}",
        "MetricStat": {
            "Metric": {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions},
            "Period": metric.period,
            "Stat": metric.statistic,
        },
    }


def _parse_points(pages: Sequence[Mapping[str, Any]]) -> list[MetricPoint]:
    points = [
        MetricPoint(str(at), float(value))
        for page in pages
        for at, value in zip(page.get("Timestamps", []), page.get("Values", []), strict=False)
    ]
    return sorted(points, key=lambda point: point.at)
