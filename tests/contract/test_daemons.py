"""DAEMON services: one task on each container instance that matches, on whatever endpoint."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.endpoint import CLUSTER, Aws, states

GUIDE = "ECS developer guide, Amazon ECS services: daemon scheduling strategy"
NEEDS_INSTANCES = "its cluster has container instances, of which more can be added"


def register(aws: Aws, tag: str = "v1", **changes: Any) -> str:
    return aws.register(
        tag,
        requiresCompatibilities=["EC2"],
        networkMode="bridge",
        containerDefinitions=[aws.container(tag, portMappings=[{"containerPort": 80, "hostPort": 8080}])],
        **changes,
    )


def create(aws: Aws, **changes: Any) -> dict[str, Any]:
    params = {
        "cluster": CLUSTER,
        "serviceName": "myapp",
        "taskDefinition": register(aws),
        "schedulingStrategy": "DAEMON",
        "launchType": "EC2",
        **changes,
    }
    service: dict[str, Any] = aws.ecs.create_service(**params)["service"]
    return service


def list_instances(aws: Aws) -> list[str]:
    arns: list[str] = aws.ecs.list_container_instances(cluster=CLUSTER)["containerInstanceArns"]
    return arns


def get_occupied(aws: Aws) -> list[str]:
    """Return the instances of the running tasks, one entry for each task."""
    return sorted(t["containerInstanceArn"] for t in aws.tasks() if t["lastStatus"] == "RUNNING")


@pytest.mark.source(GUIDE)
@pytest.mark.needs_sandbox(NEEDS_INSTANCES)
def test_each_instance_runs_one_task_and_a_new_one_gets_its_own(aws: Aws) -> None:
    create(aws)
    service = aws.until_completed()
    assert get_occupied(aws) == sorted(list_instances(aws))
    assert (service["desiredCount"], service["runningCount"]) == (2, 2)
    aws.sandbox.control("POST", "container-instances", {"cluster": CLUSTER, "count": 2})
    aws.advance(60)
    assert get_occupied(aws) == sorted(list_instances(aws))
    assert aws.service()["desiredCount"] == 4


@pytest.mark.source(GUIDE, "the tasks of a draining instance are stopped")
@pytest.mark.needs_sandbox(NEEDS_INSTANCES)
def test_a_draining_instance_loses_its_task_and_counts_no_more(aws: Aws) -> None:
    create(aws)
    aws.until_completed()
    first, second = list_instances(aws)
    aws.ecs.update_container_instances_state(cluster=CLUSTER, containerInstances=[first], status="DRAINING")
    aws.advance(60)
    assert get_occupied(aws) == [second]
    assert aws.service()["desiredCount"] == 1


@pytest.mark.source(GUIDE, "DeploymentConfiguration: the default minimumHealthyPercent of a daemon is 0")
@pytest.mark.needs_sandbox(NEEDS_INSTANCES)
def test_a_deployment_replaces_all_tasks_at_once_by_default(aws: Aws) -> None:
    configuration = create(aws)["deploymentConfiguration"]
    assert (configuration["minimumHealthyPercent"], configuration["maximumPercent"]) == (0, 100)
    aws.until_completed()
    aws.update(taskDefinition=register(aws, "v2"))
    aws.advance(2)
    (event,) = [event for event in aws.events() if "has stopped" in event]
    assert event.startswith("(service myapp) has stopped 2 running tasks:")
    service = aws.until_completed()
    assert get_occupied(aws) == sorted(list_instances(aws))
    assert {t["taskDefinitionArn"] for t in aws.tasks()} == {service["taskDefinition"]}


@pytest.mark.source(GUIDE, "DeploymentConfiguration: minimumHealthyPercent")
@pytest.mark.needs_sandbox(NEEDS_INSTANCES)
def test_a_minimum_replaces_the_tasks_one_instance_after_the_other(aws: Aws) -> None:
    aws.sandbox.control("POST", "container-instances", {"cluster": CLUSTER, "count": 1})
    create(aws, deploymentConfiguration={"minimumHealthyPercent": 60, "maximumPercent": 100})
    aws.until_completed()
    deployment = aws.update(taskDefinition=register(aws, "v2"))["deployments"][0]["id"]
    least = 3
    while states(aws.service()["deployments"]) != [("PRIMARY", "COMPLETED")]:
        aws.advance(2)
        least = min(least, len(get_occupied(aws)))
    assert least == 2
    assert {t["startedBy"] for t in aws.tasks()} == {deployment}


@pytest.mark.source(GUIDE, "ECS developer guide, cluster query language")
@pytest.mark.needs_sandbox(NEEDS_INSTANCES)
def test_only_instances_that_meet_the_constraints_run_a_task(aws: Aws) -> None:
    aws.sandbox.control("POST", "container-instances", {"cluster": CLUSTER, "count": 1, "type": "t3.small"})
    small = {"type": "memberOf", "expression": "attribute:ecs.instance-type == t3.small"}
    create(aws, placementConstraints=[small])
    service = aws.until_completed()
    assert service["desiredCount"] == len(get_occupied(aws)) == 1
    none = {"type": "memberOf", "expression": "attribute:ecs.instance-type in [p4d.24xlarge, p5.48xlarge]"}
    aws.update(placementConstraints=[none], forceNewDeployment=True)
    aws.until_completed()
    assert get_occupied(aws) == []
    assert aws.service()["desiredCount"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"desiredCount": 2}, "desired count"),
        ({"launchType": "FARGATE"}, "Fargate"),
        ({"deploymentController": {"type": "EXTERNAL"}}, "deployment controller"),
        ({"deploymentConfiguration": {"maximumPercent": 200}}, "maximumPercent"),
        ({"placementStrategy": [{"type": "random"}]}, "placement strategies"),
    ],
)
@pytest.mark.source(GUIDE, "ECS API, CreateService: schedulingStrategy, desiredCount")
@pytest.mark.needs_sandbox("of these refusals AWS does not tell the exact words")
def test_what_a_daemon_cannot_have_is_refused(aws: Aws, changes: dict[str, Any], message: str) -> None:
    if "launchType" in changes:
        changes = {**changes, "taskDefinition": aws.register(), "networkConfiguration": aws.network()}
    with pytest.raises(ClientError, match=message):
        create(aws, **changes)


@pytest.mark.source("ECS API, DeleteService: force is only needed for the REPLICA scheduling strategy")
@pytest.mark.needs_sandbox(NEEDS_INSTANCES)
def test_a_daemon_is_deleted_without_force(aws: Aws) -> None:
    create(aws)
    aws.until_completed()
    aws.ecs.delete_service(cluster=CLUSTER, service="myapp")
    aws.until(lambda: aws.service()["status"] == "INACTIVE", "the end of its tasks")
