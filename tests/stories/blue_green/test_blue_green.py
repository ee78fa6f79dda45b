"""Blue/green from the first release on: created beside the live one, swapped, and brought back."""

import re
from pathlib import Path

import pytest

from deployments.models import Execution, RollbackCheck
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)

GOLDEN = Path(__file__).parent / "golden" / "rollback.txt"


def _masked(lines: list[str]) -> str:
    """The lines without events, which depend on when one looks, and without ids."""
    text = "\n".join(line for line in lines if not line.startswith("# AWS Event: ")) + "\n"
    return re.sub(r"/[0-9a-f]{16}\b", "/<id>", text)


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def test_the_first_release_is_created_in_the_stage_group_and_swapped_to_production(shop: Shop) -> None:
    execution = shop.run("1")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)
    assert shop.forwards(shop.prod) == [shop.group("target2")]
    assert shop.forwards(shop.stage) == [shop.group("target1")]
    assert shop.service("shop__1")["runningCount"] == 2
    assert shop.tags("shop__1")["BG_VERSION"] == "BLUE"
    assert not shop.service("shop__2")


def test_releases_alternate_between_the_names_and_the_groups(shop: Shop) -> None:
    shop.run("1")
    second = shop.run("2", visited=True)
    assert _get_result(second) == ("SUCCESS", "COMPLETED"), shop.drive.log(second)
    assert shop.forwards(shop.prod) == [shop.group("target1")]
    assert shop.service("shop__2")["runningCount"] == 2
    assert shop.service("shop__1")["desiredCount"] == 0
    assert (shop.tags("shop__1")["BG_VERSION"], shop.tags("shop__2")["BG_VERSION"]) == ("GREEN", "BLUE")
    third = shop.run("3", visited=True)
    assert _get_result(third) == ("SUCCESS", "COMPLETED"), shop.drive.log(third)
    assert shop.forwards(shop.prod) == [shop.group("target2")]
    assert shop.service("shop__1")["taskDefinition"].endswith("/shop:3")
    assert shop.meetings == []


def test_a_finished_release_is_rolled_back_without_an_empty_moment(shop: Shop) -> None:
    shop.run("1")
    shop.run("2")
    before = shop.state()
    third = shop.run("3")
    line_count = len(shop.drive.log(third))
    shop.roll_back(third, visited=True)
    assert _get_result(third) == ("ROLLED_BACK", "ROLLED_BACK"), shop.drive.log(third)
    assert shop.state() == before
    assert shop.meetings == []
    assert not RollbackCheck.objects.filter(step__stage__execution=third, passed=False).exists()
    assert _masked(shop.drive.log(third)[line_count:]) == GOLDEN.read_text()


def test_a_crashing_version_never_comes_near_production(shop: Shop) -> None:
    shop.run("1")
    before = shop.state()
    execution = shop.run("crash", visited=True)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK"), shop.drive.log(execution)
    assert shop.state() == before
    assert shop.meetings == []
