"""The load balancer that every pretend account has is ready for blue/green deployments."""

from tests.contract.endpoint import Aws


def _rules(aws: Aws, listener: str) -> dict[str, str]:
    """The target group of each rule of a listener."""
    rules = aws.client("elbv2").describe_rules(ListenerArn=listener)["Rules"]
    return {rule["RuleArn"]: rule["Actions"][0]["TargetGroupArn"] for rule in rules}


def test_the_seed_names_listeners_rules_and_target_groups_as_the_account_has_them(aws: Aws) -> None:
    seeded = aws.sandbox.seed()["load_balancer"]
    (balancer,) = aws.client("elbv2").describe_load_balancers()["LoadBalancers"]
    assert (balancer["LoadBalancerArn"], balancer["Type"]) == (seeded["arn"], "application")
    for listener, port in ((seeded["prod_listener"], 80), (seeded["stage_listener"], 8080)):
        assert listener["port"] == port
        assert _rules(aws, listener["arn"]) == {
            listener["default_rule_arn"]: listener["target_group"],
            listener["path_rule_arn"]: listener["path_target_group"],
        }
    groups = aws.client("elbv2").describe_target_groups()["TargetGroups"]
    assert {group["TargetGroupName"]: group["TargetGroupArn"] for group in groups} == seeded["target_groups"]
    assert {(group["TargetType"], group["Port"], group["Protocol"]) for group in groups} == {
        ("ip", 80, "HTTP")
    }
    assert seeded["prod_listener"]["target_group"] == seeded["target_groups"]["target1"]
    assert seeded["stage_listener"]["target_group"] == seeded["target_groups"]["target2"]


def test_the_ids_are_the_same_after_a_reset_so_that_pipelines_outlive_it(aws: Aws) -> None:
    before = aws.sandbox.seed()
    aws.sandbox.reset()
    assert aws.sandbox.seed() == before
