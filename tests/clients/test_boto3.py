"""boto3's own waiters and paginators, left as they are."""

from typing import Any

from tests.contract.endpoint import CLUSTER, Aws

SOON = {"Delay": 1, "MaxAttempts": 30}


def test_the_waiter_for_stable_services_sees_a_rollout_end(aws: Aws) -> None:
    aws.create()
    aws.ecs.get_waiter("services_stable").wait(cluster=CLUSTER, services=["myapp"], WaiterConfig=SOON)
    assert aws.service()["runningCount"] == 1


def test_the_waiters_for_tasks_see_them_start_and_stop(aws: Aws) -> None:
    response = aws.ecs.run_task(
        cluster=CLUSTER,
        taskDefinition=aws.register(),
        launchType="FARGATE",
        networkConfiguration=aws.network(),
        count=3,
    )
    tasks = [t["taskArn"] for t in response["tasks"]]
    aws.ecs.get_waiter("tasks_running").wait(cluster=CLUSTER, tasks=tasks, WaiterConfig=SOON)
    for task in tasks:
        aws.ecs.stop_task(cluster=CLUSTER, task=task)
    aws.ecs.get_waiter("tasks_stopped").wait(cluster=CLUSTER, tasks=tasks, WaiterConfig=SOON)


def test_the_waiter_for_inactive_services_sees_a_deletion_end(aws: Aws) -> None:
    aws.create()
    aws.ecs.delete_service(cluster=CLUSTER, service="myapp", force=True)
    aws.ecs.get_waiter("services_inactive").wait(cluster=CLUSTER, services=["myapp"], WaiterConfig=SOON)


def test_every_paginator_of_ecs_that_lists_comes_to_an_end_with_everything(aws: Aws) -> None:
    definition = aws.register()
    for number in range(11):
        aws.create(serviceName=f"s{number:02}", taskDefinition=definition, count=1)
    for number in range(4):
        aws.ecs.create_cluster(clusterName=f"c{number}")

    def count_items(operation: str, key: str, **filters: Any) -> int:
        pages = aws.ecs.get_paginator(operation).paginate(**filters, PaginationConfig={"PageSize": 3})
        items = [item for page in pages for item in page[key]]
        assert len(items) == len(set(items))
        return len(items)

    assert count_items("list_services", "serviceArns", cluster=CLUSTER) == 11
    aws.ecs.get_waiter("services_stable").wait(
        cluster=CLUSTER, services=[f"s{n:02}" for n in range(10)], WaiterConfig=SOON
    )
    assert count_items("list_tasks", "taskArns", cluster=CLUSTER) == 11
    assert count_items("list_clusters", "clusterArns") == 5
    assert count_items("list_task_definitions", "taskDefinitionArns", familyPrefix="myapp") == 1
    assert count_items("list_task_definition_families", "families") == 1
