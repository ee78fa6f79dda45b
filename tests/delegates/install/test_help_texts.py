"""The texts beside the files say what the files say."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.template.loader import render_to_string
from django.test import Client

from aws.shapes import get_operation_model
from delegates.install import write_spec
from delegates.install.documents import ACTIONS
from delegates.install.plan import SHARED_LOG_GROUP
from rbac.models import User
from tests.delegates.install.spec_variants import MATRIX

FOLDER = Path(__file__).parents[3] / "templates" / "delegates" / "help"
PARTS = sorted(path.name for path in FOLDER.glob("_*.html"))


def read_template(part: str) -> str:
    return render_to_string(f"delegates/help/{part}")


def test_each_action_of_the_policy_is_explained_once_and_in_its_order() -> None:
    explained_actions = re.findall(
        r'<th scope="row"><code>([a-z-]+:[A-Za-z]+)</code>', read_template("_permissions.html")
    )
    assert tuple(explained_actions) == ACTIONS


def test_each_variable_of_a_spec_is_explained() -> None:
    variable_names = {
        variable["name"]
        for request in MATRIX
        for container in write_spec(request).task_definition["containerDefinitions"]
        for variable in [*container["environment"], *container.get("secrets", [])]
    }
    page = read_template("_fields.html")
    assert not [name for name in variable_names if f"<code>{name}</code>" not in page]


def test_the_shared_log_group_is_the_one_that_the_commands_make() -> None:
    assert SHARED_LOG_GROUP in read_template("_log_limits.html")


@pytest.mark.django_db
def test_a_page_has_all_of_them(browse: Callable[[User], Client], viewer: User) -> None:
    page = browse(viewer).get("/delegates/help/").content.decode()
    for part in PARTS:
        assert read_template(part) in page


@pytest.mark.parametrize(
    ("requirement", "part", "statements"),
    [
        ("R011", "_first.html", ["Install a delegate first, near your deployment targets"]),
        ("R014", "_first.html", ["only outbound connections", "needs no public IP and no open port"]),
        ("R020", "_first.html", ["For a trial it can run anywhere"]),
        ("R021", "_first.html", ["behind your firewall in the VPC of the services"]),
        ("R029, R068", "_high_availability.html", ["Each cluster needs its own delegate and specification"]),
        ("R065", "_high_availability.html", ["300 to 500 service instances"]),
        ("R066", "_high_availability.html", ["With three, two can fail"]),
        ("R067", "_high_availability.html", ["increase the replicas"]),
        ("R069", "_high_availability.html", ["run two services in the target cluster"]),
        ("R070", "_high_availability.html", ["run two in the same VPC"]),
        ("R071", "_high_availability.html", ["the same roles, permissions, keys, tags and network access"]),
        ("R072", "_high_availability.html", ["different networks cannot replace each other"]),
        ("R085", "_first.html", ["There are two ways to install a delegate"]),
        (
            "R087",
            "_fargate_or_ec2.html",
            [
                "Managed by AWS",
                "through the Docker socket",
                "Privileged containers",
                "Up to 200 GiB",
                "30 to 60 seconds",
                "10 to 20 seconds",
                "Use for",
                "Pricing",
            ],
        ),
        ("R088", "_fargate_or_ec2.html", ["Use Fargate by default", "Use EC2 to build containers"]),
        ("R089", "_fargate_or_ec2.html", ["Fargate stops a task that exceeds its CPU or memory"]),
        ("R090", "_updates.html", ["does not update itself", "every three to six months"]),
        ("R091", "_first.html", ["/docs/reference/delegate-support/"]),
        ("R093", "_network.html", [">443<", ">80<", ">22<", ">9418<"]),
        ("R101", "_high_availability.html", ["increase the desired tasks of one service"]),
        (
            "R102, R112",
            "_cluster.html",
            ["EC2 Linux + Networking", "t3.small", "one instance", "default VPC"],
        ),
        ("R111", "_fields.html", ["PUT_YOUR_AWS_ACCOUNT_ID", "PUT_YOUR_SUBNET_ID", "awslogs-region"]),
        ("R116", "_cluster.html", ["set one task"]),
        ("R118", "_network.html", ["at least two subnets in different Availability Zones"]),
        ("R119", "_cluster.html", ["Networking only (Fargate)"]),
        ("R125", "_fields.html", ["12 digits"]),
        ("R128", "_network.html", ["In production use private subnets, a NAT gateway and no public IP"]),
        ("R129", "_network.html", ["route to an internet gateway", "route to a NAT gateway"]),
        (
            "R123",
            "_permissions.html",
            [
                "ecr:GetAuthorizationToken",
                "ecr:BatchGetImage",
                "ecr:GetDownloadUrlForLayer",
                "logs:CreateLogGroup",
                "logs:CreateLogStream",
                "logs:PutLogEvents",
                "secretsmanager:GetSecretValue",
            ],
        ),
        (
            "R133",
            "_support.html",
            ["AWS allows no override", "task definition of the delegate does not change"],
        ),
        (
            "R134",
            "_support.html",
            ["privileged", "readonlyRootFilesystem", ">user<", "capabilities.add", "capabilities.drop"],
        ),
        ("R135", "_support.html", ["Up to 200 GiB", "21,504"]),
        ("R136", "_support.html", ["host.sourcePath", "/var/run/docker.sock"]),
        ("R137", "_support.html", ["fileSystemId", "transitEncryption", "accessPointId"]),
        ("R138", "_support.html", ["port 2049", "elasticfilesystem:ClientMount"]),
        ("R144", "_log_limits.html", ["5 log groups", "50 log streams", "800 times per second"]),
        ("R147", "_permissions.html", ["AmazonECS_FullAccess", "may need more"]),
    ],
)
def test_the_help_page_says_what_is_required(requirement: str, part: str, statements: list[str]) -> None:
    text = read_template(part)
    assert [statement for statement in statements if statement not in text] == [], requirement


def test_run_task_cannot_override_what_the_help_leaves_to_the_task_definition() -> None:
    request = get_operation_model("ecs", "RunTask").input_shape
    overrides = request.members["overrides"].members
    assert "volumes" not in overrides
    fields = {"privileged", "user", "linuxParameters", "mountPoints", "readonlyRootFilesystem"}
    assert "ephemeralStorage" in overrides
    assert not fields & set(overrides["containerOverrides"].member.members)
