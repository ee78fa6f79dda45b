"""The template that installs Slipway: its stack runs, is updated, goes back, and is deleted."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest

from sandbox.services.cloudformation.resource_handlers import is_known_type
from sandbox.services.cloudformation.templates import parse_template
from tests.contract.endpoint import Aws

TEMPLATE = Path(__file__).resolve().parents[2] / "deploy" / "cloudformation" / "slipway.yaml"
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
NAME = "slipway"
MINUTES_OF_CREATION, MINUTES_OF_UPDATE = 10, 20


def build_parameters(aws: Aws, tag: str) -> list[dict[str, str]]:
    subnets = ",".join(aws.endpoint.subnets)
    certificate = aws.client("acm").request_certificate(DomainName="slipway.example.com")["CertificateArn"]
    values = {
        "Image": f"{REGISTRY}/slipway:{tag}",
        "DelegateImage": f"{REGISTRY}/slipway-delegate:1.0.0",
        "DomainName": "slipway.example.com",
        "CertificateArn": certificate,
        "HostedZoneId": "Z1",
        "VpcId": aws.endpoint.vpc,
        "PublicSubnetIds": subnets,
        "PublicSubnetCidrs": "10.0.0.0/24,10.0.1.0/24",
        "PrivateSubnetIds": subnets,
        "DeploymentRoleArns": "arn:aws:iam::*:role/slipway-deploy",
    }
    return [{"ParameterKey": name, "ParameterValue": value} for name, value in values.items()]


def install(aws: Aws, tag: str = "1.0.0") -> str:
    """Create the stack, and return its status ten minutes later."""
    aws.client("cloudformation").create_stack(
        StackName=NAME,
        TemplateBody=TEMPLATE.read_text(),
        Parameters=build_parameters(aws, tag),
        Capabilities=["CAPABILITY_IAM"],
    )
    aws.advance(60 * MINUTES_OF_CREATION)
    return get_status(aws)


def get_status(aws: Aws) -> str:
    (stack,) = aws.client("cloudformation").describe_stacks(StackName=NAME)["Stacks"]
    return str(stack["StackStatus"])


def get_ids(aws: Aws) -> dict[str, str]:
    rows = aws.client("cloudformation").describe_stack_resources(StackName=NAME)["StackResources"]
    return {row["LogicalResourceId"]: row["PhysicalResourceId"] for row in rows}


def list_failures(aws: Aws) -> list[tuple[str, str]]:
    events = aws.client("cloudformation").describe_stack_events(StackName=NAME)["StackEvents"]
    return [
        (event["LogicalResourceId"], event.get("ResourceStatusReason", ""))
        for event in events
        if event["ResourceStatus"].endswith("_FAILED")
    ]


def describe_services(aws: Aws) -> dict[str, tuple[int, str]]:
    """Return how many tasks of which tag each service runs."""
    cluster = get_ids(aws)["Cluster"]
    services = aws.ecs.describe_services(cluster=cluster, services=["web", "worker", "beat"])["services"]
    tags = {}
    for service in services:
        arn = service["taskDefinition"]
        (container,) = aws.ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"][
            "containerDefinitions"
        ]
        tags[service["serviceName"]] = (service["runningCount"], container["image"].rpartition(":")[2])
    return tags


def test_the_stack_runs_slipway_behind_its_load_balancer(aws: Aws) -> None:
    status = install(aws)
    assert list_failures(aws) == []
    assert status == "CREATE_COMPLETE"

    assert describe_services(aws) == {"web": (2, "1.0.0"), "worker": (2, "1.0.0"), "beat": (1, "1.0.0")}
    targets = aws.client("elbv2").describe_target_health(TargetGroupArn=get_ids(aws)["TargetGroup"])
    states = [target["TargetHealth"]["State"] for target in targets["TargetHealthDescriptions"]]
    assert states == ["healthy", "healthy"]
    scaling = aws.client("application-autoscaling")
    scaled = scaling.describe_scalable_targets(ServiceNamespace="ecs")["ScalableTargets"]
    cluster = get_ids(aws)["Cluster"]
    assert {(row["ResourceId"], row["MinCapacity"], row["MaxCapacity"]) for row in scaled} == {
        (f"service/{cluster}/web", 2, 6),
        (f"service/{cluster}/worker", 2, 6),
    }
    (stack,) = aws.client("cloudformation").describe_stacks(StackName=NAME)["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    assert outputs["Url"] == "https://slipway.example.com"
    assert f"--cluster {cluster}" in outputs["FirstAdministrator"]


def test_a_version_that_crashes_leaves_the_version_before(aws: Aws) -> None:
    install(aws)

    aws.client("cloudformation").update_stack(
        StackName=NAME,
        UsePreviousTemplate=True,
        Parameters=build_parameters(aws, "crash"),
        Capabilities=["CAPABILITY_IAM"],
    )
    aws.advance(60 * MINUTES_OF_UPDATE)

    assert get_status(aws) == "UPDATE_ROLLBACK_COMPLETE"
    assert any("Circuit Breaker was triggered" in reason for _, reason in list_failures(aws))
    assert describe_services(aws) == {"web": (2, "1.0.0"), "worker": (2, "1.0.0"), "beat": (1, "1.0.0")}


def test_a_deletion_keeps_keys_and_log(aws: Aws) -> None:
    install(aws)
    ids = get_ids(aws)

    aws.client("cloudformation").delete_stack(StackName=NAME)
    aws.advance(60 * MINUTES_OF_CREATION)

    described = aws.client("ecs").describe_clusters(clusters=[ids["Cluster"]])["clusters"]
    assert [cluster["status"] for cluster in described] in ([], ["INACTIVE"])
    kept = {secret["ARN"] for secret in aws.client("secretsmanager").list_secrets()["SecretList"]}
    assert {ids["SecretKey"], ids["FieldEncryptionKey"], ids["DatabasePassword"]} <= kept
    assert ids["CachePassword"] not in kept
    groups = aws.client("logs").describe_log_groups(logGroupNamePrefix=ids["LogGroup"])["logGroups"]
    assert [group["logGroupName"] for group in groups] == [ids["LogGroup"]]


def test_what_an_earlier_stack_left_does_not_hinder_the_next_one(aws: Aws) -> None:
    install(aws)
    aws.client("cloudformation").delete_stack(StackName=NAME)
    aws.advance(60 * MINUTES_OF_CREATION)

    assert install(aws) == "CREATE_COMPLETE"


class Context:
    """What Lambda tells a function."""

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


@contextmanager
def receive_answers(answers: list[dict[str, Any]]) -> Iterator[str]:
    """Take what the function tells CloudFormation; yields the URL for it."""

    class Handler(BaseHTTPRequestHandler):
        # The name that http.server calls.
        def do_PUT(self) -> None:
            answers.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("tag", "status", "reason"),
    [
        ("done", "SUCCESS", "The database was migrated"),
        ("crash", "FAILED", "Essential container in task exited Read its log."),
        ("nopull", "FAILED", "CannotPullContainerError"),
    ],
)
def test_the_migration_function_tells_how_the_task_ended(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, tag: str, status: str, reason: str
) -> None:
    install(aws)
    function = parse_template(TEMPLATE.read_text(), is_known_type).resources["MigrationFunction"]
    ids = get_ids(aws)
    definition = aws.ecs.describe_task_definition(taskDefinition=ids["MigrationTask"])["taskDefinition"]
    (container,) = definition["containerDefinitions"]
    keys = ("requiresCompatibilities", "networkMode", "cpu", "memory", "executionRoleArn")
    migration = aws.ecs.register_task_definition(
        family=definition["family"],
        containerDefinitions=[{**container, "image": f"{REGISTRY}/slipway:{tag}"}],
        **{key: definition[key] for key in keys},
    )["taskDefinition"]["taskDefinitionArn"]
    monkeypatch.setattr(boto3, "client", lambda service: aws.client(service))
    monkeypatch.setattr("time.sleep", lambda seconds: aws.advance(seconds))
    code: dict[str, Any] = {}
    # Our own code, as Lambda runs it.
    exec(function["Properties"]["Code"]["ZipFile"], code)
    answers: list[dict[str, Any]] = []

    with receive_answers(answers) as url:
        event = {
            "RequestType": "Create",
            "ResponseURL": url,
            "StackId": "s",
            "RequestId": "r",
            "LogicalResourceId": "Migration",
            "ResourceProperties": {
                "Cluster": ids["Cluster"],
                "TaskDefinition": migration,
                "Subnets": list(aws.endpoint.subnets),
                "SecurityGroup": ids["TaskSecurityGroup"],
            },
        }
        code["handle"](event, Context())

    (answer,) = answers
    assert (answer["Status"], answer["PhysicalResourceId"]) == (status, "migration")
    assert reason in answer["Reason"]
