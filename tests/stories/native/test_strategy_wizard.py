"""A service changes its strategy there and back by the wizard; production always has a healthy target."""

from dataclasses import replace

import pytest
import yaml

from connectors.models import FileNode
from inventory.operations.strategy_changes import (
    StrategyChoice,
    change_strategy,
    preview_strategy_change,
)
from inventory.strategy_changes.proposals import StrategyChange
from rbac.models import User
from tests.stories.native.conftest import ROLE, SERVICE_FILE, Native
from tests.stories.native.test_strategy_migrations import choose_rolling, save_steps

pytestmark = pytest.mark.django_db(transaction=True)


def preview(native: Native, choice: StrategyChoice) -> StrategyChange:
    actor, pipeline = User.objects.get(username="admin"), native.shop.drive.pipeline
    return preview_strategy_change(actor=actor, pipeline=pipeline, choice=choice)


def change(native: Native, choice: StrategyChoice) -> None:
    """Review the change, and make it."""
    review = preview(native, choice)
    assert review.obstacles == ()
    actor, pipeline = User.objects.get(username="admin"), native.shop.drive.pipeline
    native.shop.drive.pipeline = change_strategy(
        actor=actor, pipeline=pipeline, choice=choice, digest=review.digest
    )


def deploy(native: Native, tag: str) -> None:
    execution = native.shop.run(tag, visited=True)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), native.log(execution)[-6:]


def canary(native: Native) -> StrategyChoice:
    return StrategyChoice(
        "CANARY",
        production=native.shop.prod["default_rule_arn"],
        test=native.shop.stage["default_rule_arn"],
        alternate_group=native.shop.group("target2"),
        role=ROLE,
        percent=20,
        step_minutes=1,
        bake_minutes=1,
    )


def start_rolling(native: Native) -> None:
    choose_rolling(native, "target1")
    save_steps(native, "EcsRollingDeploy", "EcsRollingRollback")
    native.run("1")


def list_step_types(native: Native) -> list[str]:
    stage = yaml.safe_load(native.shop.drive.pipeline.yaml)["pipeline"]["stages"][0]["stage"]
    return [step["step"]["type"] for step in stage["spec"]["execution"]["steps"]]


def test_a_rolling_service_becomes_a_canary_of_ecs_and_rolling_again(native: Native) -> None:
    start_rolling(native)
    change(native, canary(native))
    assert list_step_types(native) == ["EcsNativeDeploy"]
    deploy(native, "2")
    assert native.shop.service("shop")["deploymentConfiguration"]["strategy"] == "CANARY"

    change(native, StrategyChoice("ROLLING"))
    assert list_step_types(native) == ["EcsNativeDeploy"], "it knows both strategies"
    deploy(native, "3")
    change(native, StrategyChoice("ROLLING"))
    assert list_step_types(native) == ["EcsRollingDeploy"]
    deploy(native, "4")
    live = native.shop.service("shop")
    assert live["deploymentConfiguration"]["strategy"] == "ROLLING"
    assert native.shop.forwards(native.shop.prod) == [live["loadBalancers"][0]["targetGroupArn"]]
    assert native.shop.meetings == []


def test_a_rolling_service_becomes_blue_green_of_slipway_and_rolling_again(native: Native) -> None:
    start_rolling(native)
    rules = replace(canary(native), strategy="SLIPWAY_BLUE_GREEN")
    change(native, rules)
    assert list_step_types(native) == ["EcsBlueGreenCreateService", "EcsBlueGreenSwapTargetGroups"]
    deploy(native, "2")
    deploy(native, "3")
    assert native.shop.service("shop")["runningCount"] == 0

    change(native, StrategyChoice("ROLLING"))
    assert list_step_types(native) == ["EcsRollingDeploy"]
    deploy(native, "4")
    counts = [native.shop.service(name)["runningCount"] for name in ("shop", "shop__1", "shop__2")]
    assert counts == [2, 0, 0]
    assert native.shop.meetings == []


def test_a_canary_of_ecs_becomes_blue_green_of_slipway_by_way_of_rolling(native: Native) -> None:
    native.run("1")
    review = preview(native, replace(canary(native), strategy="SLIPWAY_BLUE_GREEN"))
    assert any("changes to rolling first" in obstacle for obstacle in review.obstacles)


def test_the_service_definition_keeps_its_comments(native: Native) -> None:
    start_rolling(native)
    node = FileNode.objects.get(path=SERVICE_FILE)
    node.content = f"# The shop\n{node.content}"
    node.save()
    change(native, canary(native))
    node.refresh_from_db()
    assert node.content.startswith("# The shop\n")
    assert node.versions.latest("version").note == "Strategy changed to Canary by ECS"
