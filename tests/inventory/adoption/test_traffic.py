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


def forward(*groups: str, **weights: int) -> list[dict[str, Any]]:
    if not weights:
        return [{"Type": "forward", "TargetGroupArn": groups[0]}]
    listed = [
        {"TargetGroupArn": group, "Weight": weight}
        for group, weight in zip(groups, weights.values(), strict=True)
    ]
    return [{"Type": "forward", "ForwardConfig": {"TargetGroups": listed}}]


def rule(
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
class Balancing:
    """An account with one load balancer, that answers one row to a page."""

    rules: dict[str, list[dict[str, Any]]]
    kind: str = "application"
    targets: dict[str, int] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    denied: str = ""
    asked: list[str] = field(default_factory=list)

    def read(self, *groups: str) -> TrafficCursor:
        """A whole reading, as the look of a cluster makes it; each step is a row in between."""
        reading = DriftCursor.of("2026-01-01", (), (), groups)
        while not reading.is_complete:
            assert reading.phase == TRAFFIC
            reading = DriftCursor.from_row(reading.to_row())
            question = reading.build_call("demo")
            assert question.service == "elbv2"
            self.asked.append(question.operation)
            if question.operation == self.denied:
                left = reading.after_error(Denied("AccessDenied", "no", "elbv2", question.operation))
            elif missing := set(self.gone) & set(question.params.get("TargetGroupArns", ())):
                left = reading.after_error(NotFound("TargetGroupNotFound", str(missing)))
            else:
                left = reading.after_response("demo", self.answer(question.operation, question.params))
            assert left is not None
            reading = left
        return reading.traffic

    def answer(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        found = getattr(self, operation)(params)
        if isinstance(found, dict):
            return found
        member, rows = found
        at = int(params.get("Marker", 0))
        more = {"NextMarker": str(at + 1)} if at + 1 < len(rows) else {}
        return {member: rows[at : at + 1], **more}

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
                "DefaultActions": next(one["Actions"] for one in rules if one["IsDefault"]),
            }
            for arn, rules in self.rules.items()
        ]

    def DescribeRules(self, params: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        return "Rules", self.rules[params["ListenerArn"]]

    def DescribeTargetHealth(self, params: Mapping[str, Any]) -> dict[str, Any]:
        many = self.targets.get(params["TargetGroupArn"], 0)
        return {"TargetHealthDescriptions": [{"Target": {"Id": f"10.0.0.{n}"}} for n in range(many)]}


def two_listeners() -> Balancing:
    return Balancing({PROD: [rule("p", forward(BLUE))], STAGE: [rule("s", forward(GREEN))]})


def judged(balancing: Balancing, partner: str = "", taken: tuple[str, ...] = ()) -> TrafficOptions:
    asked = [BLUE, *([partner] if partner and partner != BLUE else [])]
    found = find_traffic_options(balancing.read(*asked), TrafficPair(BLUE, partner, {80}, taken))
    return TrafficOptions.from_row(found.to_row())


def keys(found: TrafficOptions) -> list[str]:
    return [one.key for one in found.options]


def test_the_rule_of_the_partner_is_the_stage() -> None:
    found = judged(two_listeners(), partner=GREEN)
    assert found.certain_option is not None
    assert (found.certain_option.key, found.certain_option.rank) == ("p s", RANK_PARTNERS)
    assert (found.warnings, found.missing) == ((), ())


def test_without_a_partner_the_rule_for_the_same_requests_elsewhere_is_the_stage() -> None:
    found = judged(two_listeners())
    assert found.certain_option is not None
    assert (found.certain_option.key, found.certain_option.rank) == ("p s", RANK_SIMILAR)
    assert found.certain_option.production.balancer == BALANCER
    assert "port 80" in found.certain_option.production.description


def test_all_pages_of_listeners_and_rules_are_read_and_no_more() -> None:
    balancing = two_listeners()
    balancing.rules[PROD].insert(0, rule("path", forward(OTHER), PATH))
    balancing.read(BLUE)
    assert balancing.asked == [
        "DescribeTargetGroups",
        "DescribeLoadBalancers",
        *["DescribeListeners"] * 2,
        *["DescribeRules"] * 3,
        "DescribeTargetGroups",
        *["DescribeTargetHealth"] * 2,
    ]


def test_a_rule_with_conditions_is_paired_with_one_for_the_same_requests() -> None:
    balancing = Balancing(
        {
            PROD: [rule("p", forward(OTHER)), rule("p-api", forward(BLUE), PATH)],
            STAGE: [rule("s", forward("arn:targetgroup/x/9")), rule("s-api", forward(GREEN), PATH)],
        }
    )
    found = judged(balancing)
    assert found.certain_option is not None
    assert found.certain_option.key == "p-api s-api"
    assert keys(found) == ["p-api s-api", "p-api p", "p-api s"]
    assert found.missing == ()


def test_what_is_merely_possible_is_a_persons_choice() -> None:
    host = [{"Field": "host-header", "HostHeaderConfig": {"Values": ["stage.example.com"]}}]
    balancing = Balancing({PROD: [rule("p", forward(BLUE)), rule("host", forward(GREEN), host)]})
    found = judged(balancing)
    assert (keys(found), found.options[0].rank, found.certain_option) == (
        ["p host", "p"],
        RANK_POSSIBLE,
        None,
    )
    assert len(found.missing) == 1


def test_several_that_fit_equally_are_a_persons_choice() -> None:
    balancing = two_listeners()
    balancing.rules["arn:listener/9090"] = [rule("t", forward(OTHER))]
    found = judged(balancing)
    assert (sorted(keys(found)), found.certain_option) == (["p s", "p t"], None)


@pytest.mark.parametrize("why", ["targets", "service", "port", "rule"])
def test_a_group_that_somebody_else_uses_is_no_stage(why: str) -> None:
    balancing, taken = two_listeners(), ()
    if why == "targets":
        balancing.targets[GREEN] = 1
    elif why == "service":
        taken = (GREEN,)
    elif why == "port":
        balancing.ports[GREEN] = 9000
    else:
        balancing.rules["arn:listener/9090"] = [rule("t", forward(GREEN))]
    found = judged(balancing, taken=taken)
    assert [one.stage for one in found.options] == [None]
    assert found.certain_option is not None
    (said,) = found.missing
    for word in ("type ip", "protocol HTTP", "port 80", "VPC vpc-1", "load balancer demo", "default rule"):
        assert word in said


def test_a_stage_with_weights_is_known_by_its_first_group_and_production_by_what_receives() -> None:
    balancing = Balancing(
        {
            PROD: [rule("p", forward(BLUE, GREEN, a=100, b=0))],
            STAGE: [rule("s", forward(GREEN, BLUE, a=100, b=0))],
        }
    )
    found = judged(balancing, partner=GREEN)
    assert found.certain_option is not None
    assert (found.certain_option.key, found.certain_option.rank) == ("p s", RANK_PARTNERS)


def test_production_that_is_split_with_the_stage_is_refused_as_a_deployment_refuses_it() -> None:
    balancing = two_listeners()
    balancing.rules[PROD] = [rule("p", forward(BLUE, GREEN, a=90, b=10))]
    found = judged(balancing, partner=GREEN)
    assert [one.stage for one in found.options] == [None]
    assert any("blue/1 (90), green/2 (10)" in one for one in found.warnings)


def test_several_rules_to_production_are_told_and_chosen_by_a_person() -> None:
    balancing = two_listeners()
    balancing.rules["arn:listener/443"] = [rule("tls", forward(BLUE))]
    found = judged(balancing, partner=GREEN)
    assert (sorted(keys(found)), found.certain_option) == (["p s", "tls s"], None)
    assert any(one.startswith("2 rules route traffic to this ECS service") for one in found.warnings)


def test_one_group_behind_both_rules_is_a_way_to_work_where_the_pair_shares_it() -> None:
    balancing = Balancing({PROD: [rule("p", forward(BLUE))], STAGE: [rule("s", forward(BLUE))]})
    assert judged(balancing).options[0].stage is None
    assert sorted(keys(judged(balancing, partner=BLUE))) == ["p s", "s p"]


def test_the_listeners_of_a_network_load_balancer_have_no_rules() -> None:
    balancing = two_listeners()
    balancing.kind = "network"
    found = judged(balancing)
    assert "DescribeRules" not in balancing.asked
    assert found.certain_option is not None
    assert found.certain_option.stage is not None
    assert (found.certain_option.key, found.certain_option.stage.rule) == (f"{PROD} {STAGE}", "")


def test_a_listener_that_redirects_leads_nowhere() -> None:
    balancing = two_listeners()
    balancing.rules[PROD] = [rule("p", [{"Type": "redirect", "RedirectConfig": {"Port": "443"}}])]
    found = judged(balancing)
    assert found.options == ()
    assert "No listener rule forwards to the target group blue/1" in found.missing[0]


def test_a_group_that_is_gone_spoils_nothing_of_the_rest() -> None:
    balancing = two_listeners()
    balancing.gone = (OTHER,)
    assert set(balancing.read(BLUE, OTHER, GREEN).groups) == {BLUE, GREEN}


@pytest.mark.parametrize("operation", ["DescribeTargetGroups", "DescribeRules", "DescribeTargetHealth"])
def test_a_missing_permission_is_named_and_ends_nothing_else(operation: str) -> None:
    balancing = two_listeners()
    balancing.denied = operation
    found = judged(balancing)
    assert found.options == ()
    assert f"elasticloadbalancing:{operation}" in found.missing[0]


def test_texts_of_others_are_cleaned_before_they_are_kept() -> None:
    balancing = two_listeners()
    bad = [{"Field": "path-pattern", "PathPatternConfig": {"Values": ["/\0<b>\x07"]}}]
    balancing.rules[PROD].append(rule("bad", forward(BLUE), bad))
    reading = balancing.read(BLUE)
    assert "\0" not in str(reading.to_row())
    assert "\x07" not in str(reading.to_row())
