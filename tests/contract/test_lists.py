"""Task definitions, lists, tags and repeated requests are answered as AWS answers them."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.endpoint import CLUSTER, Aws


def revision(arn: str) -> int:
    return int(arn.rpartition(":")[2])


@pytest.mark.source("ECS API, RegisterTaskDefinition; DeleteTaskDefinitions")
@pytest.mark.needs_sandbox("a family without revisions")
def test_a_revision_number_is_never_used_twice(aws: Aws) -> None:
    first, second = aws.register(), aws.register()
    aws.ecs.deregister_task_definition(taskDefinition=second)
    deleted = aws.ecs.delete_task_definitions(taskDefinitions=[second])
    assert deleted["taskDefinitions"][0]["status"] == "DELETE_IN_PROGRESS"
    aws.advance(2)
    assert [revision(first), revision(second), revision(aws.register())] == [1, 2, 3]


@pytest.mark.source("ECS API, DescribeTaskDefinition: taskDefinition")
@pytest.mark.needs_sandbox("a family without revisions")
def test_a_family_stands_for_its_latest_active_revision(aws: Aws) -> None:
    aws.register()
    second = aws.register("v2")
    aws.ecs.deregister_task_definition(taskDefinition=second)
    definition = aws.ecs.describe_task_definition(taskDefinition="myapp")["taskDefinition"]
    assert definition["revision"] == 1
    retired = aws.ecs.describe_task_definition(taskDefinition=second)["taskDefinition"]
    assert retired["status"] == "INACTIVE"
    assert retired["deregisteredAt"] >= retired["registeredAt"]
    with pytest.raises(ClientError, match="Unable to describe task definition"):
        aws.ecs.describe_task_definition(taskDefinition="ghost")


@pytest.mark.source("ECS API, TaskDefinition; PortMapping: hostPort")
def test_a_task_definition_comes_back_as_it_was_registered_with_defaults(aws: Aws) -> None:
    response = aws.ecs.describe_task_definition(taskDefinition=aws.register(cpu="1 vCPU", memory="2GB"))
    definition = response["taskDefinition"]
    assert (definition["cpu"], definition["memory"]) == ("1024", "2048")
    assert {"EC2", "FARGATE"} <= {*definition["compatibilities"]}
    (container,) = definition["containerDefinitions"]
    environment = aws.container().get("environment", [])
    assert container["portMappings"] == [{"containerPort": 80, "hostPort": 80, "protocol": "tcp"}]
    assert (container["essential"], container["environment"], container["cpu"]) == (True, environment, 0)


@pytest.mark.source("ECS API, DeleteTaskDefinitions")
def test_an_active_revision_is_not_deleted(aws: Aws) -> None:
    arn = aws.register()
    (failure,) = aws.ecs.delete_task_definitions(taskDefinitions=[arn])["failures"]
    assert "still in ACTIVE status" in failure["reason"]


@pytest.mark.source("ECS API, DescribeTaskDefinition: include")
def test_tags_of_a_task_definition_are_shown_when_asked_for(aws: Aws) -> None:
    tags = [{"key": "intent", "value": "42"}]
    arn = aws.register(tags=tags)
    assert aws.ecs.describe_task_definition(taskDefinition=arn, include=["TAGS"])["tags"] == tags
    assert "tags" not in aws.ecs.describe_task_definition(taskDefinition=arn)
    aws.ecs.tag_resource(resourceArn=arn, tags=[{"key": "more", "value": "1"}])
    arn_tags = aws.ecs.list_tags_for_resource(resourceArn=arn)["tags"]
    assert sorted(t["key"] for t in arn_tags) == ["intent", "more"]


@pytest.mark.source("ECS API, ListTaskDefinitions: sort")
@pytest.mark.needs_sandbox("a family without revisions")
def test_task_definitions_are_listed_by_family_in_either_order(aws: Aws) -> None:
    arns = [aws.register() for _ in range(3)] + [aws.register(family="other")]
    arns_by_family = aws.ecs.list_task_definitions(familyPrefix="myapp", sort="DESC")["taskDefinitionArns"]
    assert arns_by_family == list(reversed(arns[:3]))
    assert aws.ecs.list_task_definition_families()["families"] == ["myapp", "other"]


@pytest.mark.source("ECS API, CreateService: propagateTags, enableECSManagedTags")
def test_tags_travel_from_service_or_definition_to_new_tasks(aws: Aws) -> None:
    tags = [{"key": "team", "value": "web"}]
    aws.create(tags=tags, propagateTags="SERVICE", enableECSManagedTags=True)
    arns = [t["taskArn"] for t in aws.until(aws.tasks, "the start of the task", step=1)]
    (task,) = aws.ecs.describe_tasks(cluster=CLUSTER, tasks=arns, include=["TAGS"])["tasks"]
    assert {t["key"] for t in task["tags"]} == {"team", "aws:ecs:clusterName", "aws:ecs:serviceName"}
    assert aws.service()["tags"] == tags
    service = aws.service()["serviceArn"]
    aws.ecs.untag_resource(resourceArn=service, tagKeys=["team"])
    assert aws.service()["tags"] == []


@pytest.mark.source("ECS API, ListServices: maxResults")
def test_services_are_listed_ten_at_a_time(aws: Aws) -> None:
    definition = aws.register()
    for number in range(12):
        aws.create(serviceName=f"s{number}", taskDefinition=definition, count=0)
    first = aws.ecs.list_services(cluster=CLUSTER)
    assert len(first["serviceArns"]) == 10
    next_page = aws.ecs.list_services(cluster=CLUSTER, nextToken=first["nextToken"])
    assert len(next_page["serviceArns"]) == 2
    assert "nextToken" not in next_page


@pytest.mark.source("ECS API, ListServices, ListTasks, ListServiceDeployments: maxResults, nextToken")
@pytest.mark.parametrize("operation", ["list_services", "list_tasks", "list_service_deployments"])
def test_a_page_has_one_to_a_hundred_and_a_token_that_aws_gave(aws: Aws, operation: str) -> None:
    aws.create(count=0)
    call = getattr(aws.ecs, operation)
    place = {"cluster": CLUSTER, **({"service": "myapp"} if "deployments" in operation else {})}
    call(**place, maxResults=100)
    for wrong in ({"maxResults": 0}, {"maxResults": 101}, {"nextToken": "not from AWS"}):
        with pytest.raises(ClientError, match="InvalidParameterException"):
            call(**place, **wrong)


@pytest.mark.source("ECS API, ListServices: maxResults; DescribeServices: at most 10")
def test_a_page_of_services_may_have_more_than_can_be_described_at_once(aws: Aws) -> None:
    definition = aws.register()
    for number in range(11):
        aws.create(serviceName=f"s{number}", taskDefinition=definition, count=0)
    arns = aws.ecs.list_services(cluster=CLUSTER, maxResults=100)["serviceArns"]
    assert len(arns) == 11
    assert len(aws.ecs.describe_services(cluster=CLUSTER, services=arns[:10])["services"]) == 10
    with pytest.raises(ClientError, match="InvalidParameterException"):
        aws.ecs.describe_services(cluster=CLUSTER, services=arns)


@pytest.mark.source("ECS API, ListTasks: maxResults")
@pytest.mark.needs_sandbox("a hundred tasks for nothing")
def test_tasks_are_listed_a_hundred_at_a_time(aws: Aws) -> None:
    aws.create(count=101)
    aws.advance(2)
    first = aws.ecs.list_tasks(cluster=CLUSTER)
    assert len(first["taskArns"]) == 100
    next_page = aws.ecs.list_tasks(cluster=CLUSTER, nextToken=first["nextToken"])
    assert len({*first["taskArns"], *next_page["taskArns"]}) == 101
    assert len(aws.ecs.describe_tasks(cluster=CLUSTER, tasks=first["taskArns"])["tasks"]) == 100


@pytest.mark.source("ECS API, ListTasks")
@pytest.mark.needs_sandbox("its clock")
def test_tasks_are_listed_by_service_state_starter_and_family(aws: Aws) -> None:
    deployment = aws.create(count=2)["deployments"][0]["id"]
    aws.create(serviceName="other", taskDefinition=aws.register(family="other"))
    aws.advance(90)
    aws.update(desiredCount=1)
    aws.advance(30)

    def count_tasks(**filters: Any) -> int:
        return len(aws.ecs.list_tasks(cluster=CLUSTER, **filters)["taskArns"])

    assert count_tasks() == 2
    assert count_tasks(serviceName="myapp") == 1
    assert count_tasks(serviceName=aws.service()["serviceArn"]) == 1
    assert count_tasks(serviceName="myapp", desiredStatus="STOPPED") == 1
    assert count_tasks(family="other") == 1
    assert count_tasks(startedBy=deployment) == 1
    assert count_tasks(maxResults=1) == 1
    with pytest.raises(ClientError, match="ServiceNotFound"):
        count_tasks(serviceName="ghost")


@pytest.mark.source("ECS developer guide, idempotency")
@pytest.mark.needs_sandbox("its journal")
def test_a_client_token_makes_a_service_only_once(aws: Aws) -> None:
    definition = aws.register()
    first = aws.create(taskDefinition=definition, clientToken="t1")
    repeat = aws.create(taskDefinition=definition, clientToken="t1")
    assert repeat["deployments"][0]["id"] == first["deployments"][0]["id"]
    assert aws.effects().count("CreateService") == 1
    with pytest.raises(ClientError, match="ConflictException") as caught:
        aws.create(taskDefinition=definition, clientToken="t1", count=2)
    response: dict[str, Any] = {**caught.value.response}
    assert response["resourceIds"] == [first["serviceArn"]]


@pytest.mark.source("ECS developer guide, idempotency")
@pytest.mark.needs_sandbox("its clock")
def test_a_client_token_runs_tasks_only_once(aws: Aws) -> None:
    run = {
        "cluster": CLUSTER,
        "taskDefinition": aws.register(),
        "launchType": "FARGATE",
        "networkConfiguration": aws.network(),
        "clientToken": "t2",
        "count": 2,
    }
    first = [t["taskArn"] for t in aws.ecs.run_task(**run)["tasks"]]
    second_arns = [t["taskArn"] for t in aws.ecs.run_task(**run)["tasks"]]
    assert first == second_arns
    assert aws.effects().count("RunTask") == 1
    with pytest.raises(ClientError, match="ConflictException"):
        aws.ecs.run_task(**{**run, "count": 1})
    aws.advance(24 * 3600 + 1)
    assert aws.ecs.run_task(**{**run, "count": 1})["tasks"]


@pytest.mark.source("ECS API, StopTask")
def test_a_run_task_runs_until_it_is_stopped(aws: Aws) -> None:
    response = aws.ecs.run_task(
        cluster=CLUSTER,
        taskDefinition=aws.register(),
        launchType="FARGATE",
        networkConfiguration=aws.network(),
        startedBy="me",
    )
    assert response["failures"] == []
    arn = response["tasks"][0]["taskArn"]

    def describe_task() -> dict[str, Any]:
        (task,) = aws.ecs.describe_tasks(cluster=CLUSTER, tasks=[arn])["tasks"]
        return dict(task)

    aws.until(lambda: describe_task()["lastStatus"] == "RUNNING", "the start of the task")
    waiter = aws.ecs.get_waiter("tasks_running")
    waiter.wait(cluster=CLUSTER, tasks=[arn], WaiterConfig={"Delay": 0, "MaxAttempts": 1})
    aws.ecs.stop_task(cluster=CLUSTER, task=arn)
    aws.until(lambda: describe_task()["lastStatus"] == "STOPPED", "its end")
    task = describe_task()
    assert (task["stopCode"], task["startedBy"]) == ("UserInitiated", "me")
    assert task["stoppedAt"] > task["stoppingAt"] > task["startedAt"]


@pytest.mark.source("ECS API, Cluster: runningTasksCount")
@pytest.mark.needs_sandbox("an empty cluster")
def test_a_cluster_counts_its_services_and_tasks(aws: Aws) -> None:
    aws.create(count=2)
    aws.advance(60)
    (cluster,) = aws.ecs.describe_clusters(clusters=[CLUSTER])["clusters"]
    assert (cluster["activeServicesCount"], cluster["runningTasksCount"]) == (1, 2)


@pytest.mark.source("ECS developer guide, API failure reasons")
def test_missing_things_are_failures_not_errors(aws: Aws) -> None:
    response = aws.ecs.describe_tasks(cluster=CLUSTER, tasks=["0" * 32])
    assert response["failures"][0]["reason"] == "MISSING"
    response = aws.ecs.describe_services(cluster=CLUSTER, services=["ghost"])
    assert response["failures"][0]["reason"] == "MISSING"
