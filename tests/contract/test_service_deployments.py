"""Service deployments are listed, described and stopped as ECS does it, on whatever endpoint."""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.endpoint import CLUSTER, Aws, states


def list_deployments(aws: Aws, **filters: Any) -> list[dict[str, Any]]:
    deployments: list[dict[str, Any]] = aws.ecs.list_service_deployments(
        cluster=CLUSTER, service="myapp", **filters
    )["serviceDeployments"]
    return deployments


def describe_deployment(aws: Aws, arn: str) -> dict[str, Any]:
    (deployment,) = aws.ecs.describe_service_deployments(serviceDeploymentArns=[arn])["serviceDeployments"]
    return dict(deployment)


@pytest.mark.source("ECS API, ServiceDeployment: status, sourceServiceRevisions, targetServiceRevision")
def test_a_service_deployment_goes_from_in_progress_to_successful(aws: Aws) -> None:
    service = aws.create()
    (first,) = list_deployments(aws)
    assert first["status"] in ("PENDING", "IN_PROGRESS")
    assert first["serviceArn"] == service["serviceArn"]
    aws.until_completed()
    aws.until(
        lambda: describe_deployment(aws, first["serviceDeploymentArn"])["status"] == "SUCCESSFUL", "success"
    )

    aws.roll("v2")
    aws.until_completed()
    newest = aws.until(lambda: list_deployments(aws, status=["SUCCESSFUL"])[:-1], "the second success")[0]
    deployment = describe_deployment(aws, newest["serviceDeploymentArn"])
    assert deployment["createdAt"] <= deployment["startedAt"] <= deployment["finishedAt"]
    assert [r["arn"] for r in deployment["sourceServiceRevisions"]] == [first["targetServiceRevisionArn"]]
    assert deployment["targetServiceRevision"]["arn"] == newest["targetServiceRevisionArn"]


@pytest.mark.source("ECS API, Service: currentServiceDeployment")
def test_an_update_answers_with_the_service_deployment_that_it_began(aws: Aws) -> None:
    aws.create()
    aws.until_completed()
    answer = aws.roll("v2")
    newest = list_deployments(aws)[0]["serviceDeploymentArn"]
    assert answer.get("currentServiceDeployment", newest) == newest
    assert aws.service()["currentServiceDeployment"] == newest


@pytest.mark.source("ECS API, ListServiceDeployments")
def test_service_deployments_are_filtered_and_paged(aws: Aws) -> None:
    definition = aws.register()
    aws.create(taskDefinition=definition, count=0)
    aws.until_completed()
    for _ in range(2):
        aws.update(forceNewDeployment=True)
        aws.until_completed()
    everything = [d["serviceDeploymentArn"] for d in list_deployments(aws)]
    assert len(set(everything)) == 3
    page = aws.ecs.list_service_deployments(cluster=CLUSTER, service="myapp", maxResults=2)
    next_page = list_deployments(aws, nextToken=page["nextToken"])
    assert [d["serviceDeploymentArn"] for d in [*page["serviceDeployments"], *next_page]] == everything
    assert list_deployments(aws, status=["ROLLBACK_FAILED"]) == []
    just_before = list_deployments(aws)[0]["createdAt"] - timedelta(milliseconds=2)
    newest = list_deployments(aws, createdAt={"after": just_before})
    assert [d["serviceDeploymentArn"] for d in newest] == everything[:1]


@pytest.mark.source("ECS API, DescribeServiceDeployments, DescribeServiceRevisions: at most 20 ARNs")
def test_at_most_twenty_are_described_at_once_and_unknown_ones_are_failures(aws: Aws) -> None:
    aws.create(count=0)
    arn = list_deployments(aws)[0]["serviceDeploymentArn"]
    ghost = f"{arn[:-6]}ghost1"
    response = aws.ecs.describe_service_deployments(serviceDeploymentArns=[arn, ghost])
    assert [d["serviceDeploymentArn"] for d in response["serviceDeployments"]] == [arn]
    assert [(f["arn"], f["reason"]) for f in response["failures"]] == [(ghost, "MISSING")]
    with pytest.raises(ClientError, match="InvalidParameterException"):
        aws.ecs.describe_service_deployments(serviceDeploymentArns=[arn] * 21)
    with pytest.raises(ClientError, match="ServiceNotFoundException"):
        aws.ecs.list_service_deployments(cluster=CLUSTER, service="ghost")


@pytest.mark.source("ECS developer guide, stopping service deployments")
def test_stopping_a_service_deployment_goes_back_to_what_ran_before(aws: Aws) -> None:
    first = aws.create()
    old = aws.until_completed()["deployments"][0]["id"]
    aws.roll("v2")
    arn = list_deployments(aws)[0]["serviceDeploymentArn"]
    stopped = aws.ecs.stop_service_deployment(serviceDeploymentArn=arn, stopType="ROLLBACK")
    assert stopped["serviceDeploymentArn"] == arn
    assert describe_deployment(aws, arn)["status"] in ("ROLLBACK_REQUESTED", "ROLLBACK_IN_PROGRESS")
    aws.ecs.stop_service_deployment(serviceDeploymentArn=arn, stopType="ROLLBACK")

    aws.until(
        lambda: describe_deployment(aws, arn)["status"] == "ROLLBACK_SUCCESSFUL", "the end of the rollback"
    )
    service = aws.service()
    assert service["taskDefinition"] == first["taskDefinition"]
    assert states(service["deployments"]) == [("PRIMARY", "COMPLETED")]
    assert service["deployments"][0]["id"] == old
    rolled = describe_deployment(aws, arn)["rollback"]["serviceRevisionArn"]
    (revision,) = aws.ecs.describe_service_revisions(serviceRevisionArns=[rolled])["serviceRevisions"]
    assert revision["taskDefinition"] == first["taskDefinition"]
    assert {t["taskDefinitionArn"] for t in aws.tasks()} == {first["taskDefinition"]}


@pytest.mark.source("ECS API, StopServiceDeployment: errors, stopType")
def test_only_a_service_deployment_that_is_under_way_can_be_stopped(aws: Aws) -> None:
    aws.create(count=0)
    aws.until_completed()
    arn = list_deployments(aws)[0]["serviceDeploymentArn"]
    aws.until(lambda: describe_deployment(aws, arn)["status"] == "SUCCESSFUL", "success")
    with pytest.raises(ClientError, match="ConflictException"):
        aws.ecs.stop_service_deployment(serviceDeploymentArn=arn)
    with pytest.raises(ClientError, match="ServiceDeploymentNotFoundException"):
        aws.ecs.stop_service_deployment(serviceDeploymentArn=f"{arn[:-6]}ghost1")
    with pytest.raises(ClientError, match="InvalidParameterException"):
        aws.ecs.stop_service_deployment(serviceDeploymentArn=arn, stopType="ABORT")
