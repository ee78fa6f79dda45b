"""The AWS CLI finds in the sandbox what it finds in AWS."""

import json

import pytest

from tests.clients.client_programs import Program
from tests.contract.endpoint import CLUSTER, LOG_GROUP, Aws
from tests.fixtures.processes import wait_until

NETWORK = "awsvpcConfiguration={{subnets=[{}],securityGroups=[{}]}}"
SERVICE = ("--cluster", CLUSTER, "--services", "myapp")


def network(aws: Aws) -> str:
    return NETWORK.format(",".join(aws.endpoint.subnets), aws.endpoint.security_group)


def steady(aws: Aws) -> None:
    aws.create()
    wait_until(lambda: aws.service()["deployments"][0]["rolloutState"] == "COMPLETED", "the first rollout")


def test_it_updates_a_service_and_waits_until_it_is_stable(aws: Aws, cli: Program) -> None:
    steady(aws)
    definition = aws.register("v2")
    updated = cli(
        "ecs", "update-service", "--cluster", CLUSTER, "--service", "myapp", "--task-definition", definition
    )
    new = updated.json["service"]["deployments"][0]
    assert (new["status"], new["rolloutState"]) == ("PRIMARY", "IN_PROGRESS")
    cli("ecs", "wait", "services-stable", *SERVICE)
    (service,) = cli("ecs", "describe-services", *SERVICE).json["services"]
    assert [d["id"] for d in service["deployments"]] == [new["id"]]
    assert service["taskDefinition"] == definition
    calls = [e for e in aws.sandbox.journal() if e["operation"] == "DescribeServices"]
    assert len(calls) > 3, "the waiter had to ask more than once"


def test_it_registers_a_task_definition_and_creates_a_service_from_it(aws: Aws, cli: Program) -> None:
    document = json.dumps(aws.definition("v7"))
    definition = cli("ecs", "register-task-definition", "--cli-input-json", document).json["taskDefinition"]
    create = ("ecs", "create-service", "--cluster", CLUSTER, "--service-name", "myapp")
    options = ("--desired-count", "2", "--launch-type", "FARGATE", "--network-configuration", network(aws))
    cli(*create, *options, "--task-definition", definition["taskDefinitionArn"])
    cli("ecs", "wait", "services-stable", *SERVICE)
    assert aws.service()["runningCount"] == 2


def test_it_runs_a_task_and_waits_for_its_start_and_its_end(aws: Aws, cli: Program) -> None:
    options = ("--cluster", CLUSTER, "--launch-type", "FARGATE", "--network-configuration", network(aws))
    task_run = cli("ecs", "run-task", *options, "--task-definition", aws.register()).json
    assert task_run["failures"] == []
    task = task_run["tasks"][0]["taskArn"]
    cli("ecs", "wait", "tasks-running", "--cluster", CLUSTER, "--tasks", task)
    cli("ecs", "stop-task", "--cluster", CLUSTER, "--task", task, "--reason", "enough")
    cli("ecs", "wait", "tasks-stopped", "--cluster", CLUSTER, "--tasks", task)
    (stopped_task,) = cli("ecs", "describe-tasks", "--cluster", CLUSTER, "--tasks", task).json["tasks"]
    assert (stopped_task["stopCode"], stopped_task["stoppedReason"]) == ("UserInitiated", "enough")


def test_its_wait_for_a_running_task_fails_when_the_task_has_already_stopped(aws: Aws, cli: Program) -> None:
    where = ("--cluster", CLUSTER, "--launch-type", "FARGATE", "--network-configuration", network(aws))
    task_run = cli("ecs", "run-task", *where, "--task-definition", aws.register("crash")).json
    task = task_run["tasks"][0]["taskArn"]
    cli("ecs", "wait", "tasks-stopped", "--cluster", CLUSTER, "--tasks", task)
    result = cli("ecs", "wait", "tasks-running", "--cluster", CLUSTER, "--tasks", task, status=255)
    assert "Waiter TasksRunning failed" in result.output


def test_it_waits_until_a_deleted_service_is_inactive(aws: Aws, cli: Program) -> None:
    steady(aws)
    deleted = cli("ecs", "delete-service", "--cluster", CLUSTER, "--service", "myapp", "--force").json
    assert deleted["service"]["status"] == "DRAINING"
    cli("ecs", "wait", "services-inactive", *SERVICE)
    assert aws.service()["status"] == "INACTIVE"


def test_it_pages_through_lists_by_itself(aws: Aws, cli: Program) -> None:
    definition = aws.register()
    for number in range(25):
        aws.create(serviceName=f"s{number:02}", taskDefinition=definition, count=0)
    before = aws.sandbox.last_number()
    service_arns = cli("ecs", "list-services", "--cluster", CLUSTER, "--page-size", "4").json["serviceArns"]
    assert len(set(service_arns)) == 25
    assert len(aws.sandbox.journal(before)) == 7
    few = cli("ecs", "list-services", "--cluster", CLUSTER, "--max-items", "7").json
    assert len(few["serviceArns"]) == 7
    options = ("--starting-token", few["NextToken"])
    more = cli("ecs", "list-services", "--cluster", CLUSTER, *options).json["serviceArns"]
    assert sorted(few["serviceArns"] + more) == sorted(service_arns)


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("list-clusters", "clusterArns"),
        ("list-task-definitions", "taskDefinitionArns"),
        ("list-task-definition-families", "families"),
    ],
)
def test_it_lists_one_by_one_what_there_is(aws: Aws, cli: Program, command: str, key: str) -> None:
    for number in range(3):
        aws.register(family=f"family{number}")
        aws.ecs.create_cluster(clusterName=f"cluster{number}")
    assert len(set(cli("ecs", command, "--page-size", "1").json[key])) >= 3


def test_it_tails_a_log(aws: Aws, cli: Program) -> None:
    steady(aws)
    lines = cli("logs", "tail", LOG_GROUP, "--format", "short", "--since", "1h").output
    assert "listening on port 80" in lines
    filtered = cli("logs", "tail", LOG_GROUP, "--filter-pattern", "listening").output.splitlines()
    assert len(filtered) == 1


def test_it_follows_a_log_while_it_is_written(aws: Aws, cli: Program) -> None:
    steady(aws)
    tail = cli.start("logs", "tail", LOG_GROUP, "--follow", "--format", "short", "--since", "1h")
    try:
        assert tail.stdout is not None
        assert "starting" in tail.stdout.readline()
        aws.ecs.run_task(
            cluster=CLUSTER,
            taskDefinition=aws.register("crash"),
            launchType="FARGATE",
            networkConfiguration=aws.network(),
        )
        while "could not connect to database" not in (line := tail.stdout.readline()):
            assert line, "the tail ended"
    finally:
        tail.kill()
        tail.wait()
        if tail.stdout:
            tail.stdout.close()


def test_it_says_what_aws_refused(aws: Aws, cli: Program) -> None:
    refused = cli(
        "ecs",
        "update-service",
        "--cluster",
        CLUSTER,
        "--service",
        "ghost",
        "--desired-count",
        "1",
        status=254,
    )
    assert "(ServiceNotFoundException) when calling the UpdateService operation" in refused.output
