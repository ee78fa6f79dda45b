"""The linter names the place and the fix of what would keep a delegate from starting or connecting."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aws.apis.ec2 import SecurityGroup, Subnet
from delegates.install import SpecFinding, TokenSecret, lint_spec, write_spec
from tests.delegates.install.spec_variants import ARN, SUBNETS, build_request

Document = dict[str, Any]


@pytest.fixture
def task() -> Document:
    return deepcopy(dict(write_spec(build_request(secret=TokenSecret("EXISTING", arn=ARN))).task_definition))


@pytest.fixture
def service() -> Document:
    return deepcopy(dict(write_spec(build_request()).service))


def get_vpc(service: Document) -> Document:
    return dict(service["networkConfiguration"])["awsvpcConfiguration"]


def get_only_finding(findings: list[SpecFinding]) -> SpecFinding:
    (finding,) = findings
    return finding


def test_a_hostname_on_awsvpc(task: Document) -> None:
    task["containerDefinitions"][0]["hostname"] = "h1"
    assert get_only_finding(lint_spec(task)).place == "containerDefinitions[0].hostname"


def test_a_pair_of_sizes_that_fargate_does_not_have(task: Document) -> None:
    task["memory"] = "512"
    finding = get_only_finding(lint_spec(task))
    assert (finding.place, finding.fix) == ("memory", "use 2048 to 8192 in steps of 1024")


def test_a_missing_execution_role(task: Document) -> None:
    del task["executionRoleArn"]
    places = {finding.place for finding in lint_spec(task)}
    assert {"containerDefinitions[0].secrets", "containerDefinitions[0].logConfiguration"} <= places


@pytest.mark.parametrize("account", ["12345", "PUT_YOUR_AWS_ACCOUNT_ID", "<ACC_ID>", ""])
def test_an_account_id_without_twelve_digits(task: Document, account: str) -> None:
    task["executionRoleArn"] = f"arn:aws:iam::{account}:role/ecsTaskExecutionRole"
    assert "executionRoleArn" in {finding.place for finding in lint_spec(task)}


def test_something_that_is_no_role(task: Document) -> None:
    task["executionRoleArn"] = "ecsTaskExecutionRole"
    assert get_only_finding(lint_spec(task)).fix == "write it as arn:aws:iam::ACCOUNT:role/NAME"


def test_a_log_without_region_or_with_none(task: Document) -> None:
    options = task["containerDefinitions"][0]["logConfiguration"]["options"]
    options["awslogs-region"] = "YOUR_AWS_REGION"
    places = [finding.place for finding in lint_spec(task)]
    assert "containerDefinitions[0].logConfiguration.options.awslogs-region" in places
    del options["awslogs-region"]
    assert any("awslogs-region" in finding.message for finding in lint_spec(task))


def test_a_secret_of_another_region_than_the_log(task: Document) -> None:
    task["containerDefinitions"][0]["logConfiguration"]["options"]["awslogs-region"] = "eu-west-1"
    finding = get_only_finding(lint_spec(task))
    assert finding.is_warning
    assert finding.place == "containerDefinitions[0].secrets[0].valueFrom"


def test_a_token_that_is_a_variable_and_a_secret(task: Document) -> None:
    task["containerDefinitions"][0]["environment"].append({"name": "HARNESS_TOKEN", "value": "x"})
    assert "containerDefinitions[0].secrets[0]" in {finding.place for finding in lint_spec(task)}


@pytest.mark.parametrize("name", ["HARNESS_ACCOUNT_ID", "HARNESS_URL"])
def test_an_agent_that_is_not_told_where_to_go(task: Document, name: str) -> None:
    container = task["containerDefinitions"][0]
    container["environment"] = [variable for variable in container["environment"] if variable["name"] != name]
    assert get_only_finding(lint_spec(task)).place == "containerDefinitions"


def test_a_placeholder_that_nobody_replaced(task: Document) -> None:
    task["containerDefinitions"][0]["environment"][1]["value"] = "PUT_YOUR_HARNESS_URL"
    assert get_only_finding(lint_spec(task)).place == "containerDefinitions[0].environment[1]"


def test_one_subnet_alone(task: Document, service: Document) -> None:
    get_vpc(service)["subnets"] = [SUBNETS[0]]
    finding = get_only_finding(lint_spec(task, service))
    assert (finding.document, finding.is_warning) == ("service", True)
    assert finding.place == "networkConfiguration.awsvpcConfiguration.subnets"


def build_subnets(*routes: str, zones: str = "ab", vpcs: str = "11") -> list[Subnet]:
    return [
        Subnet(subnet_id, f"vpc-{vpc}", f"us-east-1{zone}", route)  # type: ignore[arg-type]
        for subnet_id, route, zone, vpc in zip(SUBNETS, routes, zones, vpcs, strict=True)
    ]


def test_a_network_that_leads_out_is_right(task: Document, service: Document) -> None:
    group = SecurityGroup("sg-0a1b2c3d", "vpc-1", ((443, 443),))
    network = {"subnets": build_subnets("internet", "internet"), "security_groups": [group]}
    assert lint_spec(task, service, **network) == []  # type: ignore[arg-type]
    get_vpc(service)["assignPublicIp"] = "DISABLED"
    assert lint_spec(task, service, subnets=build_subnets("nat", "other")) == []


@pytest.mark.parametrize(
    ("public_ip", "route", "is_warning"),
    [
        ("ENABLED", "", False),
        ("DISABLED", "", False),
        ("DISABLED", "internet", False),
        ("ENABLED", "nat", True),
    ],
)
def test_a_subnet_that_leads_nowhere_for_such_tasks(
    task: Document, service: Document, public_ip: str, route: str, is_warning: bool
) -> None:
    get_vpc(service)["assignPublicIp"] = public_ip
    working_route = "internet" if public_ip == "ENABLED" else "nat"
    finding = get_only_finding(lint_spec(task, service, subnets=build_subnets(route, working_route)))
    assert finding.place == "networkConfiguration.awsvpcConfiguration.subnets[0]"
    assert finding.is_warning == is_warning


def test_subnets_of_one_zone_or_of_two_networks(task: Document, service: Document) -> None:
    same_zone_subnets = build_subnets("internet", "internet", zones="aa")
    assert (
        get_only_finding(lint_spec(task, service, subnets=same_zone_subnets)).message
        == "all subnets are in us-east-1a"
    )
    assert (
        "vpc-1, vpc-2"
        in get_only_finding(
            lint_spec(task, service, subnets=build_subnets("internet", "internet", vpcs="12"))
        ).message
    )


def test_a_security_group_that_keeps_everything_in_or_is_elsewhere(task: Document, service: Document) -> None:
    open_subnets = build_subnets("internet", "internet")
    closed_group = SecurityGroup("sg-0a1b2c3d", "vpc-1", ((22, 22),))
    assert get_only_finding(
        lint_spec(task, service, subnets=open_subnets, security_groups=[closed_group])
    ).is_warning
    foreign_group = SecurityGroup("sg-0a1b2c3d", "vpc-9", None)
    finding = get_only_finding(
        lint_spec(task, service, subnets=open_subnets, security_groups=[foreign_group])
    )
    assert finding.place == "networkConfiguration.awsvpcConfiguration.securityGroups[0]"


def test_a_service_that_wants_no_task(task: Document, service: Document) -> None:
    service["desiredCount"] = 0
    assert get_only_finding(lint_spec(task, service)).place == "desiredCount"


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"family": 7},
        {"containerDefinitions": "x"},
        {"containerDefinitions": [7]},
        {"containerDefinitions": [{"environment": [7], "secrets": {}, "logConfiguration": []}]},
        {"family": "f", "containerDefinitions": [{"logConfiguration": {"options": 7}}]},
        {"containerDefinitions": [None], "executionRoleArn": [1]},
    ],
)
def test_what_is_no_task_definition_at_all_is_told_too(document: Document) -> None:
    assert any(not finding.is_warning for finding in lint_spec(document, document))


KEYS = st.sampled_from(
    [
        "family",
        "containerDefinitions",
        "environment",
        "secrets",
        "name",
        "value",
        "valueFrom",
        "logConfiguration",
        "options",
        "executionRoleArn",
        "networkConfiguration",
        "awsvpcConfiguration",
        "subnets",
        "x",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
DOCUMENTS = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES, lambda children: st.lists(children, max_size=3) | st.dictionaries(KEYS, children, max_size=4)
    ),
    max_size=6,
)


@given(DOCUMENTS, DOCUMENTS)
def test_nothing_that_json_can_hold_makes_it_fail(document: Document, service: Document) -> None:
    lint_spec(document, service)
    container = {"name": "c", "image": "i", **document}
    for finding in lint_spec({"family": "f", "containerDefinitions": [container]}, service):
        assert finding.message
