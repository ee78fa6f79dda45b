"""Somebody deletes the ECS service during a deployment: a person decides whether it is made again."""

import pytest
from rest_framework.test import APIClient

from deployments.models import Execution, StepExecution
from tests.deployments.execution.conftest import UntilAsked
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waiting_execution(drive: Drive, until_asked: UntilAsked) -> Execution:
    """A rollback that found the service deleted, and asks."""
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(12)
    drive.call("ecs", "DeleteService", {"cluster": "demo", "service": "myapp", "force": True})
    return until_asked(execution)


def _decide(client: APIClient, execution: Execution, decision: str) -> None:
    step = StepExecution.objects.get(stage__execution=execution, intervention__isnull=False)
    assert step.intervention is not None
    assert step.intervention["kind"] == "NOT_RESTORED"
    body = {"step": step.identifier, "decision": decision}
    response = client.post(f"/api/v1/executions/{execution.pk}/decisions", body, format="json")
    assert response.status_code == 202, response.json()


def test_it_is_asked_before_anything_is_created(drive: Drive, waiting_execution: Execution) -> None:
    log = drive.log(waiting_execution)
    (line,) = [line for line in log if "Service myapp was deleted during the deployment" in line]
    assert "with task definition" in line
    assert "desired count 1" in line
    assert "Service myapp was deleted outside Slipway" in waiting_execution.failure["message"]
    assert drive.service().get("status") != "ACTIVE"
    assert drive.effects().count("CreateService") == 1


def test_try_again_creates_it_as_it_was(
    drive: Drive, waiting_execution: Execution, client: APIClient
) -> None:
    _decide(client, waiting_execution, "RETRY")
    drive.until_over(waiting_execution)
    assert (waiting_execution.status, waiting_execution.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(
        waiting_execution
    )
    service = drive.service()
    assert (service["status"], service["desiredCount"], service["runningCount"]) == ("ACTIVE", 1, 1)
    assert service["taskDefinition"].endswith(":1")
    assert any("the rollback created it again" in note["text"] for note in waiting_execution.notes)


def test_ignore_leaves_it_deleted_and_says_so(
    drive: Drive, waiting_execution: Execution, client: APIClient
) -> None:
    _decide(client, waiting_execution, "IGNORE")
    drive.until_over(waiting_execution)
    assert waiting_execution.status == "FAILED"
    assert waiting_execution.outcome != "ROLLED_BACK"
    assert drive.effects().count("CreateService") == 1
    assert any("NOT RESTORED" in line and "does not exist" in line for line in drive.log(waiting_execution))


def test_nobody_decides_and_after_an_hour_it_stays_deleted(
    drive: Drive, waiting_execution: Execution
) -> None:
    drive.until_over(waiting_execution, most_seconds=5000)
    assert waiting_execution.status == "FAILED"
    assert drive.effects().count("CreateService") == 1
