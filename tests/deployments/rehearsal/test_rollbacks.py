"""The rehearsal of a rollback undoes an execution in a sandbox, and leaves the real account as it is."""

import pytest

from deployments.models import Interrupt
from deployments.rehearsal.operations import rehearse_rollback
from pipelines.models import Pipeline
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from web.http.problems import Conflict

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("identifier", ["rolling_demo", "blue_green_demo", "traffic_shift_demo"])
def test_a_rehearsed_rollback_ends_as_the_rollback_does(drive: Drive, identifier: str) -> None:
    drive.pipeline = Pipeline.objects.get(identifier=identifier)
    drive.run("1.27")
    execution = drive.run("1.28")
    assert execution.status == "SUCCESS"
    before = drive.mark()
    rehearsed = rehearse_rollback(actor=drive.deployer, execution=execution, behavior="healthy")
    assert (rehearsed.status, rehearsed.reason) == ("SUCCEEDED", "")
    assert drive.effects(before) == []
    assert not Interrupt.objects.exists()
    execution.refresh_from_db()
    assert execution.status == "SUCCESS"


def test_a_restored_image_that_is_gone_fails_the_rehearsal(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    rehearsed = rehearse_rollback(actor=drive.deployer, execution=execution, behavior="not_pulled")
    assert rehearsed.status == "FAILED"
    assert "ecs:UpdateService" in rehearsed.steps[0].writes


def test_a_first_deployment_is_deleted_in_the_rehearsal(drive: Drive) -> None:
    execution = drive.run("1.27")
    rehearsed = rehearse_rollback(actor=drive.deployer, execution=execution, behavior="healthy")
    assert rehearsed.status == "SUCCEEDED"
    assert "ecs:DeleteService" in rehearsed.steps[0].writes
    assert drive.service()["status"] == "ACTIVE"


def test_a_count_that_a_step_without_a_rollback_set_is_restored_in_the_rehearsal(
    write: Write, drive: Drive
) -> None:
    drive.run("1.27")
    scale = "- step: {identifier: scale, type: EcsScale, spec: {service: myapp, instances: 4}}\n"
    execution = write(pipeline_text(stage_text(DEPLOY + scale))).run("1.28")
    rehearsed = rehearse_rollback(actor=drive.deployer, execution=execution, behavior="healthy")
    assert (rehearsed.status, rehearsed.reason) == ("SUCCEEDED", "")
    assert "Desired count of Service myapp: 1" in [line["text"] for line in rehearsed.steps[0].log]
    assert drive.service()["desiredCount"] == 4


def test_an_older_execution_has_no_rollback_to_rehearse(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    drive.run("1.29")
    with pytest.raises(Conflict, match="Newer executions have deployed this ECS service"):
        rehearse_rollback(actor=drive.deployer, execution=execution, behavior="healthy")
