"""A blue/green release of the content that runs already uses its revision, which nothing deregisters."""

import pytest

from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)
REVISION_WRITES = {"RegisterTaskDefinition", "DeregisterTaskDefinition"}


def test_a_release_of_the_live_content_uses_its_revision_and_its_rollback_keeps_it(shop: Shop) -> None:
    shop.run("1")
    drive, revision = shop.drive, shop.service("shop__1")["taskDefinition"]
    before, mark = shop.state(), drive.mark()
    drive.sandbox.fault("lost_answer", service="ecs", operation="CreateService", count=1)
    execution = shop.run("1", visited=True)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), drive.log(execution)
    assert "Reusing revision 1: nothing changed compared with shop:1" in drive.log(execution)
    assert shop.service("shop__2")["taskDefinition"] == revision
    assert drive.effects(after=mark).count("CreateService") == 1
    shop.roll_back(execution, visited=True)
    assert (execution.status, execution.outcome) == ("ROLLED_BACK", "ROLLED_BACK"), drive.log(execution)
    assert shop.state() == before
    assert not REVISION_WRITES & set(drive.effects(after=mark))
    assert shop.call("ecs", "DescribeTaskDefinition", taskDefinition=revision)["taskDefinition"][
        "status"
    ] == ("ACTIVE")
    assert shop.meetings == []


def test_an_update_of_green_registers_a_revision_that_identifies_its_deployment(shop: Shop) -> None:
    shop.choose(updateGreenService=True)
    shop.run("1")
    shop.run("1")
    mark = shop.drive.mark()
    execution = shop.run("1")
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)
    assert shop.drive.effects(after=mark).count("RegisterTaskDefinition") == 1
