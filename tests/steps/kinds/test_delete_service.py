"""The step that deletes an ECS service: its tasks end first, and one that others deployed stays."""

import os

import pytest

from delegates.models import Delegate
from deployments.journal import runtime
from deployments.models import Execution, StageExecution
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from rbac.models import Scope
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.fixtures.delegates import make_delegate
from tests.fixtures.engine_driver import Drive
from tests.fixtures.worker_crashes import KILLED, run_in_fork

pytestmark = pytest.mark.django_db(transaction=True)


def delete_text(spec: str = "") -> str:
    """A pipeline with a step that deletes the service."""
    step = f"- step: {{identifier: gone, type: EcsDeleteService, spec: {{service: myapp{spec}}}}}\n"
    return pipeline_text(stage_text(step))


def expect(deployed: Execution, output: str) -> str:
    """The part of a spec that expects an output of a deployment."""
    step = deployed.stages.get().steps.get(type="EcsRollingDeploy")
    return f", expected: ['{step.all_outputs[output]}']"


def deploy(write: Write) -> Execution:
    execution = write(pipeline_text(stage_text(DEPLOY))).run("1.27")
    assert execution.outcome == "COMPLETED", execution.failure
    return execution


@pytest.mark.parametrize("output", ["deploymentId", "taskDefinitionArn"])
def test_the_tasks_of_the_expected_service_end_before_it_is_deleted(
    write: Write, drive: Drive, output: str
) -> None:
    text = delete_text(expect(deploy(write), output))
    mark = drive.mark()
    execution = write(text).run()
    assert execution.status == "SUCCESS", execution.failure
    assert drive.effects(mark) == ["UpdateService", "DeleteService"]
    assert drive.service()["status"] == "INACTIVE"
    lines = drive.log(execution)
    ended = next(index for index, line in enumerate(lines) if "has no tasks any more" in line)
    assert any("Deleting service myapp.." in line for line in lines[ended:])
    # What is gone is a success, and nothing is sent again.
    mark = drive.mark()
    assert write(text).run().status == "SUCCESS"
    assert drive.effects(mark) == []


def test_a_service_that_others_deployed_is_named_and_stays(write: Write, drive: Drive) -> None:
    text = delete_text(expect(deploy(write), "deploymentId"))
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "forceNewDeployment": True})
    mark = drive.mark()
    execution = write(text).run()
    assert execution.failure is not None
    assert execution.failure["code"] == "SUPERSEDED"
    assert "Somebody else deployed Service myapp" in execution.failure["message"]
    assert drive.effects(mark) == []
    assert drive.service()["desiredCount"] == 1


def test_it_is_checked_again_right_before_the_deletion(write: Write, drive: Drive) -> None:
    execution = write(delete_text(expect(deploy(write), "deploymentId"))).start()

    def deploy_meanwhile(name: str) -> None:
        if name == "call.answered" and drive.service()["desiredCount"] == 0:
            runtime.set_hook(None)
            changes = {"desiredCount": 1, "forceNewDeployment": True}
            drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", **changes})
            drive.sandbox.advance(60)
            drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": 0})

    runtime.set_hook(deploy_meanwhile)
    try:
        drive.until_over(execution)
    finally:
        runtime.set_hook(None)
    assert (execution.failure or {}).get("code") == "SUPERSEDED", execution.status
    assert drive.service()["status"] == "ACTIVE"


def test_a_service_that_is_scaled_up_before_a_retry_of_its_deletion_stays(write: Write, drive: Drive) -> None:
    deploy(write)
    retry = (
        "{type: Retry, spec: {retryCount: 1, retryIntervals: [60s], onRetryFailure: {action: {type: Abort}}}}"
    )
    strategies = f", failureStrategies: [{{onFailure: {{errors: [AllErrors], action: {retry}}}}}]"
    text = delete_text().replace("service: myapp}}", f"service: myapp}}{strategies}}}")
    drive.sandbox.fault("denied", service="ecs", operation="DeleteService", count=1)
    execution = write(text).start()
    while not any("is tried again in 60 seconds" in line for line in drive.log(execution)):
        drive.pass_time(5)
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": 2})
    drive.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["code"] == "SUPERSEDED"
    assert "Somebody set the desired count of Service myapp to 2" in execution.failure["message"]
    assert (drive.service()["status"], drive.service()["desiredCount"]) == ("ACTIVE", 2)


@pytest.mark.parametrize("number", [1, 2], ids=["scaling", "deletion"])
@pytest.mark.parametrize("place", ["call.before_sent", "call.sent", "call.answered"])
def test_wherever_a_worker_dies_it_is_deleted_once(
    write: Write, drive: Drive, place: str, number: int
) -> None:
    execution = write(delete_text(expect(deploy(write), "deploymentId"))).start()
    mark = drive.mark()
    passes = 0

    def die(name: str) -> None:
        nonlocal passes
        passes += name == place
        if passes == number:
            os._exit(KILLED)

    def doomed() -> None:
        runtime.set_hook(die)
        drive.until_over(execution)

    try:
        assert run_in_fork(doomed) == KILLED
    finally:
        runtime.set_hook(None)
    drive.clock.move(61)
    drive.until_over(execution)
    assert execution.status == "SUCCESS", execution.failure
    assert drive.effects(mark) == ["UpdateService", "DeleteService"]
    assert drive.service()["status"] == "INACTIVE"


def test_a_preview_shows_both_writes_and_sends_none(write: Write, drive: Drive) -> None:
    write(delete_text(expect(deploy(write), "deploymentId")))
    mark = drive.mark()
    details = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.28")
    assert isinstance(details, PreviewDetails)
    (step,) = (step for step in details.steps if step.identifier == "gone")
    assert step.failure is None
    assert [change.split(" ", 2)[0] for change in step.changes] == ["Service", "Service"]
    assert drive.effects(mark) == []


def test_no_call_goes_to_the_delegate_that_it_ends(write: Write, drive: Drive) -> None:
    delegate: Delegate = make_delegate(Scope.objects.get(path="account/default/demo"))
    execution = write(delete_text(f", delegate: {delegate.name}")).start()
    assert StageExecution.objects.get(execution=execution).excluded_delegate == delegate
    assert StageExecution.objects.get(execution=write(delete_text()).start()).excluded_delegate is None
