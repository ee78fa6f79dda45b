"""A pretend account with thousands of tasks stays quick, because only what changes is looked at."""

from tests.contract.endpoint import CLUSTER, Aws
from tests.fixtures.process_memory import cpu_seconds

SERVICES, TASKS = 100, 20


def crowd(aws: Aws) -> None:
    definition = aws.register()
    for number in range(SERVICES):
        aws.create(serviceName=f"s{number:03}", taskDefinition=definition, count=TASKS)
    aws.advance(130)


def seconds(aws: Aws, sandbox_seconds: float) -> float:
    """The processor time that the sandbox needs for them."""
    began = cpu_seconds(aws.sandbox.process.pid)
    aws.advance(sandbox_seconds)
    return cpu_seconds(aws.sandbox.process.pid) - began


def test_time_passes_quickly_over_two_thousand_quiet_tasks_and_one_rollout_among_them(aws: Aws) -> None:
    crowd(aws)
    assert seconds(aws, 60) < 60 * 0.1, "a tenth of what a sandbox at ten times the speed has"
    service = aws.ecs.update_service(cluster=CLUSTER, service="s007", forceNewDeployment=True)["service"]
    aws.until_completed(service["deployments"][0]["id"], "s007")
    (other,) = aws.ecs.describe_services(cluster=CLUSTER, services=["s008"])["services"]
    assert (other["runningCount"], len(other["deployments"])) == (TASKS, 1)


def test_a_quiet_service_notices_at_once_that_a_task_was_stopped_or_its_count_changed(aws: Aws) -> None:
    aws.create(count=2)
    aws.until_completed()
    aws.advance(300)
    aws.ecs.stop_task(cluster=CLUSTER, task=aws.tasks()[0]["taskArn"])
    aws.advance(2)
    assert len(aws.tasks()) == 2
    aws.until(lambda: aws.service()["runningCount"] == 2, "the replacement")
    aws.advance(300)
    aws.update(desiredCount=3)
    aws.advance(2)
    assert len(aws.tasks()) == 3


def test_each_of_many_tasks_has_an_address_of_its_own(aws: Aws) -> None:
    aws.create(count=600)
    aws.advance(5)
    pages = aws.ecs.get_paginator("list_tasks").paginate(cluster=CLUSTER)
    descriptions = [
        task
        for page in pages
        for task in aws.ecs.describe_tasks(cluster=CLUSTER, tasks=page["taskArns"])["tasks"]
    ]
    addresses = {t["containers"][0]["networkInterfaces"][0]["privateIpv4Address"] for t in descriptions}
    assert len(addresses) == 600
