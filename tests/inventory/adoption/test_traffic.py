"""Which rules are production and stage is read in full pages, and judged as a deployment would judge it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from aws.errors import Denied, NotFound
from inventory.adoption.traffic.cursor import TrafficCursor
from inventory.adoption.traffic.options import (
    RANK_PARTNERS,
    RANK_POSSIBLE,
    RANK_SIMILAR,
    TrafficOptions,
    TrafficPair,
    find_traffic_options,
)
from inventory.drift.cursor import TRAFFIC, DriftCursor

BALANCER = "arn:lb/app/demo"
PROD, STAGE = "arn:listener/80", "arn:listener/8080"
BLUE, GREEN, OTHER = "arn:targetgroup/blue/1", "arn:targetgroup/green/2", "arn:targetgroup/other/3"
PATH = [{"Field": "path-pattern", "PathPatternConfig": {"Values": ["/api/*"]}}]


def build_forward_actions(*groups: str, **weights: int) -> list[dict[str, Any]]:
    if not weights:
        return [{"Type": "forward", "TargetGroupArn": groups[0]}]
    target_groups = [
        {"TargetGroupArn": group, "Weight": weight}
        for group, weight in zip(groups, weights.values(), strict=True)
    ]
    return [{"Type": "forward", "ForwardConfig": {"TargetGroups": target_groups}}]


def build_rule(
    arn: str, actions: list[dict[str, Any]], conditions: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {
        "RuleArn": arn,
        "Priority": "10" if conditions else "default",
        "IsDefault": not conditions,
        "Conditions": conditions or [],
        "Actions": actions,
    }


@dataclass
class FakeLoadBalancer:
    """An account with one load balancer, that answers one row to a page."""

    rules: dict[str, list[dict[str, Any]]]
    kind: str = "application"
    targets: dict[str, int] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    deleted_groups: tuple[str, ...] = ()
    denied: str = ""
    operations: list[str] = field(default_factory=list)

    def read(self, *groups: str) -> TrafficCursor:
        """Read everything, as the scan of a cluster does; the cursor is stored between steps."""
        cursor = DriftCursor.of("2026-01-01", (), (), groups)
        while not cursor.is_complete:
            assert cursor.phase == TRAFFIC
            cursor = DriftCursor.from_row(cursor.to_row())
            question = cursor.build_call("demo")
            assert question.service == "elbv2"
            self.operations.append(question.operation)
            if question.operation == self.denied:
                next_cursor = cursor.after_error(Denied("AccessDenied", "no", "elbv2", question.operation))
            elif missing_groups := set(self.deleted_groups) & set(question.params.get("TargetGroupArns", ())):
                next_cursor = cursor.after_error(NotFound("TargetGroupNotFound", str(missing_groups)))
            else:
                next_cursor = cursor.after_response("demo", self.answer(question.operation, question.params))
            assert next_cursor is not None
            cursor = next_cursor
        return cursor.traffic

    def answer(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        result = getattr(self, operation)(params)
        if isinstance(result, dict):
            return result
        member, rows = result
        index = int(params.get("Marker", 0))
        marker = {"NextMarker": str(index + 1)} if index + 1 < len(rows) else {}
        return {member: rows[index : index + 1], **marker}

    def DescribeTargetGroups(self, params: Mapping[str, Any]) -> dict[str, Any]:
        rows = [
            {
                "TargetGroupArn": arn,
                "Port": self.ports.get(arn, 80),
                "Protocol": "HTTP",
                "TargetType": "ip",
                "LoadBalancerArns": [BALANCER],
            }
            for arn in params["TargetGroupArns"]
        ]
        return {"TargetGroups": rows}

    def DescribeLoadBalancers(self, params: Mapping[str, Any]) -> dict[str, Any]:
        assert params == {"LoadBalancerArns": [BALANCER]}
        row = {"LoadBalancerArn": BALANCER, "LoadBalancerName": "demo", "Type": self.kind, "VpcId": "vpc-1"}
        return {"LoadBalancers": [row]}

    def DescribeListeners(self, params: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        assert params["LoadBalancerArn"] == BALANCER
        return "Listeners", [
            {
                "ListenerArn": arn,
                "LoadBalancerArn": BALANCER,
                "Port": int(arn.rpartition("/")[2]),
                "Protocol": "HTTP",
                "DefaultActions": next(
                    listener_rule["Actions"] for listener_rule in rules if listener_rule["IsDefault"]
                ),
            }
            for arn, rules in self.rules.items()
        ]

    def DescribeRules(self, params: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        return "Rules", self.rules[params["ListenerArn"]]

    def DescribeTargetHealth(self, params: Mapping[str, Any]) -> dict[str, Any]:
        target_count = self.targets.get(params["TargetGroupArn"], 0)
        return {"TargetHealthDescriptions": [{"Target": {"Id": f"10.0.0.{n}"}} for n in range(target_count)]}


def create_two_listeners() -> FakeLoadBalancer:
    return FakeLoadBalancer(
        {
            PROD: [build_rule("p", build_forward_actions(BLUE))],
            STAGE: [build_rule("s", build_forward_actions(GREEN))],
        }
    )


def find_options(
    balancing: FakeLoadBalancer, partner: str = "", taken_groups: tuple[str, ...] = ()
) -> TrafficOptions:
    group_arns = [BLUE, *([partner] if partner and partner != BLUE else [])]
    options = find_traffic_options(
        balancing.read(*group_arns), TrafficPair(BLUE, partner, {80}, taken_groups)
    )
    return TrafficOptions.from_row(options.to_row())


def list_keys(traffic: TrafficOptions) -> list[str]:
    return [option.key for option in traffic.options]


def test_the_rule_of_the_partner_is_the_stage() -> None:
    traffic = find_options(create_two_listeners(), partner=GREEN)
    assert traffic.certain_option is not None
    assert (traffic.certain_option.key, traffic.certain_option.rank) == ("p s", RANK_PARTNERS)
    assert (traffic.warnings, traffic.missing) == ((), ())


def test_without_a_partner_the_rule_for_the_same_requests_elsewhere_is_the_stage() -> None:
    traffic = find_options(create_two_listeners())
    assert traffic.certain_option is not None
    assert (traffic.certain_option.key, traffic.certain_option.rank) == ("p s", RANK_SIMILAR)
    assert traffic.certain_option.production.balancer == BALANCER
    assert "port 80" in traffic.certain_option.production.description


def test_all_pages_of_listeners_and_rules_are_read_and_no_more() -> None:
    balancing = create_two_listeners()
    balancing.rules[PROD].insert(0, build_rule("path", build_forward_actions(OTHER), PATH))
    balancing.read(BLUE)
    assert balancing.operations == [
        "DescribeTargetGroups",
        "DescribeLoadBalancers",
        *["DescribeListeners"] * 2,
        *["DescribeRules"] * 3,
        "DescribeTargetGroups",
        *["DescribeTargetHealth"] * 2,
    ]


def test_a_rule_with_conditions_is_paired_with_one_for_the_same_requests() -> None:
    balancing = FakeLoadBalancer(
        {
            PROD: [
                build_rule("p", build_forward_actions(OTHER)),
                build_rule("p-api", build_forward_actions(BLUE), PATH),
            ],
            STAGE: [
                build_rule("s", build_forward_actions("arn:targetgroup/x/9")),
                build_rule("s-api", build_forward_actions(GREEN), PATH),
            ],
        }
    )
    traffic = find_options(balancing)
    assert traffic.certain_option is not None
    assert traffic.certain_option.key == "p-api s-api"
    assert list_keys(traffic) == ["p-api s-api", "p-api p", "p-api s"]
    assert traffic.missing == ()


def test_what_is_merely_possible_is_a_persons_choice() -> None:
    host = [{"Field": "host-header", "HostHeaderConfig": {"Values": ["stage.example.com"]}}]
    balancing = FakeLoadBalancer(
        {
            PROD: [
                build_rule("p", build_forward_actions(BLUE)),
                build_rule("host", build_forward_actions(GREEN), host),
            ]
        }
    )
    traffic = find_options(balancing)
    assert (list_keys(traffic), traffic.options[0].rank, traffic.certain_option) == (
        ["p host", "p"],
        RANK_POSSIBLE,
        None,
    )
    assert len(traffic.missing) == 1


def test_several_that_fit_equally_are_a_persons_choice() -> None:
    balancing = create_two_listeners()
    balancing.rules["arn:listener/9090"] = [build_rule("t", build_forward_actions(OTHER))]
    traffic = find_options(balancing)
    assert (sorted(list_keys(traffic)), traffic.certain_option) == (["p s", "p t"], None)


@pytest.mark.parametrize("reason", ["targets", "service", "port", "rule"])
def test_a_group_that_somebody_else_uses_is_no_stage(reason: str) -> None:
    balancing, taken_groups = create_two_listeners(), ()
    if reason == "targets":
        balancing.targets[GREEN] = 1
    elif reason == "service":
        taken_groups = (GREEN,)
    elif reason == "port":
        balancing.ports[GREEN] = 9000
    else:
        balancing.rules["arn:listener/9090"] = [build_rule("t", build_forward_actions(GREEN))]
    traffic = find_options(balancing, taken_groups=taken_groups)
    assert [option.stage for option in traffic.options] == [None]
    assert traffic.certain_option is not None
    (message,) = traffic.missing
    for phrase in ("type ip", "protocol HTTP", "port 80", "VPC vpc-1", "load balancer demo", "default rule"):
        assert phrase in message


def test_a_stage_with_weights_is_known_by_its_first_group_and_production_by_what_receives() -> None:
    balancing = FakeLoadBalancer(
        {
            PROD: [build_rule("p", build_forward_actions(BLUE, GREEN, a=100, b=0))],
            STAGE: [build_rule("s", build_forward_actions(GREEN, BLUE, a=100, b=0))],
        }
    )
    traffic = find_options(balancing, partner=GREEN)
    assert traffic.certain_option is not None
    assert (traffic.certain_option.key, traffic.certain_option.rank) == ("p s", RANK_PARTNERS)


def test_production_that_is_split_with_the_stage_is_refused_as_a_deployment_refuses_it() -> None:
    balancing = create_two_listeners()
    balancing.rules[PROD] = [build_rule("p", build_forward_actions(BLUE, GREEN, a=90, b=10))]
    traffic = find_options(balancing, partner=GREEN)
    assert [option.stage for option in traffic.options] == [None]
    assert any("blue/1 (90), green/2 (10)" in warning for warning in traffic.warnings)


def test_several_rules_to_production_are_told_and_chosen_by_a_person() -> None:
    balancing = create_two_listeners()
    balancing.rules["arn:listener/443"] = [build_rule("tls", build_forward_actions(BLUE))]
    traffic = find_options(balancing, partner=GREEN)
    assert (sorted(list_keys(traffic)), traffic.certain_option) == (["p s", "tls s"], None)
    assert any(
        warning.startswith("2 rules route traffic to this ECS service") for warning in traffic.warnings
    )


def test_one_group_behind_both_rules_is_a_way_to_work_where_the_pair_shares_it() -> None:
    balancing = FakeLoadBalancer(
        {
            PROD: [build_rule("p", build_forward_actions(BLUE))],
            STAGE: [build_rule("s", build_forward_actions(BLUE))],
        }
    )
    assert find_options(balancing).options[0].stage is None
    assert sorted(list_keys(find_options(balancing, partner=BLUE))) == ["p s", "s p"]


def test_the_listeners_of_a_network_load_balancer_have_no_rules() -> None:
    balancing = create_two_listeners()
    balancing.kind = "network"
    traffic = find_options(balancing)
    assert "DescribeRules" not in balancing.operations
    assert traffic.certain_option is not None
    assert traffic.certain_option.stage is not None
    assert (traffic.certain_option.key, traffic.certain_option.stage.rule) == (f"{PROD} {STAGE}", "")


def test_a_listener_that_redirects_leads_nowhere() -> None:
    balancing = create_two_listeners()
    balancing.rules[PROD] = [build_rule("p", [{"Type": "redirect", "RedirectConfig": {"Port": "443"}}])]
    traffic = find_options(balancing)
    assert traffic.options == ()
    assert "No listener rule forwards to the target group blue/1" in traffic.missing[0]


def test_a_group_that_is_gone_spoils_nothing_of_the_rest() -> None:
    balancing = create_two_listeners()
    balancing.deleted_groups = (OTHER,)
    assert set(balancing.read(BLUE, OTHER, GREEN).groups) == {BLUE, GREEN}


@pytest.mark.parametrize("operation", ["DescribeTargetGroups", "DescribeRules", "DescribeTargetHealth"])
def test_a_missing_permission_is_named_and_ends_nothing_else(operation: str) -> None:
    balancing = create_two_listeners()
    balancing.denied = operation
    traffic = find_options(balancing)
    assert traffic.options == ()
    assert f"elasticloadbalancing:{operation}" in traffic.missing[0]


def test_texts_of_others_are_cleaned_before_they_are_kept() -> None:
    balancing = create_two_listeners()
    hostile_conditions = [{"Field": "path-pattern", "PathPatternConfig": {"Values": ["/\0<b>\x07"]}}]
    balancing.rules[PROD].append(build_rule("bad", build_forward_actions(BLUE), hostile_conditions))
    cursor = balancing.read(BLUE)
    assert "\0" not in str(cursor.to_row())
    assert "\x07" not in str(cursor.to_row())
