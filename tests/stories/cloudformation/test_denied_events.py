"""Without the right to see a stack's events the steps go by its state, and say which right is missing."""

import pytest

from deployments.models import Execution
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.stories.cloudformation.conftest import (
    TEMPLATE,
    add_rollback,
    clusters,
    create_step,
    stack,
    step_of,
)
from tests.stories.cloudformation.test_rollback_stack import FAIL, LONGER, _retention, _text

pytestmark = pytest.mark.django_db(transaction=True)
MISSING = "cloudformation:DescribeStackEvents"
BROKEN = TEMPLATE.replace(
    "Resources:\n", "Resources:\n  FailsHere: {Type: AWS::CloudFormation::WaitConditionHandle}\n"
)


def _deny(drive: Drive) -> None:
    drive.sandbox.fault("denied", service="cloudformation", operation="DescribeStackEvents", seconds=36_000)


def _list_notices(drive: Drive, execution: Execution) -> list[str]:
    return [line for line in drive.log(execution) if MISSING in line]


def test_a_stack_is_created_and_updated_by_what_its_state_shows(write: Write, drive: Drive) -> None:
    _deny(drive)
    execution = write(pipeline_text(stage_text(create_step()))).run()
    assert execution.status == "SUCCESS", execution.failure
    assert step_of(execution).all_outputs["cluster_name"] == "made"
    (line,) = _list_notices(drive, execution)
    assert line.endswith("Slipway uses the status of the stack instead.")
    update = write(pipeline_text(stage_text(create_step(parameters=LONGER)))).start()
    drive.sandbox.fault("stale_reads", service="cloudformation", operation="DescribeStacks", seconds=40)
    drive.until_over(update)
    assert update.status == "SUCCESS", update.failure
    assert _retention(drive) == 14
    assert stack(drive)["StackStatus"] == "UPDATE_COMPLETE"


def test_a_failure_says_what_the_state_says_and_is_cleared_away_the_next_time(
    write: Write, drive: Drive
) -> None:
    _deny(drive)
    execution = write(pipeline_text(stage_text(create_step(BROKEN)))).run()
    assert execution.failure is not None
    assert execution.failure["code"] == "STACK_FAILED"
    assert "Stack shop is ROLLBACK_COMPLETE" in execution.failure["message"]
    mended = write(pipeline_text(stage_text(create_step()))).run()
    assert mended.status == "SUCCESS", mended.failure


def test_a_lost_answer_is_asked_for_again_under_its_token(write: Write, drive: Drive) -> None:
    _deny(drive)
    mark = drive.mark()
    drive.sandbox.fault("lost_answer", service="cloudformation", operation="CreateStack", count=1)
    execution = write(pipeline_text(stage_text(create_step()))).run()
    assert execution.status == "SUCCESS", execution.failure
    assert drive.effects(mark) == ["CreateStack"]


def test_a_lost_answer_of_an_update_is_asked_for_again_under_its_token(write: Write, drive: Drive) -> None:
    write(pipeline_text(stage_text(create_step()))).run()
    _deny(drive)
    mark = drive.mark()
    drive.sandbox.fault("lost_answer", service="cloudformation", operation="UpdateStack", count=1)
    execution = write(pipeline_text(stage_text(create_step(parameters=LONGER)))).run()
    assert execution.status == "SUCCESS", execution.failure
    assert drive.effects(mark) == ["UpdateStack"]
    assert _retention(drive) == 14


def test_what_a_run_made_is_deleted_and_what_it_changed_goes_back(write: Write, drive: Drive) -> None:
    _deny(drive)
    created = write(_text(create_step() + FAIL)).run()
    assert created.outcome == "ROLLED_BACK", drive.log(created)[-6:]
    assert "made" not in clusters(drive)
    write(_text(create_step())).run()
    updated = write(_text(create_step(parameters=LONGER) + FAIL)).run()
    assert updated.outcome == "ROLLED_BACK", drive.log(updated)[-6:]
    assert _retention(drive) == 7


def test_a_stack_of_which_nobody_can_tell_who_changed_it_stays_as_it_is(write: Write, drive: Drive) -> None:
    write(_text(create_step())).run()
    pause = "- step: {identifier: pause, type: Wait, spec: {duration: 10m}}\n"
    execution = write(_text(create_step(parameters=LONGER) + pause + FAIL)).start()
    drive.pass_time(60)
    _deny(drive)
    drive.until_over(execution)
    assert execution.outcome == "SUPERSEDED"
    assert _retention(drive) == 14
    assert any(
        "Slipway cannot determine if it was changed outside Slipway" in line for line in drive.log(execution)
    )


def test_a_stack_is_deleted_by_what_its_state_shows(write: Write, drive: Drive) -> None:
    write(pipeline_text(stage_text(create_step()))).run()
    _deny(drive)
    step = "- step: {identifier: gone, type: DeleteStack, spec: {stackName: shop}}\n"
    execution = write(add_rollback(pipeline_text(stage_text(step)))).run()
    assert execution.status == "SUCCESS", execution.failure
    assert stack(drive)["StackStatus"] == "DELETE_COMPLETE"
