"""Workers that die and answers that are lost around a write to a stack: it happens once, and is followed."""

import os
from collections.abc import Callable

import pytest

from deployments.journal import runtime
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.worker_crashes import KILLED, run_in_fork
from tests.stories.cloudformation.conftest import add_rollback, clusters, create_step, stack, step_of
from tests.stories.cloudformation.test_rollback_stack import FAIL, LONGER

pytestmark = pytest.mark.django_db(transaction=True)
PLACES = ("call.before_sent", "call.sent", "call.answered")
DELETE = "- step: {identifier: gone, type: DeleteStack, spec: {stackName: shop}}\n"


def _build_crash_hook(place: str, number: int, drive: Drive) -> Callable[[str], None]:
    """A hook that ends the process the `number`-th time that it passes a place."""
    passes = 0

    def die(name: str) -> None:
        nonlocal passes
        passes += name == place
        if name == place and passes == number:
            os._exit(KILLED)

    return die


def _killed_then_over(drive: Drive, text: str, write: Write, *, place: str, number: int = 1) -> str:
    """Run a pipeline whose worker dies once; its status."""
    execution = write(text).start()

    def doomed() -> None:
        runtime.set_hook(_build_crash_hook(place, number, drive))
        drive.until_over(execution)

    try:
        assert run_in_fork(doomed) == KILLED
    finally:
        runtime.set_hook(None)
    drive.clock.move(61)
    drive.until_over(execution)
    return f"{execution.status} {execution.outcome}"


@pytest.mark.parametrize("place", PLACES)
def test_a_stack_is_created_once_wherever_a_worker_dies(write: Write, drive: Drive, place: str) -> None:
    mark = drive.mark()
    result = _killed_then_over(drive, pipeline_text(stage_text(create_step())), write, place=place)
    assert result == "SUCCESS COMPLETED"
    assert drive.effects(mark) == ["CreateStack"]
    assert stack(drive)["StackStatus"] == "CREATE_COMPLETE"


@pytest.mark.parametrize("place", PLACES)
def test_a_stack_is_updated_and_put_back_once_wherever_a_worker_dies(
    write: Write, drive: Drive, place: str
) -> None:
    write(add_rollback(pipeline_text(stage_text(create_step())))).run()
    mark = drive.mark()
    text = add_rollback(pipeline_text(stage_text(create_step(parameters=LONGER) + FAIL)))
    # The second write is that of the rollback.
    result = _killed_then_over(drive, text, write, place=place, number=2)
    assert result == "FAILED ROLLED_BACK"
    assert drive.effects(mark) == ["UpdateStack", "UpdateStack"]
    assert stack(drive)["StackStatus"] == "UPDATE_COMPLETE"


@pytest.mark.parametrize("place", PLACES)
def test_a_stack_is_deleted_once_wherever_a_worker_dies(write: Write, drive: Drive, place: str) -> None:
    write(pipeline_text(stage_text(create_step()))).run()
    mark = drive.mark()
    result = _killed_then_over(drive, pipeline_text(stage_text(DELETE)), write, place=place)
    assert result == "SUCCESS COMPLETED"
    assert drive.effects(mark) == ["DeleteStack"]
    assert "made" not in clusters(drive)


@pytest.mark.parametrize("lost_as", ["cut", "error500"])
def test_an_answer_that_was_lost_is_found_in_the_events(write: Write, drive: Drive, lost_as: str) -> None:
    ready = write(add_rollback(pipeline_text(stage_text(create_step() + FAIL))))
    mark = drive.mark()
    for operation in ("CreateStack", "DeleteStack"):
        drive.sandbox.fault(
            "lost_answer", service="cloudformation", operation=operation, count=1, **{"as": lost_as}
        )
    execution = ready.run()
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(execution)[-6:]
    assert drive.effects(mark) == ["CreateStack", "DeleteStack"]
    assert stack(drive)["StackStatus"] == "DELETE_COMPLETE"


def test_reads_that_lag_do_not_make_an_update_look_done(write: Write, drive: Drive) -> None:
    write(pipeline_text(stage_text(create_step()))).run()
    execution = write(pipeline_text(stage_text(create_step(parameters=LONGER)))).start()
    drive.sandbox.fault("stale_reads", service="cloudformation", operation="DescribeStacks", seconds=40)
    drive.until_over(execution)
    assert execution.status == "SUCCESS", execution.failure
    assert step_of(execution).all_outputs["stackStatus"] == "UPDATE_COMPLETE"
    assert stack(drive)["StackStatus"] == "UPDATE_COMPLETE"


def test_a_refusal_of_aws_is_told_with_the_action_that_is_missing(write: Write, drive: Drive) -> None:
    drive.sandbox.fault("denied", service="cloudformation", operation="CreateStack", count=1)
    execution = write(pipeline_text(stage_text(create_step()))).run()
    assert execution.failure is not None
    assert execution.failure["code"] == "ACCESS_DENIED"
    assert "cloudformation:CreateStack" in execution.failure["message"]
