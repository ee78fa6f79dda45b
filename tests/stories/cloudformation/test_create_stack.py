"""The step that creates or updates a stack: its events in the log, its outputs, its ends."""

import pytest

from deployments.models import Execution
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.stories.cloudformation.conftest import CLUSTER, TEMPLATE, clusters, create_step, stack, step_of

pytestmark = pytest.mark.django_db(transaction=True)


def _failure(execution: Execution) -> tuple[str, str]:
    assert execution.failure is not None, execution.status
    return execution.failure["code"], execution.failure["message"]


def test_a_stack_is_created_told_event_by_event_and_its_outputs_are_known(write: Write, drive: Drive) -> None:
    ready = write(pipeline_text(stage_text(create_step())))
    mark = drive.mark()
    execution = ready.run()
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    assert "made" in clusters(drive)
    outputs = step_of(execution).all_outputs
    assert (outputs["cluster_name"], outputs["region_name"]) == ("made", "us-east-1")
    assert outputs["group"].startswith("arn:aws:logs:us-east-1:")
    log = drive.log(execution)
    assert any(line.startswith("# CREATE_IN_PROGRESS AWS::ECS::Cluster ECSCluster") for line in log)
    assert any(line.startswith("# CREATE_COMPLETE AWS::CloudFormation::Stack shop") for line in log)
    assert "Stack shop is CREATE_COMPLETE, with 3 outputs" in log
    assert drive.effects(mark) == ["CreateStack"]


def test_a_stack_that_is_there_is_updated_and_one_that_is_as_wanted_is_left(
    write: Write, drive: Drive
) -> None:
    ready = write(pipeline_text(stage_text(create_step())))
    ready.run()
    mark = drive.mark()
    second_run = ready.run()
    assert second_run.status == "SUCCESS", second_run.failure
    assert drive.effects(mark) == []
    assert "Stack shop is up to date: nothing to update" in drive.log(second_run)
    assert step_of(second_run).all_outputs["cluster_name"] == "made"
    update = write(
        pipeline_text(
            stage_text(
                create_step(parameters="{name: ClusterName, value: made}, {name: Retention, value: 14}")
            )
        )
    ).run()
    assert update.status == "SUCCESS", update.failure
    assert drive.effects(mark) == ["UpdateStack"]
    assert stack(drive)["StackStatus"] == "UPDATE_COMPLETE"
    assert any("UPDATE_COMPLETE AWS::Logs::LogGroup" in line for line in drive.log(update))


def test_a_resource_that_fails_is_named_with_its_reason(write: Write, drive: Drive) -> None:
    broken = TEMPLATE.replace("ECSCluster:\n", "ECSCluster:\n    DependsOn: FailsHere\n", 1).replace(
        "Resources:\n", "Resources:\n  FailsHere: {Type: AWS::CloudFormation::WaitConditionHandle}\n"
    )
    execution = write(pipeline_text(stage_text(create_step(broken)))).run()
    code, message = _failure(execution)
    assert code == "STACK_FAILED"
    assert "ROLLBACK_COMPLETE" in message
    assert "FailsHere (AWS::CloudFormation::WaitConditionHandle) could not be created" in message
    assert "AWS deleted the created resources." in message
    assert "made" not in clusters(drive)
    mended = write(pipeline_text(stage_text(create_step()))).run()
    assert mended.status == "SUCCESS", mended.failure
    assert "Deleting stack shop, whose creation failed earlier" in drive.log(mended)


def test_a_stack_that_is_not_an_expected_one_is_refused_and_stays_as_it_is(
    write: Write, drive: Drive
) -> None:
    assert write(pipeline_text(stage_text(create_step(more="onlyExpected: true")))).run().status == "SUCCESS"
    own, longer = stack(drive)["StackId"], f"{CLUSTER}, {{name: Retention, value: 14}}"
    more = "onlyExpected: true\nexpected: []"
    execution = write(pipeline_text(stage_text(create_step(more=more, parameters=longer)))).run()
    code, message = _failure(execution)
    assert code == "STACK_NOT_EXPECTED"
    assert f"There is a stack shop already, {own}" in message
    assert stack(drive)["StackStatus"] == "CREATE_COMPLETE"
    more = f"onlyExpected: true\nexpected: ['{own}']"
    update = write(pipeline_text(stage_text(create_step(more=more, parameters=longer)))).run()
    assert update.status == "SUCCESS", update.failure
    assert stack(drive)["StackStatus"] == "UPDATE_COMPLETE"


def test_a_stack_that_somebody_updates_once_it_is_created_is_a_success(write: Write, drive: Drive) -> None:
    """Such as a tool that tags new stacks."""
    execution = write(pipeline_text(stage_text(create_step()))).start()
    for _ in range(60):
        drive.pass_time(1)
        if stack(drive).get("StackStatus", "").endswith("IN_PROGRESS"):
            break
    # Between two checks of the step.
    while stack(drive)["StackStatus"] != "CREATE_COMPLETE":
        drive.sandbox.advance(1)
        drive.clock.move(1)
    kept = {"ParameterKey": "ClusterName", "UsePreviousValue": True}
    changed = {"ParameterKey": "Retention", "ParameterValue": "30"}
    request = {"StackName": "shop", "UsePreviousTemplate": True, "Parameters": [kept, changed]}
    drive.call("cloudformation", "UpdateStack", request)
    drive.until_over(execution)
    assert execution.status == "SUCCESS", execution.failure
    assert "was changed outside Slipway right after it was CREATE_COMPLETE" in execution.notes[0]["text"]


def test_a_stack_that_somebody_deletes_meanwhile_ends_the_step(write: Write, drive: Drive) -> None:
    slow = TEMPLATE.replace(
        "Resources:\n", "Resources:\n  SlowOne: {Type: AWS::CloudFormation::WaitConditionHandle}\n"
    )
    execution = write(pipeline_text(stage_text(create_step(slow)))).start()
    drive.pass_time(60)
    drive.call("cloudformation", "DeleteStack", {"StackName": "shop"})
    drive.pass_time(240, step=5)
    assert stack(drive)["StackStatus"] == "DELETE_COMPLETE"
    execution.refresh_from_db()
    code, message = _failure(execution)
    assert code == "STACK_FAILED"
    assert "It was deleted meanwhile." in message
