"""Blue/green when AWS, people and permissions get in the way: nobody meets an empty target group."""

import pytest

from deployments.execution.operations import abort_execution, roll_back_execution
from deployments.models import Execution, RollbackCheck
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def test_a_swap_that_is_refused_in_the_middle_goes_back_only_once_the_old_targets_are_healthy(
    shop: Shop,
) -> None:
    # Production is a rule of its own, stage a default rule: one write each of another kind.
    shop.choose(prodListenerRuleArn=shop.prod["path_rule_arn"])
    shop.visits_path = True
    shop.run("1")
    before = shop.state()
    shop.drive.sandbox.fault("denied", operation="ModifyListener")
    execution = shop.run("2", visited=True)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK"), shop.drive.log(execution)
    assert "elasticloadbalancing:ModifyListener" in execution.failure["message"]
    assert any("restart before traffic is moved back" in line for line in shop.drive.log(execution))
    shop.drive.sandbox.clear_faults()
    assert shop.state() == before
    assert shop.meetings == []


def test_a_rollback_takes_no_traffic_from_where_somebody_has_sent_it_meanwhile(shop: Shop) -> None:
    shop.choose(swap={"doNotDownsizeOldService": True})
    shop.run("1")
    second = shop.run("2", visited=True)
    own_group = shop.call("elbv2", "DescribeTargetGroups", TargetGroupArns=[shop.group("target1")])
    (group,) = own_group["TargetGroups"]
    made = shop.call(
        "elbv2",
        "CreateTargetGroup",
        Name="maintenance",
        Protocol="HTTP",
        Port=80,
        VpcId=group["VpcId"],
        TargetType="ip",
    )
    maintenance = made["TargetGroups"][0]["TargetGroupArn"]
    for listener in (shop.prod, shop.stage):
        shop.forward(listener, [{"Type": "forward", "TargetGroupArn": maintenance}])
    mark = shop.drive.mark()
    shop.roll_back(second)
    assert "ModifyListener" not in shop.drive.effects(mark)
    assert shop.forwards(shop.prod) == [maintenance]
    assert any("Somebody else changed the Prod Listener Rule" in line for line in shop.drive.log(second))


def test_lost_answers_are_found_again_and_nothing_is_sent_twice(shop: Shop) -> None:
    shop.run("1")
    shop.run("2")
    before, mark = shop.state(), shop.drive.mark()
    for operation in ("CreateService", "DeleteService", "TagResource", "ModifyListener", "UpdateService"):
        shop.drive.sandbox.fault("lost_answer", operation=operation, count=1)
    third = shop.run("3", visited=True)
    assert _get_result(third) == ("SUCCESS", "COMPLETED"), shop.drive.log(third)
    effects = shop.drive.effects(mark)
    assert effects.count("CreateService") == effects.count("DeleteService") == 1
    assert effects.count("ModifyListener") == 2
    for operation in ("CreateService", "DeleteService", "ModifyListener", "UpdateService"):
        shop.drive.sandbox.fault("lost_answer", operation=operation, count=1)
    shop.roll_back(third, visited=True)
    assert _get_result(third) == ("ROLLED_BACK", "ROLLED_BACK"), shop.drive.log(third)
    assert shop.state() == before
    assert shop.meetings == []


def test_tagging_that_is_denied_is_a_line_that_names_the_action(shop: Shop) -> None:
    shop.drive.sandbox.fault("denied", service="ecs", operation="TagResource")
    execution = shop.run("1")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    log = shop.drive.log(execution)
    assert any("ecs:TagResource" in line and "stays without tag" in line for line in log)
    second = shop.run("2")
    assert _get_result(second) == ("SUCCESS", "COMPLETED"), shop.drive.log(second)
    assert shop.forwards(shop.prod) == [shop.group("target1")]


def test_reading_tags_that_is_denied_changes_nothing_but_a_line(shop: Shop) -> None:
    shop.run("1")
    shop.drive.sandbox.fault("denied", service="ecs", operation="ListTagsForResource")
    execution = shop.run("2")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)
    shop.roll_back(execution)
    assert _get_result(execution) == ("ROLLED_BACK", "ROLLED_BACK"), shop.drive.log(execution)


def test_throttling_only_costs_time(shop: Shop) -> None:
    shop.run("1")
    shop.drive.sandbox.fault("throttle", operation="ModifyListener", count=4)
    execution = shop.run("2", visited=True)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)
    assert shop.meetings == []


def test_a_rule_that_somebody_else_changed_is_not_swapped(shop: Shop) -> None:
    shop.run("1")
    execution = shop.drive.start("2")
    shop.pass_until(execution, lambda log: any("Creating Stage Service" in line for line in log))
    foreign_actions = [{"Type": "forward", "TargetGroupArn": shop.group("api1")}]
    shop.forward(shop.prod, foreign_actions)
    shop.drive.until_over(execution)
    assert execution.failure["code"] == "SUPERSEDED"
    assert shop.forwards(shop.prod) == [shop.group("api1")]
    assert not shop.service("shop__2")


def test_an_authentication_that_is_added_meanwhile_stays_with_the_swap_and_with_its_undo(shop: Shop) -> None:
    shop.run("1")
    (production,) = shop.forwards(shop.prod)
    execution = shop.drive.start("2")
    shop.pass_until(execution, lambda log: any("Creating Stage Service" in line for line in log))
    login = {
        "Type": "authenticate-cognito",
        "Order": 1,
        "AuthenticateCognitoConfig": {
            "UserPoolArn": "arn:aws:cognito-idp:us-east-1:123456789012:userpool/us-east-1_a",
            "UserPoolClientId": "client",
            "UserPoolDomain": "shop",
        },
    }
    shop.forward(shop.prod, [login, {"Type": "forward", "Order": 2, "TargetGroupArn": production}])
    shop.drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert shop.forwards(shop.prod) != [production]
    assert [action["Type"] for action in shop.actions(shop.prod)] == ["authenticate-cognito", "forward"]
    roll_back_execution(actor=shop.drive.deployer, execution=execution)
    shop.drive.until_over(execution)
    assert shop.forwards(shop.prod) == [production]
    assert [action["Type"] for action in shop.actions(shop.prod)] == ["authenticate-cognito", "forward"]


def test_a_wrong_tag_of_the_live_service_is_corrected_and_comes_back(shop: Shop) -> None:
    shop.run("1")
    arn = shop.service("shop__1")["serviceArn"]
    shop.call("ecs", "TagResource", resourceArn=arn, tags=[{"key": "BG_VERSION", "value": "GREEN"}])
    before = shop.state()
    execution = shop.drive.start("crash")
    shop.pass_until(execution, lambda log: any("Creating Stage Service" in line for line in log))
    assert shop.tags("shop__1")["BG_VERSION"] == "BLUE"
    shop.drive.until_over(execution)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert shop.state() == before


def test_a_green_service_that_others_deploy_to_between_two_attempts_is_not_deleted(shop: Shop) -> None:
    shop.run("1")
    shop.run("2")
    document = shop.document()
    (create, _) = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]["steps"]
    retry = {"retryCount": 1, "retryIntervals": ["60s"], "onRetryFailure": {"action": {"type": "Abort"}}}
    action = {"type": "Retry", "spec": retry}
    create["step"]["failureStrategies"] = [{"onFailure": {"errors": ["AllErrors"], "action": action}}]
    shop.save(document)
    shop.drive.sandbox.fault("denied", service="ecs", operation="DeleteService", count=1)
    execution = shop.drive.start("3")
    shop.pass_until(execution, lambda log: any("is tried again in 60 seconds" in line for line in log))
    place = {"cluster": "demo", "service": "shop__1"}
    shop.call("ecs", "UpdateService", **place, desiredCount=1, forceNewDeployment=True)
    shop.drive.until_over(execution)
    assert execution.failure["code"] == "SUPERSEDED"
    assert shop.service("shop__1")["runningCount"] == 1


def test_a_green_service_that_becomes_live_meanwhile_is_never_deleted(shop: Shop) -> None:
    """Somebody swaps by hand while the stage service starts: the rollback does not take it back."""
    shop.run("1")
    execution = shop.drive.start("2")
    shop.pass_until(execution, lambda log: any("2/2 running" in line for line in log))
    shop.forward(shop.prod, [{"Type": "forward", "TargetGroupArn": shop.group("target1")}])
    abort_execution(
        actor=shop.drive.deployer, execution=Execution.objects.get(pk=execution.pk), roll_back=True
    )
    shop.drive.until_over(execution)
    assert shop.service("shop__2")["runningCount"] == 2
    assert any("Slipway refuses to take it back" in line for line in shop.drive.log(execution))
    assert RollbackCheck.objects.filter(step__stage__execution=execution).exists()


def test_an_old_service_that_another_rule_still_leads_to_keeps_its_tasks(shop: Shop) -> None:
    shop.run("1")
    actions = [{"Type": "forward", "TargetGroupArn": shop.group("target2")}]
    shop.call("elbv2", "ModifyRule", RuleArn=shop.prod["path_rule_arn"], Actions=actions)
    execution = shop.run("2")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert shop.service("shop__1")["runningCount"] == 2
    assert any("/api/* still leads to Service shop__1" in line for line in shop.drive.log(execution))


@pytest.mark.parametrize("seconds", [20, 62, 75])
def test_an_abort_with_rollback_at_any_moment_leaves_everything_as_it_was(shop: Shop, seconds: int) -> None:
    shop.run("1")
    before = shop.state()
    execution = shop.drive.start("2")
    shop.drive.pass_time(seconds)
    execution.refresh_from_db()
    if execution.is_over:
        shop.roll_back(execution, visited=True)
    else:
        abort_execution(actor=shop.drive.deployer, execution=execution, roll_back=True)
        shop.until_over(execution, visited=True)
    assert execution.outcome in ("ROLLED_BACK", "ABORTED"), shop.drive.log(execution)
    assert shop.state() == before
    assert shop.meetings == []


@pytest.mark.parametrize("moment", ["2/2 running", "Swapping Successful."])
def test_an_abort_without_a_rollback_does_not_stand_in_the_way_of_the_next_release(
    shop: Shop, moment: str
) -> None:
    shop.run("1")
    shop.choose(swap={"downsizeOldServiceDelayInSecs": 600})
    execution = shop.drive.start("2")
    shop.pass_until(execution, lambda log: any(moment in line for line in log))
    abort_execution(actor=shop.drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    assert _get_result(shop.until_over(execution)) == ("ABORTED", "ABORTED")
    live = shop.forwards(shop.prod)
    next_release = shop.run("3", visited=True)
    assert _get_result(next_release) == ("SUCCESS", "COMPLETED"), shop.drive.log(next_release)
    assert shop.forwards(shop.prod) != live
    assert shop.meetings == []
