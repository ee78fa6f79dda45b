"""The step that watches CloudWatch: it fails with the alarm's reason, and ends well when all is quiet."""

from datetime import timedelta
from typing import Any

import pytest

from deployments.models import Execution
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)
METRIC = "{namespace: App, metricName: Errors, dimensions: {Service: myapp}, statistic: Sum, threshold: 3}"


def verify_text(spec: str) -> str:
    """Return a pipeline with one Verify step."""
    return pipeline_text(stage_text(f"- step: {{identifier: watch, type: Verify, spec: {{{spec}}}}}"))


def _alarm(drive: Drive, state: str, name: str = "errors", reason: str = "") -> None:
    drive.call(
        "cloudwatch",
        "PutMetricAlarm",
        {
            "AlarmName": name,
            "MetricName": "Errors",
            "Namespace": "App",
            "Statistic": "Sum",
            "Period": 60,
            "EvaluationPeriods": 1,
            "Threshold": 1.0,
            "ComparisonOperator": "GreaterThanThreshold",
        },
    )
    params = {"AlarmName": name, "StateValue": state, "StateReason": reason or "as it is"}
    drive.call("cloudwatch", "SetAlarmState", params)


def _value(drive: Drive, value: float) -> None:
    point: dict[str, Any] = {
        "MetricName": "Errors",
        "Value": value,
        "Dimensions": [{"Name": "Service", "Value": "myapp"}],
        "Timestamp": (drive.clock.now() + timedelta(seconds=1)).isoformat(),
    }
    drive.call("cloudwatch", "PutMetricData", {"Namespace": "App", "MetricData": [point]})


def _failure(execution: Execution) -> tuple[str, str]:
    assert execution.failure is not None, execution.status
    return execution.failure["code"], execution.failure["message"]


def test_quiet_alarms_and_metrics_let_the_step_succeed(write: Write, drive: Drive) -> None:
    _alarm(drive, "OK")
    execution = write(verify_text(f"alarms: [errors], metrics: [{METRIC}], duration: 5m")).start()
    began = drive.clock.now()
    drive.reconcile()
    _value(drive, 2)
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    assert 300 <= (drive.clock.now() - began).total_seconds() < 320
    log = drive.log(execution)
    assert "Alarm errors: OK" in log
    assert any(line.startswith("Sum of App Errors at ") and line.endswith(": 2") for line in log)


def test_an_alarm_that_rings_fails_the_step_with_its_reason(write: Write, drive: Drive) -> None:
    _alarm(drive, "OK")
    execution = write(verify_text("alarms: [errors], duration: 5m")).start()
    drive.pass_time(30)
    _alarm(drive, "ALARM", reason="5 errors were above 1")
    drive.until_over(execution, most_seconds=60)
    assert _failure(execution) == ("ALARM", "Alarm errors is in ALARM: 5 errors were above 1")


def test_a_metric_above_its_threshold_fails_the_step_with_the_value(write: Write, drive: Drive) -> None:
    execution = write(verify_text(f"metrics: [{METRIC}], duration: 5m")).start()
    drive.pass_time(3)
    _value(drive, 7)
    drive.until_over(execution, most_seconds=60)
    code, message = _failure(execution)
    assert code == "THRESHOLD"
    assert message.startswith("Sum of App Errors was 7 at ")
    assert message.endswith("above the threshold of 3.")


def test_an_alarm_that_is_not_there_is_said_at_once(write: Write) -> None:
    execution = write(verify_text("alarms: [erors]")).run()
    assert _failure(execution)[0] == "ALARM_MISSING"
    assert "no alarm named erors" in _failure(execution)[1]


def test_a_value_below_its_threshold_counts_once_its_period_is_over(write: Write, drive: Drive) -> None:
    least = METRIC.replace("threshold: 3", "threshold: 10, comparison: LessThanThreshold, period: 300")
    execution = write(verify_text(f"metrics: [{least}], duration: 20m")).start()
    drive.pass_time(3)
    _value(drive, 4)
    drive.pass_time(60, step=15)
    execution.refresh_from_db()
    assert execution.status != "FAILED", "more may come before the period ends"
    drive.until_over(execution)
    assert _failure(execution)[0] == "THRESHOLD"


def test_a_metric_without_any_value_is_told(write: Write, drive: Drive) -> None:
    execution = write(verify_text(f"metrics: [{METRIC}], duration: 5m")).run()
    assert execution.status == "SUCCESS"
    assert any("has no value of Sum of App Errors: check its" in line for line in drive.log(execution))
