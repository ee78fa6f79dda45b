"""RollbackStack: what a run created is deleted, what it updated goes back, what others changed stays."""

from typing import Any

import pytest

from deployments.execution.operations import abort_execution, retry_execution
from deployments.models import ActionRun, Execution, RollbackCheck
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.stories.cloudformation.conftest import (
    CLUSTER,
    TEMPLATE,
    add_rollback,
    clusters,
    create_step,
    stack,
)

pytestmark = pytest.mark.django_db(transaction=True)
FAIL = "- step: {identifier: fail, type: Verify, spec: {alarms: [nobody_made_it]}}\n"
WAIT = "- step: {identifier: wait, type: Wait, spec: {duration: 10m}}\n"
LONGER = f"{CLUSTER}, {{name: Retention, value: 14}}"
SLOW = TEMPLATE.replace(
    "Resources:\n", "Resources:\n  SlowOne: {Type: AWS::CloudFormation::WaitConditionHandle}\n"
)


def _text(steps: str) -> str:
    return add_rollback(pipeline_text(stage_text(steps)))


def _retention(drive: Drive) -> int:
    groups = drive.call("logs", "DescribeLogGroups", {"logGroupNamePrefix": "/ecs/made"})["logGroups"]
    return int(groups[0]["retentionInDays"])


def _checks(execution: Execution) -> list[tuple[str, bool]]:
    items = RollbackCheck.objects.filter(step__stage__execution=execution).order_by("position")
    return [(item.subject, item.passed) for item in items]


def test_a_stack_that_the_run_created_is_deleted(write: Write, drive: Drive) -> None:
    execution = write(_text(create_step() + FAIL)).run()
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert execution.failure is not None
    assert execution.failure["code"] == "ALARM_MISSING"
    assert stack(drive)["StackStatus"] == "DELETE_COMPLETE"
    assert "made" not in clusters(drive)
    assert "Deleting stack shop, which this run created" in drive.log(execution)
    assert _checks(execution) == [("Stack shop", True)]


def test_delete_stack_may_stand_in_the_place_of_the_rollback(write: Write, drive: Drive) -> None:
    step = "{identifier: unstack, type: DeleteStack, spec: {stackName: shop}}"
    text = _text(create_step() + FAIL).replace("{identifier: unstack, type: RollbackStack}", step)
    execution = write(text).run()
    assert execution.outcome == "ROLLED_BACK"
    assert stack(drive)["StackStatus"] == "DELETE_COMPLETE"
    assert _checks(execution) == [("Stack shop", True)]


def test_a_stack_that_was_there_goes_back_to_its_template_and_parameters(write: Write, drive: Drive) -> None:
    write(_text(create_step())).run()
    more = TEMPLATE.replace(
        "Outputs:\n", "  More: {Type: AWS::CloudFormation::WaitConditionHandle}\nOutputs:\n"
    )
    execution = write(_text(create_step(more, parameters=LONGER) + FAIL)).run()
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(execution)[-8:]
    assert stack(drive)["StackStatus"] == "UPDATE_COMPLETE"
    assert _retention(drive) == 7
    resources = drive.call("cloudformation", "DescribeStackResources", {"StackName": "shop"})[
        "StackResources"
    ]
    assert {resource["LogicalResourceId"] for resource in resources} == {"ECSCluster", "Logs"}
    assert all(ok for _, ok in _checks(execution))
    assert ("Template of Stack shop", True) in _checks(execution)


def test_a_run_that_changed_nothing_has_nothing_to_take_back(write: Write, drive: Drive) -> None:
    write(_text(create_step())).run()
    mark = drive.mark()
    execution = write(_text(create_step() + FAIL)).run()
    assert execution.status == "FAILED"
    assert drive.effects(mark) == []
    assert "made" in clusters(drive)


def test_a_stack_that_somebody_else_has_changed_since_stays_as_it_is(write: Write, drive: Drive) -> None:
    pause = "- step: {identifier: pause, type: Wait, spec: {duration: 10m}}\n"
    execution = write(_text(create_step() + pause + FAIL)).start()
    drive.pass_time(60)
    other: dict[str, Any] = {
        "StackName": "shop",
        "UsePreviousTemplate": True,
        "Parameters": [
            {"ParameterKey": "ClusterName", "UsePreviousValue": True},
            {"ParameterKey": "Retention", "ParameterValue": "30"},
        ],
    }
    drive.call("cloudformation", "UpdateStack", other)
    drive.until_over(execution)
    assert execution.outcome == "SUPERSEDED"
    assert stack(drive)["StackStatus"] == "UPDATE_COMPLETE"
    assert _retention(drive) == 30
    assert any("Somebody else has changed stack shop since" in line for line in drive.log(execution))


@pytest.mark.parametrize("has_events", [True, False])
def test_a_stack_that_others_created_between_two_attempts_stays_as_it_is(
    write: Write, drive: Drive, has_events: bool
) -> None:
    if not has_events:
        drive.sandbox.fault(
            "denied", service="cloudformation", operation="DescribeStackEvents", seconds=36_000
        )
    drive.sandbox.fault("denied", service="cloudformation", operation="CreateStack", count=1)
    execution = write(_text(create_step(parameters=LONGER) + FAIL)).run()
    assert execution.status == "FAILED"
    theirs = {"StackName": "shop", "TemplateBody": TEMPLATE}
    names = [{"ParameterKey": "ClusterName", "ParameterValue": "made"}]
    drive.call("cloudformation", "CreateStack", {**theirs, "Parameters": names})
    drive.sandbox.advance(120)
    retry_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert stack(drive)["StackStatus"] == "CREATE_COMPLETE", drive.log(execution)[-8:]
    assert _retention(drive) == 7
    assert execution.failure is not None
    assert execution.failure["code"] == "SUPERSEDED"
    assert "Run the pipeline again to update it." in execution.failure["message"]


@pytest.mark.parametrize("has_events", [True, False])
def test_a_restore_that_somebody_cancels_is_not_told_as_done(
    write: Write, drive: Drive, has_events: bool
) -> None:
    write(_text(create_step(SLOW))).run()
    if not has_events:
        drive.sandbox.fault("denied", service="cloudformation", operation="DescribeStackEvents")
    execution = write(_text(create_step(parameters=LONGER) + FAIL)).start()
    for _ in range(200):
        drive.pass_time(1)
        if any("to restore the previous template" in line for line in drive.log(execution)):
            break
    assert stack(drive)["StackStatus"] == "UPDATE_IN_PROGRESS"
    drive.call("cloudformation", "CancelUpdateStack", {"StackName": "shop"})
    drive.until_over(execution)
    assert _retention(drive) == 14
    assert execution.outcome == "SUPERSEDED"
    row = ActionRun.objects.get(step__stage__execution=execution, name="ApplyStack")
    assert row.state == "NOT_RESTORED"


def test_a_stack_that_a_later_step_deleted_is_not_blamed_on_others(write: Write, drive: Drive) -> None:
    write(_text(create_step())).run()
    deletion = "- step: {identifier: gone, type: DeleteStack, spec: {stackName: shop}}\n"
    execution = write(_text(create_step(parameters=LONGER) + deletion + FAIL)).run()
    assert (execution.status, execution.outcome) == ("FAILED", "FAILED")
    assert any("A later step of this run has deleted stack shop" in line for line in drive.log(execution))
    assert _checks(execution) == [("Stack shop", False)]


def test_another_stack_than_the_expected_one_stays(write: Write, drive: Drive) -> None:
    write(_text(create_step(more="tags: [{name: owner, value: web}]"))).run()
    own, other = stack(drive)["StackId"], "arn:aws:cloudformation:us-east-1:123456789012:stack/shop/other"
    for owner, id_, fault in (("api", own, "owner=api"), ("web", other, own), ("web", own, "")):
        checks = f"onlyWithTags: [{{name: owner, value: {owner}}}], expected: ['{id_}']"
        step = f"- step: {{identifier: gone, type: DeleteStack, spec: {{stackName: shop, {checks}}}}}\n"
        execution = write(pipeline_text(stage_text(step))).run()
        assert (execution.status == "SUCCESS") is not bool(fault), execution.failure
        assert stack(drive)["StackStatus"] == ("CREATE_COMPLETE" if fault else "DELETE_COMPLETE")
        assert fault in (execution.failure or {"message": ""})["message"]


def test_an_abort_while_a_stack_is_created_deletes_it(write: Write, drive: Drive) -> None:
    execution = write(_text(create_step(SLOW))).start()
    drive.pass_time(30)
    abort_execution(actor=drive.deployer, execution=execution, roll_back=True)
    drive.until_over(execution)
    assert execution.status == "ABORTED"
    assert stack(drive)["StackStatus"] == "DELETE_COMPLETE"
    assert "made" not in clusters(drive)


def test_an_abort_while_a_stack_is_updated_turns_the_update_back(write: Write, drive: Drive) -> None:
    write(_text(create_step())).run()
    execution = write(_text(create_step(SLOW, parameters=LONGER))).start()
    drive.pass_time(40)
    assert stack(drive)["StackStatus"] == "UPDATE_IN_PROGRESS"
    abort_execution(actor=drive.deployer, execution=execution, roll_back=True)
    drive.until_over(execution)
    assert execution.status == "ABORTED"
    assert stack(drive)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert _retention(drive) == 7
    assert "Cancelling the update of stack shop" in drive.log(execution)


def test_what_keeps_a_stack_from_being_deleted_is_said(write: Write, drive: Drive) -> None:
    stuck = TEMPLATE.replace(
        "Outputs:\n", "  FailsToDeleteIt: {Type: AWS::CloudFormation::WaitConditionHandle}\nOutputs:\n"
    )
    execution = write(_text(create_step(stuck) + FAIL)).run()
    assert execution.status == "FAILED"
    assert execution.outcome != "ROLLED_BACK"
    assert stack(drive)["StackStatus"] == "DELETE_FAILED"
    log = drive.log(execution)
    assert any("FailsToDeleteIt" in line and "could not be deleted" in line for line in log)
    assert _checks(execution) == [("Stack shop", False)]


def test_what_keeps_a_stack_from_being_deleted_is_not_what_kept_it_from_being_created(
    write: Write, drive: Drive
) -> None:
    resources = """\
  FailsToDeleteIt: {Type: AWS::CloudFormation::WaitConditionHandle}
  FailsHere: {Type: AWS::CloudFormation::WaitConditionHandle, DependsOn: [FailsToDeleteIt, Logs]}
"""
    execution = write(_text(create_step(TEMPLATE.replace("Outputs:\n", f"{resources}Outputs:\n")))).run()
    assert execution.failure is not None
    assert "FailsHere" in execution.failure["message"]
    (line,) = [line for line in drive.log(execution) if line.startswith("Not restored: ")]
    assert "FailsToDeleteIt" in line
    assert "FailsHere" not in line


@pytest.mark.parametrize("is_update", [True, False])
def test_reads_that_lag_do_not_make_an_undo_look_done_or_failed(
    write: Write, drive: Drive, is_update: bool
) -> None:
    if is_update:
        write(_text(create_step())).run()
    execution = write(_text(create_step(parameters=LONGER) + WAIT)).start()
    drive.pass_time(120, 5)
    assert _retention(drive) == 14
    drive.sandbox.fault("stale_reads", service="cloudformation", seconds=20)
    abort_execution(actor=drive.deployer, execution=execution, roll_back=True)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK"
    assert all(passed for _, passed in _checks(execution))
    assert not any(line.startswith("Undoing failed") for line in drive.log(execution))
    if is_update:
        assert _retention(drive) == 7
    else:
        assert stack(drive)["StackStatus"] == "DELETE_COMPLETE"
