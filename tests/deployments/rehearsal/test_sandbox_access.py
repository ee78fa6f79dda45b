"""A rehearsed step reaches a sandbox on this machine and nothing else."""

from collections.abc import Mapping
from typing import Any

import pytest

from aws.errors import Denied
from aws.preview import PlannedCall
from delegates.access.site_calls import SITE_SERVICE
from deployments.models import StepExecution
from deployments.rehearsal import sandbox_access
from deployments.rehearsal.cluster_reads import read_cluster
from deployments.rehearsal.sandbox_access import (
    NotASandbox,
    RehearsalSandbox,
    SandboxLost,
    open_sandbox_caller,
)
from deployments.rehearsal.step_context import ManifestReads, NotRehearsed, RefusedWork
from steps.actions.non_aws_calls import RUN_SCRIPT

NOBODY_LISTENS = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://ecs.us-east-1.amazonaws.com",
        "http://127.0.0.1.example.com:80",
        "http://127.0.0.1:80@example.com",
        "http://127.0.0.1:80/\n",
        "https://127.0.0.1:443",
        "http://10.0.0.1:80",
    ],
)
def test_no_other_address_is_ever_opened(url: str) -> None:
    with pytest.raises(NotASandbox):
        open_sandbox_caller(url, "us-east-1")


def test_a_lost_sandbox_is_never_taken_for_an_answer_of_aws() -> None:
    caller = open_sandbox_caller(NOBODY_LISTENS, "us-east-1")
    for operation, params in (("DescribeClusters", {}), ("CreateCluster", {"clusterName": "a"})):
        with pytest.raises(SandboxLost):
            caller.call("ecs", operation, params)
    with pytest.raises(SandboxLost):
        RehearsalSandbox(NOBODY_LISTENS).advance(1)


def test_the_sandbox_gets_no_credentials_and_starts_no_delegates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the server")
    environment = sandbox_access._build_environment()
    assert not [name for name in environment if name.startswith("AWS_") or "PROXY" in name.upper()]
    assert environment["SLIPWAY_SANDBOX_DELEGATE_COMMAND"] == "off"


def test_a_step_reads_manifests_and_does_nothing_else_outside_aws() -> None:
    reads = ManifestReads(StepExecution())
    for service, operation in ((SITE_SERVICE, RUN_SCRIPT), ("ecs", "UpdateService")):
        with pytest.raises(NotRehearsed):
            reads.call(service, operation, {})
    with pytest.raises(NotRehearsed):
        RefusedWork().call(SITE_SERVICE, RUN_SCRIPT, {})


class _PartlyDenied:
    """An account that answers about its cluster alone."""

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "GetCallerIdentity":
            return {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:role/a", "UserId": "a"}
        if operation == "DescribeClusters":
            return {"clusters": [{"clusterName": "demo", "status": "ACTIVE"}]}
        raise Denied("AccessDenied", "no", service, operation)


def test_what_cannot_be_read_is_named_and_subnets_are_made_up() -> None:
    network = {"awsvpcConfiguration": {"subnets": ["subnet-1"], "securityGroups": ["sg-1"]}}
    params = {"serviceName": "myapp", "networkConfiguration": network}
    calls = [PlannedCall("ecs", "CreateService", params)]
    snapshot = read_cluster(_PartlyDenied(), region="us-east-1", cluster="demo", calls=calls)
    assert [row["SubnetId"] for row in snapshot.resources["subnets"]] == ["subnet-1"]
    assert [text.partition(":")[0] for text in snapshot.unread] == [
        "services",
        "Subnets, which are assumed to exist",
        "SecurityGroups, which are assumed to exist",
    ]


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_the_load_balancer_of_any_partition_is_read(partition: str) -> None:
    arn = f"arn:{partition}:elasticloadbalancing:cn-north-1:123456789012:targetgroup/web/1"
    calls = [PlannedCall("elbv2", "ModifyTargetGroup", {"TargetGroupArn": arn})]
    snapshot = read_cluster(_PartlyDenied(), region="cn-north-1", cluster="demo", calls=calls)
    assert "target groups" in [text.partition(":")[0] for text in snapshot.unread]
