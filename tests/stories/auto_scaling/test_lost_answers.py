"""Each write to Application Auto Scaling whose answer is lost is found again in the world."""

import pytest

from deployments.execution.operations import abort_execution, roll_back_execution
from deployments.models import AwsCall, Execution
from tests.fixtures.engine_driver import Drive
from tests.stories.auto_scaling.conftest import AutoScaling, tracking

pytestmark = pytest.mark.django_db(transaction=True)


def _adopted(execution: Execution) -> list[str]:
    calls = AwsCall.objects.filter(execution=execution, is_confirmed=True).order_by("pk")
    return [call.operation for call in calls]


def _lose_answers(drive: Drive, operation: str, count: int = 1) -> None:
    drive.sandbox.fault("lost_answer", service="application-autoscaling", operation=operation, count=count)


def test_what_attaches_is_adopted_and_sent_once(drive: Drive, scaling: AutoScaling) -> None:
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    _lose_answers(drive, "RegisterScalableTarget")
    _lose_answers(drive, "PutScalingPolicy")
    execution = drive.run("1.27")
    assert execution.outcome == "COMPLETED"
    assert _adopted(execution) == ["RegisterScalableTarget", "PutScalingPolicy"]
    assert drive.effects().count("PutScalingPolicy") == 1


def test_what_suspends_and_resumes_is_adopted(drive: Drive, scaling: AutoScaling) -> None:
    drive.run("1.27")
    scaling.register_target(1, 4)
    before = scaling.read_all()
    _lose_answers(drive, "RegisterScalableTarget", count=2)
    execution = drive.run("1.28")
    assert execution.outcome == "COMPLETED"
    assert _adopted(execution) == ["RegisterScalableTarget"] * 2
    assert scaling.read_all() == before


@pytest.mark.parametrize("had_target", [True, False])
def test_what_undoes_is_adopted(drive: Drive, scaling: AutoScaling, had_target: bool) -> None:
    drive.run("1.27")
    if had_target:
        scaling.register_target(1, 3)
    before = scaling.read_all()
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    execution = drive.run("1.28")
    for operation in ("DeleteScalingPolicy", "DeregisterScalableTarget", "RegisterScalableTarget"):
        _lose_answers(drive, operation)
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.pass_time(60, step=5)
    execution.refresh_from_db()
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK"
    second = "RegisterScalableTarget" if had_target else "DeregisterScalableTarget"
    assert _adopted(execution) == ["DeleteScalingPolicy", second]
    assert scaling.read_all() == before


def test_auto_scaling_goes_on_after_an_abort_before_its_suspension_is_confirmed(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    scaling.register_target(1, 4)
    drive.sandbox.fault("stale_reads", service="application-autoscaling", seconds=20)
    _lose_answers(drive, "RegisterScalableTarget")
    execution = drive.start("1.28")
    lost = AwsCall.objects.filter(execution=execution, operation="RegisterScalableTarget", state="UNKNOWN")
    for _ in range(20):
        drive.pass_time(1)
        if lost.exists():
            break
    assert lost.exists()
    abort_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    drive.pass_time(60, step=5)
    assert scaling.is_active, scaling.target
    assert not any("Do it by hand" in line for line in drive.log(execution))


def test_a_write_that_did_not_happen_is_sent_again(drive: Drive, scaling: AutoScaling) -> None:
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    drive.sandbox.fault("error500", service="application-autoscaling", operation="PutScalingPolicy", count=1)
    execution = drive.run("1.27")
    assert execution.outcome == "COMPLETED"
    assert sorted(scaling.policies) == ["cpu"]
