"""What stops a blue/green deployment before anything is changed, and what its sentence says."""

import pytest

from tests.stories.blue_green.conftest import edit
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)


def _run_refused(shop: Shop, tag: str = "1") -> tuple[str, str]:
    mark = shop.drive.mark()
    execution = shop.run(tag)
    assert execution.status == "FAILED"
    assert shop.drive.effects(mark) == []
    return execution.failure["code"], execution.failure["message"]


def test_a_port_that_no_container_has_is_refused_in_the_documented_words(shop: Shop) -> None:
    edit("task.yaml", "containerPort: 80", "containerPort: 8080")
    edit("service.yaml", "containerPort: 80", "containerPort: 8080")
    code, message = _run_refused(shop)
    assert code == "PORT_MISMATCH"
    assert message.startswith(
        "Error: No container definition has port mapping that matches the target port: 80 for target group:"
        f" {shop.group('target2')}\n"
    )


def test_a_fixed_target_group_is_refused(shop: Shop) -> None:
    edit("service.yaml", "<+targetGroupArn>", shop.group("target2"))
    code, message = _run_refused(shop)
    assert code == "TARGET_GROUP_EXPRESSION_MISSING"
    assert "<+targetGroupArn>" in message


def test_a_circuit_breaker_is_refused(shop: Shop) -> None:
    edit(
        "service.yaml",
        "deploymentConfiguration: {",
        "deploymentConfiguration: {deploymentCircuitBreaker: {enable: true, rollback: true}, ",
    )
    assert _run_refused(shop)[0] == "CIRCUIT_BREAKER_NOT_SUPPORTED"


def test_a_load_balancer_that_is_not_there_is_named_with_what_to_check(shop: Shop) -> None:
    shop.choose(loadBalancer="nobody")
    code, message = _run_refused(shop)
    assert code == "LOAD_BALANCER_NOT_FOUND"
    assert "nobody" in message
    assert "delegate" in message


def test_a_rule_of_another_listener_is_refused(shop: Shop) -> None:
    shop.choose(prodListenerRuleArn=shop.stage["default_rule_arn"])
    code, message = _run_refused(shop)
    assert code == "LISTENER_NOT_FOUND"
    assert shop.prod["arn"] in message


def test_a_stage_group_that_gets_a_part_of_production_is_refused(shop: Shop) -> None:
    groups = [
        {"TargetGroupArn": shop.group("target1"), "Weight": 9},
        {"TargetGroupArn": shop.group("target2"), "Weight": 1},
    ]
    shop.forward(shop.prod, [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}])
    code, message = _run_refused(shop)
    assert code == "STAGE_RECEIVES_PRODUCTION"
    assert shop.group("target2") in message


def test_a_stage_group_that_another_rule_leads_to_is_refused(shop: Shop) -> None:
    actions = [{"Type": "forward", "TargetGroupArn": shop.group("target2")}]
    shop.call("elbv2", "ModifyRule", RuleArn=shop.prod["path_rule_arn"], Actions=actions)
    code, message = _run_refused(shop)
    assert code == "STAGE_RECEIVES_PRODUCTION"
    assert "rule of port 80 for path is /api/*" in message


def test_a_rule_that_redirects_is_refused(shop: Shop) -> None:
    shop.forward(shop.stage, [{"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "503"}}])
    assert _run_refused(shop)[0] == "RULE_DOES_NOT_FORWARD"


def test_two_services_in_production_stop_the_deployment(shop: Shop) -> None:
    shop.run("1")
    shop.choose(swap={"doNotDownsizeOldService": True})
    shop.run("2")
    # Somebody registers the old one in the group of production as well.
    balancers = [{"targetGroupArn": shop.group("target1"), "containerName": "web", "containerPort": 80}]
    shop.call("ecs", "UpdateService", cluster="demo", service="shop__1", loadBalancers=balancers)
    shop.drive.pass_time(120)
    code, message = _run_refused(shop, "3")
    assert code == "BLUE_NOT_CLEAR"
    assert "shop__1 and shop__2" in message


def test_swapping_without_creating_is_refused(shop: Shop) -> None:
    shop.choose_steps("EcsBlueGreenSwapTargetGroups")
    code, message = _run_refused(shop)
    assert code == "NOTHING_TO_SWAP"
    assert "EcsBlueGreenCreateService" in message
