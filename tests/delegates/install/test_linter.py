"""The linter names the place and the fix of what would keep a delegate from starting or connecting."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aws.apis.ec2 import SecurityGroup, Subnet
from delegates.install import SpecFinding, TokenSecret, lint_spec, write_spec
from tests.delegates.install.spec_variants import ARN, SUBNETS, wanted

Document = dict[str, Any]


@pytest.fixture
def task() -> Document:
    return deepcopy(dict(write_spec(wanted(secret=TokenSecret("EXISTING", arn=ARN))).task_definition))


@pytest.fixture
def service() -> Document:
    return deepcopy(dict(write_spec(wanted()).service))


def vpc(service: Document) -> Document:
    return dict(service["networkConfiguration"])["awsvpcConfiguration"]


def only(found: list[SpecFinding]) -> SpecFinding:
    (one,) = found
    return one


def test_a_hostname_on_awsvpc(task: Document) -> None:
    task["containerDefinitions"][0]["hostname"] = "h1"
    assert only(lint_spec(task)).place == "containerDefinitions[0].hostname"


def test_a_pair_of_sizes_that_fargate_does_not_have(task: Document) -> None:
    task["memory"] = "512"
    found = only(lint_spec(task))
    assert (found.place, found.fix) == ("memory", "use 2048 to 8192 in steps of 1024")


def test_a_missing_execution_role(task: Document) -> None:
    del task["executionRoleArn"]
    places = {one.place for one in lint_spec(task)}
    assert {"containerDefinitions[0].secrets", "containerDefinitions[0].logConfiguration"} <= places


@pytest.mark.parametrize("account", ["12345", "PUT_YOUR_AWS_ACCOUNT_ID", "<ACC_ID>", ""])
def test_an_account_id_without_twelve_digits(task: Document, account: str) -> None:
    task["executionRoleArn"] = f"arn:aws:iam::{account}:role/ecsTaskExecutionRole"
    assert "executionRoleArn" in {one.place for one in lint_spec(task)}


def test_something_that_is_no_role(task: Document) -> None:
    task["executionRoleArn"] = "ecsTaskExecutionRole"
    assert only(lint_spec(task)).fix == "write it as arn:aws:iam::ACCOUNT:role/NAME"


def test_a_log_without_region_or_with_none(task: Document) -> None:
    options = task["containerDefinitions"][0]["logConfiguration"]["options"]
    options["awslogs-region"] = "YOUR_AWS_REGION"
    places = [one.place for one in lint_spec(task)]
    assert "containerDefinitions[0].logConfiguration.options.awslogs-region" in places
    del options["awslogs-region"]
    assert any("awslogs-region" in one.message for one in lint_spec(task))


def test_a_secret_of_another_region_than_the_log(task: Document) -> None:
    task["containerDefinitions"][0]["logConfiguration"]["options"]["awslogs-region"] = "eu-west-1"
    found = only(lint_spec(task))
    assert found.is_warning
    assert found.place == "containerDefinitions[0].secrets[0].valueFrom"


def test_a_token_that_is_a_variable_and_a_secret(task: Document) -> None:
    task["containerDefinitions"][0]["environment"].append({"name": "HARNESS_TOKEN", "value": "x"})
    assert "containerDefinitions[0].secrets[0]" in {one.place for one in lint_spec(task)}


@pytest.mark.parametrize("name", ["HARNESS_ACCOUNT_ID", "HARNESS_URL"])
def test_an_agent_that_is_not_told_where_to_go(task: Document, name: str) -> None:
    container = task["containerDefinitions"][0]
    container["environment"] = [one for one in container["environment"] if one["name"] != name]
    assert only(lint_spec(task)).place == "containerDefinitions"


def test_a_placeholder_that_nobody_replaced(task: Document) -> None:
    task["containerDefinitions"][0]["environment"][1]["value"] = "PUT_YOUR_HARNESS_URL"
    assert only(lint_spec(task)).place == "containerDefinitions[0].environment[1]"


def test_one_subnet_alone(task: Document, service: Document) -> None:
    vpc(service)["subnets"] = [SUBNETS[0]]
    found = only(lint_spec(task, service))
    assert (found.document, found.is_warning) == ("service", True)
    assert found.place == "networkConfiguration.awsvpcConfiguration.subnets"


def subnets(*ways: str, zones: str = "ab", vpcs: str = "11") -> list[Subnet]:
    return [
        Subnet(one, f"vpc-{vpc}", f"us-east-1{zone}", way)  # type: ignore[arg-type]
        for one, way, zone, vpc in zip(SUBNETS, ways, zones, vpcs, strict=True)
    ]


def test_a_network_that_leads_out_is_right(task: Document, service: Document) -> None:
    group = SecurityGroup("sg-0a1b2c3d", "vpc-1", ((443, 443),))
    known = {"subnets": subnets("internet", "internet"), "security_groups": [group]}
    assert lint_spec(task, service, **known) == []  # type: ignore[arg-type]
    vpc(service)["assignPublicIp"] = "DISABLED"
    assert lint_spec(task, service, subnets=subnets("nat", "other")) == []


@pytest.mark.parametrize(
    ("assigned", "way", "is_warning"),
    [
        ("ENABLED", "", False),
        ("DISABLED", "", False),
        ("DISABLED", "internet", False),
        ("ENABLED", "nat", True),
    ],
)
def test_a_subnet_that_leads_nowhere_for_such_tasks(
    task: Document, service: Document, assigned: str, way: str, is_warning: bool
) -> None:
    vpc(service)["assignPublicIp"] = assigned
    good = "internet" if assigned == "ENABLED" else "nat"
    found = only(lint_spec(task, service, subnets=subnets(way, good)))
    assert found.place == "networkConfiguration.awsvpcConfiguration.subnets[0]"
    assert found.is_warning == is_warning


def test_subnets_of_one_zone_or_of_two_networks(task: Document, service: Document) -> None:
    same_zone = subnets("internet", "internet", zones="aa")
    assert only(lint_spec(task, service, subnets=same_zone)).message == "all subnets are in us-east-1a"
    assert (
        "vpc-1, vpc-2"
        in only(lint_spec(task, service, subnets=subnets("internet", "internet", vpcs="12"))).message
    )


def test_a_security_group_that_keeps_everything_in_or_is_elsewhere(task: Document, service: Document) -> None:
    ways = subnets("internet", "internet")
    closed = SecurityGroup("sg-0a1b2c3d", "vpc-1", ((22, 22),))
    assert only(lint_spec(task, service, subnets=ways, security_groups=[closed])).is_warning
    elsewhere = SecurityGroup("sg-0a1b2c3d", "vpc-9", None)
    found = only(lint_spec(task, service, subnets=ways, security_groups=[elsewhere]))
    assert found.place == "networkConfiguration.awsvpcConfiguration.securityGroups[0]"


def test_a_service_that_wants_no_task(task: Document, service: Document) -> None:
    service["desiredCount"] = 0
    assert only(lint_spec(task, service)).place == "desiredCount"


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
    assert any(not one.is_warning for one in lint_spec(document, document))


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
        LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_size=6,
)


@given(DOCUMENTS, DOCUMENTS)
def test_nothing_that_json_can_hold_makes_it_fail(document: Document, service: Document) -> None:
    lint_spec(document, service)
    container = {"name": "c", "image": "i", **document}
    for one in lint_spec({"family": "f", "containerDefinitions": [container]}, service):
        assert one.message
