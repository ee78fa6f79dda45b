"""A canary with a share of the traffic: the weights of its rule, and who else writes them."""

from typing import Any

import pytest

from aws.apis.elb import get_target_group_weights
from deployments.models import AwsCall, Execution
from ops.demo.pipelines import SERVICE_DEFINITION
from tests.deployments.preview.comparison import (
    assert_same,
    list_planned_calls,
    list_recorded_calls,
    load_preview,
)
from tests.fixtures.engine_driver import Drive
from tests.stories.strategies.conftest import unplayed
from tests.stories.strategies.scenario import Play
from tests.stories.strategies.strategies import CANARY_SHARE

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def play(drive: Drive) -> Play:
    """A version that serves, and a pipeline whose canary has a tenth of its traffic."""
    play = unplayed(CANARY_SHARE, drive, is_plain=True)
    first = play.run("1.27")
    assert play.get_result(first) == ("SUCCESS", "COMPLETED"), play.log(first)
    play.remember()
    return play


def _listener(play: Play) -> str:
    return str(play.drive.sandbox.seed()["load_balancer"]["prod_listener"]["arn"])


def _actions(play: Play) -> list[dict[str, Any]]:
    (listener,) = play.drive.call("elbv2", "DescribeListeners", {"ListenerArns": [_listener(play)]})[
        "Listeners"
    ]
    actions: list[dict[str, Any]] = listener["DefaultActions"]
    return actions


def _weights(play: Play) -> list[int]:
    return list(get_target_group_weights(_actions(play)).values())


def _until_shared(play: Play, tag: str = "1.28") -> Execution:
    execution = play.start(tag)
    return play.until(execution, lambda: any("receives 10 %" in line for line in play.log(execution)))


def test_a_canary_takes_its_share_and_gives_it_back_before_it_is_deleted(play: Play) -> None:
    before = _actions(play)
    execution = _until_shared(play)
    assert _weights(play) == [90, 10]
    play.until_over(execution)
    assert play.get_result(execution) == ("SUCCESS", "COMPLETED"), play.log(execution)
    assert _actions(play) == before
    writes = [write for write in play.effects(execution) if "Modify" in write or "DeleteService" in write]
    assert writes == [
        "elbv2 ModifyListener",
        "elbv2 ModifyListener",
        "elbv2 ModifyListener",
        "ecs DeleteService",
    ]


def test_a_preview_lists_the_writes_of_the_rule(play: Play) -> None:
    document = load_preview(play.drive, "1.28")
    assert [step["failure"] for step in document["steps"]] == [None] * len(document["steps"])
    execution = play.run("1.28")
    assert_same(list_planned_calls(document), list_recorded_calls(execution))


def test_a_first_version_has_no_traffic_to_share(drive: Drive) -> None:
    play = unplayed(CANARY_SHARE, drive, is_plain=True)
    before = _actions(play)
    execution = play.run("1.27")
    assert play.get_result(execution) == ("SUCCESS", "COMPLETED"), play.log(execution)
    assert any("receives no share" in line for line in play.log(execution))
    assert _actions(play) == before


def test_a_rule_that_somebody_else_changed_stays_and_so_does_its_canary(play: Play) -> None:
    execution = _until_shared(play)
    (stable, canary) = get_target_group_weights(_actions(play))
    groups = [{"TargetGroupArn": stable, "Weight": 1}, {"TargetGroupArn": canary, "Weight": 1}]
    actions = [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}]
    play.drive.call("elbv2", "ModifyListener", {"ListenerArn": _listener(play), "DefaultActions": actions})
    play.until_over(execution)
    assert play.get_result(execution) == ("FAILED", "SUPERSEDED")
    assert _weights(play) == [1, 1]
    assert play.drive.service("webshopCanary")["runningCount"] == 1


def test_a_canary_that_somebody_else_took_out_of_the_rule_is_deleted(play: Play) -> None:
    execution = _until_shared(play)
    (stable, _) = get_target_group_weights(_actions(play))
    config = {"TargetGroups": [{"TargetGroupArn": stable, "Weight": 5}]}
    actions = [{"Type": "forward", "ForwardConfig": config}]
    play.drive.call("elbv2", "ModifyListener", {"ListenerArn": _listener(play), "DefaultActions": actions})
    play.until_over(execution)
    assert play.get_result(execution) == ("SUCCESS", "COMPLETED"), play.log(execution)
    assert _weights(play) == [5]
    assert any("stays as it is" in line for line in play.log(execution))


def test_a_service_that_is_not_behind_the_rule_has_no_canary_with_a_share(play: Play) -> None:
    groups = play.drive.sandbox.seed()["load_balancer"]["target_groups"]
    play.edit(SERVICE_DEFINITION, groups["target1"], groups["api1"])
    execution = play.run("1.28")
    assert execution.failure["code"] == "NO_TRAFFIC_TO_SHARE"
    assert play.list_changes() == []


@pytest.mark.parametrize(("hidden_seconds", "least_wait", "longest_wait"), [(12, 10, 25), (300, 30, 45)])
def test_a_canary_is_created_once_aws_shows_the_load_balancer_of_its_group(
    play: Play, hidden_seconds: int, least_wait: int, longest_wait: int
) -> None:
    play.drive.sandbox.fault(
        "stale_reads", service="elbv2", operation="DescribeTargetGroups", seconds=hidden_seconds
    )
    execution = play.run("1.28")
    assert play.get_result(execution) == ("SUCCESS", "COMPLETED"), play.log(execution)
    attached, created = (
        AwsCall.objects.filter(execution=execution, operation=operation).earliest("sent_at").sent_at
        for operation in ("ModifyListener", "CreateService")
    )
    assert least_wait <= (created - attached).total_seconds() <= longest_wait
