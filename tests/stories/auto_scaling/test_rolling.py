"""Auto scaling and a rolling deployment do not fight, and a rollback leaves it as it was."""

import json

import pytest

from aws.apis.scaling import ALL_SUSPENDED
from deployments.execution.operations import abort_execution, retry_execution, roll_back_execution
from deployments.models import Execution, RollbackCheck, RollbackValue, StepExecution
from tests.fixtures.engine_driver import Drive
from tests.stories.auto_scaling.conftest import AutoScaling, tracking

pytestmark = pytest.mark.django_db(transaction=True)


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def _broken(execution: Execution) -> list[RollbackCheck]:
    return list(RollbackCheck.objects.filter(step__stage__execution=execution, passed=False))


def test_a_first_deployment_attaches_the_auto_scaling_of_the_manifests_once_it_is_steady(
    drive: Drive, scaling: AutoScaling
) -> None:
    scaling.set_manifests(tracking("cpu", 60, scaleOutCooldown=300), tracking("memory", 70), bounds=(2, 4))
    execution = drive.run("1.27")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert scaling.target is not None
    assert (scaling.target["MinCapacity"], scaling.target["MaxCapacity"]) == (2, 4)
    assert sorted(scaling.policies) == ["cpu", "memory"]
    assert scaling.is_active
    log = drive.log(execution)
    assert "Fetching EcsScalableTargetDefinition files with identifier: target" in log
    assert "Fetching EcsScalingPolicyDefinition files with identifier: memory" in log
    assert "Registered Scalable Target on service myapp: 2-4 tasks" in log
    steady = log.index("Service myapp reached steady state")
    assert steady < log.index("Attaching Scaling Policy cpu on service myapp..")
    assert drive.service()["desiredCount"] == 2, "the count was within the bounds from the beginning"
    assert "RegisterScalableTarget" in drive.effects()


def test_what_is_as_the_manifests_say_is_suspended_and_resumed_and_nothing_else(
    drive: Drive, scaling: AutoScaling
) -> None:
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    drive.run("1.27")
    before, alarms = scaling.read_all(), scaling.policies["cpu"]["Alarms"]
    mark = drive.mark()
    execution = drive.start("1.28")
    drive.pass_time(5)
    assert not scaling.is_active
    drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert scaling.read_all() == before
    assert scaling.policies["cpu"]["Alarms"] == alarms
    effects = [effect for effect in drive.effects(mark) if "Scal" in effect]
    assert effects == ["RegisterScalableTarget", "RegisterScalableTarget"]
    log = drive.log(execution)
    assert "Suspending Auto Scaling of service myapp.." in log
    assert "Scaling Policy cpu of service myapp matches its manifest" in log


def test_only_what_differs_is_replaced_and_policies_of_others_stay(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    scaling.register_target(1, 3)
    changed_arn, manual_arn = scaling.put_policy("cpu", 50), scaling.put_policy("by hand", 80)
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 5))
    execution = drive.run("1.28")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert scaling.target is not None
    assert scaling.target["MaxCapacity"] == 5
    cpu = scaling.policies["cpu"]
    assert cpu["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 60
    assert (cpu["PolicyARN"], scaling.policies["by hand"]["PolicyARN"]) == (changed_arn, manual_arn)
    assert scaling.is_active
    assert "Scaling Policy by hand is not in a manifest and is not changed" in drive.log(execution)


@pytest.mark.parametrize("had_any", [True, False])
def test_a_rollback_of_what_was_attached_puts_it_back_and_proves_it(
    drive: Drive, scaling: AutoScaling, had_any: bool
) -> None:
    drive.run("1.27")
    if had_any:
        scaling.register_target(1, 3, ScheduledScalingSuspended=True)
        scaling.put_policy("cpu", 50)
        scaling.put_policy("by hand", 80)
    before = scaling.read_all()
    scaling.set_manifests(tracking("cpu", 60), tracking("memory", 70), bounds=(2, 5))
    execution = drive.run("1.28")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert scaling.read_all() != before
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.pass_time(60, step=5)
    execution.refresh_from_db()
    drive.until_over(execution)
    assert _get_result(execution) == ("ROLLED_BACK", "ROLLED_BACK")
    assert scaling.read_all() == before
    items = RollbackCheck.objects.filter(step__stage__execution=execution)
    assert {"Scaling policy cpu", "Scaling policy memory"} <= {item.subject for item in items}
    assert not _broken(execution)


def test_a_failed_deployment_resumes_what_it_suspended_at_the_end_of_its_rollback(
    drive: Drive, scaling: AutoScaling
) -> None:
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    drive.run("1.27")
    before = scaling.read_all()
    execution = drive.run("crash")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert scaling.read_all() == before
    log = drive.log(execution)
    assert log.count("Resuming Auto Scaling of service myapp..") == 1
    resume_line = log.index("Resuming Auto Scaling of service myapp..")
    assert resume_line > max(i for i, line in enumerate(log) if line.startswith("Updating Service myapp"))
    subject = "Auto scaling of Service myapp"
    assert RollbackCheck.objects.filter(
        step__stage__execution=execution, subject=subject, passed=True
    ).exists()


def test_an_abort_without_a_rollback_resumes_it_too(drive: Drive, scaling: AutoScaling) -> None:
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    drive.run("1.27")
    execution = drive.start("slow")
    drive.pass_time(6)
    assert not scaling.is_active
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ABORTED")
    assert scaling.is_active


def test_a_first_deployment_that_fails_leaves_no_auto_scaling_behind(
    drive: Drive, scaling: AutoScaling
) -> None:
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    drive.sandbox.fault("denied", service="application-autoscaling", operation="PutScalingPolicy")
    execution = drive.run("1.27")
    drive.sandbox.clear_faults()
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert "application-autoscaling:PutScalingPolicy" in execution.failure["message"]
    assert scaling.target is None
    assert not _broken(execution)


def test_policies_without_a_scalable_target_are_refused_before_the_service_changes(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    scaling.set_manifests(tracking("cpu", 60))
    mark = drive.mark()
    execution = drive.run("1.28")
    assert execution.status == "FAILED"
    assert "no scalable target" in execution.failure["message"]
    assert "UpdateService" not in drive.effects(mark)


def test_a_denied_suspension_is_a_line_in_the_log_and_the_deployment_goes_on(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    scaling.register_target(1, 4)
    drive.sandbox.fault("denied", service="application-autoscaling", operation="RegisterScalableTarget")
    execution = drive.run("1.28")
    drive.sandbox.clear_faults()
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert any("application-autoscaling:RegisterScalableTarget" in line for line in drive.log(execution))
    assert scaling.is_active


def test_what_a_person_has_suspended_stays_suspended(drive: Drive, scaling: AutoScaling) -> None:
    drive.run("1.27")
    suspension = {
        "DynamicScalingInSuspended": True,
        "DynamicScalingOutSuspended": True,
        "ScheduledScalingSuspended": True,
    }
    scaling.register_target(1, 4, **suspension)
    execution = drive.run("1.28")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert scaling.target is not None
    assert scaling.target["SuspendedState"] == suspension
    assert "Auto Scaling of service myapp is already suspended and stays suspended" in drive.log(execution)


def test_a_manifest_may_say_what_is_to_be_suspended(drive: Drive, scaling: AutoScaling) -> None:
    drive.run("1.27")
    scaling.register_target(1, 4)
    scaling.set_manifests(bounds=(1, 4), suspendedState={"ScheduledScalingSuspended": True})
    drive.run("1.28")
    assert scaling.target is not None
    state = scaling.target["SuspendedState"]
    assert [name for name, is_held in state.items() if is_held] == ["ScheduledScalingSuspended"]


def test_a_step_tried_again_suspends_again_and_what_the_first_try_changed_is_undone(
    drive: Drive, scaling: AutoScaling
) -> None:
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    drive.run("1.27")
    before, running_definition = scaling.read_all(), drive.service()["taskDefinition"]
    execution = drive.start("slow")
    drive.pass_time(6)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert scaling.is_active
    retry_execution(actor=drive.deployer, execution=execution)
    drive.pass_time(6)
    assert not scaling.is_active
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk), roll_back=True)
    execution.refresh_from_db()
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ROLLED_BACK")
    assert drive.service()["taskDefinition"] == running_definition
    assert scaling.read_all() == before


@pytest.mark.parametrize("roll_back", [True, False])
def test_a_suspension_by_a_person_before_a_retry_stays(
    drive: Drive, scaling: AutoScaling, roll_back: bool
) -> None:
    drive.run("1.27")
    scaling.register_target(1, 4)
    execution = drive.start("slow")
    drive.pass_time(6)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert scaling.is_active
    scaling.register_target(1, 4, **ALL_SUSPENDED)
    retry_execution(actor=drive.deployer, execution=execution)
    drive.pass_time(6)
    assert "Auto Scaling of service myapp is already suspended and stays suspended" in drive.log(execution)
    abort_execution(
        actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk), roll_back=roll_back
    )
    execution.refresh_from_db()
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ROLLED_BACK" if roll_back else "ABORTED")
    assert scaling.target is not None
    assert scaling.target["SuspendedState"] == ALL_SUSPENDED
    assert not _broken(execution)


def test_a_suspension_whose_answer_was_not_recorded_ends_with_an_abort(
    drive: Drive, scaling: AutoScaling
) -> None:
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    drive.run("1.27")
    execution = drive.start("slow")
    drive.pass_time(6)
    assert not scaling.is_active
    step = StepExecution.objects.get(stage__execution=execution, type="EcsRollingDeploy")
    step.outputs.pop("autoScaling")
    step.save(update_fields=["outputs"])
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ABORTED")
    assert scaling.is_active


def test_auto_scaling_that_may_not_be_read_is_told_and_taken_for_none(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    drive.sandbox.fault("denied", service="application-autoscaling")
    execution = drive.run("1.28")
    drive.sandbox.clear_faults()
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    (line,) = [line for line in drive.log(execution) if "DescribeScalableTargets" in line]
    assert line.endswith("Slipway assumes that the service has no auto scaling.")


def test_a_policy_that_somebody_added_to_our_target_keeps_it_and_the_checklist_says_so(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    execution = drive.run("1.28")
    scaling.put_policy("by hand", 80)
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.pass_time(60, step=5)
    execution.refresh_from_db()
    drive.until_over(execution)
    assert list(scaling.policies) == ["by hand"]
    (broken,) = _broken(execution)
    assert (broken.subject, broken.actual) == ("Scalable target of Service myapp", "1-4 tasks")


def _retry_once(drive: Drive, seconds: int) -> None:
    """Let the step try again once by itself."""
    drive.pipeline.yaml = drive.pipeline.yaml.replace(
        "                  spec: {}\n",
        "                  spec: {}\n"
        "                  failureStrategies:\n"
        "                    - onFailure:\n"
        "                        errors: [AllErrors]\n"
        "                        action: {type: Retry, spec: {retryCount: 1,\n"
        f"                          retryIntervals: [{seconds}s],\n"
        "                          onRetryFailure: {action: {type: StageRollback}}}}\n",
        1,
    )
    drive.pipeline.save(update_fields=["yaml"])


def _start_until_retry(drive: Drive, tag: str) -> Execution:
    """Start an execution; return it while it waits for its retry in 60 seconds."""
    execution = drive.start(tag)
    while not any("is tried again in 60 seconds" in line for line in drive.log(execution)):
        drive.pass_time(5)
    return execution


def _roll_back(drive: Drive, execution: Execution) -> None:
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.pass_time(60, step=5)
    execution.refresh_from_db()
    drive.until_over(execution)


@pytest.mark.parametrize("had_policy", [True, False])
def test_a_target_that_somebody_registered_before_a_retry_stays_after_the_rollback(
    drive: Drive, scaling: AutoScaling, had_policy: bool
) -> None:
    drive.run("1.27")
    scaling.set_manifests(tracking("cpu", 60), bounds=(2, 4))
    _retry_once(drive, 60)
    drive.sandbox.fault("denied", service="application-autoscaling", operation="RegisterScalableTarget")
    execution = _start_until_retry(drive, "1.28")
    drive.sandbox.clear_faults()
    scaling.register_target(1, 6)
    if had_policy:
        scaling.put_policy("cpu", 80)
    before = scaling.read_all()
    drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert scaling.target is not None
    assert (scaling.target["MaxCapacity"], scaling.is_active) == (4, True)
    _roll_back(drive, execution)
    assert scaling.read_all() == before
    assert _get_result(execution) == ("ROLLED_BACK", "ROLLED_BACK")
    assert not _broken(execution)


def test_a_target_that_an_earlier_attempt_registered_is_resumed_and_removed_by_the_rollback(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    _retry_once(drive, 60)
    drive.sandbox.fault("denied", service="application-autoscaling", operation="PutScalingPolicy")
    execution = _start_until_retry(drive, "1.28")
    drive.sandbox.clear_faults()
    drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert (scaling.is_active, list(scaling.policies)) == (True, ["cpu"])
    _roll_back(drive, execution)
    assert (scaling.target, _get_result(execution)) == (None, ("ROLLED_BACK", "ROLLED_BACK"))


def test_a_target_that_an_earlier_release_registered_is_removed_by_the_rollback(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    scaling.set_manifests(tracking("cpu", 60), bounds=(2, 4))
    execution = drive.run("1.28")
    saved = RollbackValue.objects.filter(step__stage__execution=execution)
    assert saved.filter(name__startswith="scaling found by the first write").delete()[0] == 2
    row = saved.get(name="scaling before attaching to serviceName")
    row.value = json.dumps({"target": None, "policies": []})
    row.save(update_fields=["value"])
    _roll_back(drive, execution)
    assert (scaling.target, _get_result(execution)) == (None, ("ROLLED_BACK", "ROLLED_BACK"))


def test_a_step_that_tries_again_by_itself_stays_suspended_without_ado(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    scaling.register_target(1, 4)
    _retry_once(drive, 10)
    execution = drive.run("nopull")
    assert execution.outcome == "ROLLED_BACK"
    assert scaling.is_active
    log = drive.log(execution)
    assert not any("is already suspended" in line for line in log)
