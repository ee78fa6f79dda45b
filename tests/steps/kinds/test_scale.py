"""The step that changes a count: it reaches it, keeps to auto scaling's bounds, and puts it back."""

import pytest

from deployments.execution.operations import roll_back_execution
from deployments.journal.runtime import set_hook
from deployments.models import AwsCall, Execution, RollbackCheck
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.engine_driver import Drive
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)


def scale_text(spec: str, before: str = "", after: str = "") -> str:
    """A pipeline with a step that scales, and the steps before and after it."""
    step = f"- step: {{identifier: scale, type: EcsScale, spec: {{{spec}}}}}\n"
    text = pipeline_text(stage_text(before + step + after))
    rollback = "          - step: {identifier: back_app"
    assert rollback in text
    return text.replace(
        rollback, f"          - step: {{identifier: unscale, type: EcsScaleRollback}}\n    {rollback}"
    )


def _deployed(write: Write, drive: Drive) -> None:
    assert write(pipeline_text(stage_text(DEPLOY))).run("1.27").outcome == "COMPLETED"


def _code(execution: Execution) -> str:
    assert execution.failure is not None, execution.status
    return str(execution.failure["code"])


def test_a_service_is_scaled_and_its_count_put_back(write: Write, drive: Drive) -> None:
    _deployed(write, drive)
    before = drive.service()["desiredCount"]
    execution = write(scale_text("service: myapp, instances: 300, instanceUnit: Percentage")).run()
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    assert drive.service()["runningCount"] == drive.service()["desiredCount"] == before * 3
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    assert drive.service()["runningCount"] == before


@pytest.mark.parametrize("kind", ["deploy", "scale"])
def test_a_count_that_somebody_set_after_the_step_stays(write: Write, drive: Drive, kind: str) -> None:
    _deployed(write, drive)
    text = (
        scale_text("service: myapp, instances: 2") if kind == "scale" else pipeline_text(stage_text(DEPLOY))
    )
    execution = write(text).run("1.28")
    assert execution.status == "SUCCESS", execution.failure
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": 5})
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    assert drive.service()["desiredCount"] == 5
    (check,) = RollbackCheck.objects.filter(subject="Desired count of Service myapp")
    assert (check.passed, check.expected, check.actual) == (True, "1", "5")
    assert check.note == "changed outside Slipway, not restored"


@pytest.mark.parametrize("is_own_stage", [False, True])
def test_a_rollback_of_the_deployment_takes_back_a_scaling_without_a_rollback_step(
    write: Write, drive: Drive, is_own_stage: bool
) -> None:
    _deployed(write, drive)
    scale = "- step: {identifier: scale, type: EcsScale, spec: {service: myapp, instances: 4}}\n"
    stages = (
        (stage_text(DEPLOY), stage_text(scale, "more")) if is_own_stage else (stage_text(DEPLOY + scale),)
    )
    execution = write(pipeline_text(*stages)).run("1.28")
    assert execution.status == "SUCCESS", execution.failure
    assert drive.service()["desiredCount"] == 4
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    assert (drive.service()["desiredCount"], drive.service()["runningCount"]) == (1, 1)
    check = RollbackCheck.objects.get(subject="Desired count of Service myapp")
    assert (check.passed, check.actual, check.note) == (True, "1", "")


def test_the_count_of_a_service_of_codedeploy_is_put_back(write: Write, drive: Drive) -> None:
    _deployed(write, drive)
    fields = {key: drive.service()[key] for key in ("taskDefinition", "launchType", "networkConfiguration")}
    fields |= {"cluster": "demo", "serviceName": "theirs", "desiredCount": 1}
    drive.call("ecs", "CreateService", {**fields, "deploymentController": {"type": "CODE_DEPLOY"}})
    execution = write(scale_text("service: theirs, instances: 2")).run()
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    assert drive.service("theirs")["runningCount"] == 1


def test_a_count_that_auto_scaling_would_undo_is_refused(write: Write, drive: Drive) -> None:
    _deployed(write, drive)
    name = {"ServiceNamespace": "ecs", "ResourceId": "service/demo/myapp"}
    name["ScalableDimension"] = "ecs:service:DesiredCount"
    drive.call(
        "application-autoscaling", "RegisterScalableTarget", {**name, "MinCapacity": 1, "MaxCapacity": 3}
    )
    assert _code(write(scale_text("service: myapp, instances: 9")).run()) == "OUT_OF_BOUNDS"
    inside = write(scale_text("service: myapp, instances: 3")).run()
    assert inside.status == "SUCCESS", inside.failure
    answer = drive.call("application-autoscaling", "DescribeScalableTargets", {"ServiceNamespace": "ecs"})
    assert not any(answer["ScalableTargets"][0]["SuspendedState"].values())


@pytest.mark.parametrize("is_undo", [False, True])
def test_reads_that_lag_do_not_make_a_scaling_look_done(write: Write, drive: Drive, is_undo: bool) -> None:
    _deployed(write, drive)
    ready = write(scale_text("service: myapp, instances: 3"))
    execution = ready.run() if is_undo else ready.start()
    if is_undo:
        drive.pass_time(60, 5)
        roll_back_execution(actor=drive.deployer, execution=execution)
    drive.sandbox.fault("stale_reads", service="ecs", operation="DescribeServices", seconds=20)
    drive.until_over(execution)
    assert execution.outcome == ("ROLLED_BACK" if is_undo else "COMPLETED"), drive.log(execution)[-5:]
    drive.sandbox.clear_faults()
    assert drive.service()["runningCount"] == (1 if is_undo else 3)


def test_a_count_that_somebody_sets_during_the_step_is_noted(write: Write, drive: Drive) -> None:
    _deployed(write, drive)
    execution = write(scale_text("service: myapp, instances: 3")).start()
    while "UpdateService" not in [call.operation for call in drive.calls(execution)]:
        drive.pass_time(1)
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": 0})
    drive.until_over(execution)
    assert execution.status == "SUCCESS", execution.failure
    (note,) = execution.notes
    assert note["text"] == (
        "The desired count of Service myapp was changed from 3 to 0 during this step, by auto scaling or "
        "outside Slipway"
    )


def test_one_of_a_blue_green_pair_is_not_scaled_during_a_deployment_of_it(write: Write, shop: Shop) -> None:
    assert shop.run("1").status == "SUCCESS"
    deployment = shop.drive.start("2")
    shop.drive.pass_time(10)
    text = scale_text("service: shop__1, instances: 3").replace("serviceRef: myapp", "serviceRef: shop")
    shop.drive.pipeline = write(text).pipeline
    scaling = shop.drive.start("2")
    shop.drive.pass_time(10)
    for execution in (deployment, scaling):
        execution.refresh_from_db()
    assert (deployment.status, scaling.status) == ("RUNNING", "QUEUED")
    shop.drive.until_over(scaling)
    deployment.refresh_from_db()
    assert deployment.outcome == "COMPLETED"
    assert scaling.stages.get().ecs_service == "shop__1"


def test_a_service_that_is_not_there_is_said_at_once(write: Write) -> None:
    assert _code(write(scale_text("service: nothing, instances: 2")).run()) == "NO_SERVICE"


def test_a_count_that_was_never_asked_for_is_not_taken_for_done(write: Write, drive: Drive) -> None:
    _deployed(write, drive)
    execution = write(scale_text("service: myapp, instances: 2")).start()

    def die(name: str) -> None:
        if name == "call.sent" and AwsCall.objects.filter(operation="UpdateService", state="SENT").exists():
            raise Death

    set_hook(die)
    try:
        with pytest.raises(Death):
            drive.pass_time(30)
    finally:
        set_hook(None)
    # Somebody begins a deployment of the same definition before anybody asks what became of it.
    drive.clock.move(61)
    drive.sandbox.advance(61)
    request = {"cluster": "demo", "service": "myapp", "forceNewDeployment": True}
    drive.call("ecs", "UpdateService", request)
    drive.until_over(execution)
    assert (execution.status, _code(execution)) == ("FAILED", "SUPERSEDED")
    assert drive.service()["desiredCount"] == 1
