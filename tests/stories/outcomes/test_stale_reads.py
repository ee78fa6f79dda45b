"""AWS still shows what was before our write: a rollback right after it puts everything back all the same."""

import pytest

from deployments.execution.operations import abort_execution
from deployments.models import Execution
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.steps.kinds.test_scale import scale_text
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)


def _abort_after(drive: Drive, execution: Execution, operation: str) -> None:
    """Abort with a rollback right after a write that DescribeServices does not show for 20 seconds."""
    mark = drive.mark()
    drive.sandbox.fault("stale_reads", service="ecs", operation="DescribeServices", seconds=20)
    for _ in range(15):
        if operation in drive.effects(mark):
            break
        drive.pass_time(1)
    assert operation in drive.effects(mark), drive.log(execution)
    abort_execution(actor=drive.deployer, execution=execution, roll_back=True)
    drive.until_over(execution)
    drive.sandbox.clear_faults()
    drive.sandbox.advance(60)
    assert (execution.status, execution.outcome) == ("ABORTED", "ROLLED_BACK"), drive.log(execution)


def _state(drive: Drive) -> tuple[object, ...]:
    service = drive.service()
    return tuple(service.get(key) for key in ("status", "taskDefinition", "desiredCount", "runningCount"))


def test_of_an_update(drive: Drive) -> None:
    drive.run("1.27")
    before = _state(drive)
    _abort_after(drive, drive.start("1.28"), "UpdateService")
    assert _state(drive) == before


def test_of_a_creation(drive: Drive) -> None:
    _abort_after(drive, drive.start("1.27"), "CreateService")
    assert _state(drive)[0] == "INACTIVE"


def test_of_a_count(write: Write, drive: Drive) -> None:
    assert write(pipeline_text(stage_text(DEPLOY))).run("1.27").outcome == "COMPLETED"
    before = _state(drive)
    scaling = write(scale_text("service: myapp, instances: 3"))
    _abort_after(drive, scaling.start(), "UpdateService")
    assert _state(drive) == before


def test_of_the_new_version_in_the_stage_target_group(shop: Shop) -> None:
    _abort_after(shop.drive, shop.drive.start("1"), "CreateService")
    assert not shop.service("shop__1")


def test_of_green_updated_in_place(shop: Shop) -> None:
    shop.run("1")
    shop.run("2")
    shop.choose(updateGreenService=True)
    before = shop.state()
    _abort_after(shop.drive, shop.drive.start("3"), "UpdateService")
    assert shop.state() == before


def test_of_the_old_service_scaled_down(shop: Shop) -> None:
    shop.run("1")
    before = shop.state()
    shop.choose(swap={"downsizeOldServiceDelayInSecs": 30})
    execution = shop.drive.start("2")
    shop.pass_until(execution, lambda log: any("scaled down in 30 seconds" in line for line in log))
    shop.drive.pass_time(26)
    _abort_after(shop.drive, Execution.objects.get(pk=execution.pk), "UpdateService")
    assert shop.state() == before
