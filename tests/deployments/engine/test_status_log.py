"""Each change of the status of an execution, a stage and a step is one line of the process log."""

import pytest

from guards.log_lines import bind_log_fields
from tests.fixtures.engine_driver import Drive
from tests.fixtures.log_lines import collect_lines

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_deployment_logs_each_status_once_with_the_request_that_started_it(drive: Drive) -> None:
    with collect_lines("deployments") as collector:
        with bind_log_fields(request_id="request-1"):
            execution = drive.start("1.27")
        drive.until_over(execution)

    lines = [line for line in collector.lines if line.get("execution") == str(execution.pk)]
    assert {line["request_id"] for line in lines} == {"request-1"}
    (created,) = collector.list_events("Execution created")
    assert created["status"] == "QUEUED"
    changes = [(line["previous"], line["status"]) for line in collector.list_events("Execution changed")]
    assert changes == [("QUEUED", "RUNNING"), ("RUNNING", "SUCCESS")]
    (stage,) = {line["stage"] for line in collector.list_events("Stage changed")}
    assert [line["status"] for line in collector.list_events("Stage changed")] == ["RUNNING", "SUCCESS"]
    forward = [line for line in collector.list_events("Step changed") if line["status"] != "SKIPPED"]
    assert [line["status"] for line in forward] == ["RUNNING", "SUCCESS"]
    assert {(line["stage"], bool(line["step"])) for line in forward} == {(stage, True)}


def test_a_pass_that_lost_its_lease_logs_no_status(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = drive.start("1.27")
    type(execution).objects.filter(pk=execution.pk).update(due_at=None, status="ABORTED")
    with collect_lines("deployments.engine") as collector:
        drive.reconcile()
    assert collector.list_events("Execution changed") == []
