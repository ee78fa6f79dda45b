"""The tag of an image decides how a task ends, and the circuit breaker acts on it."""

from typing import Any

import pytest

from tests.contract.endpoint import BREAKER, CLUSTER, LOG_GROUP, Aws, states

HEALTH_CHECK = {"command": ["CMD-SHELL", "true"], "interval": 10, "retries": 3}


@pytest.mark.source("ECS developer guide, stopped task error codes")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_crash_prints_a_few_lines_and_exits_one(aws: Aws) -> None:
    aws.create("crash")
    aws.advance(40)
    (task, *_) = aws.tasks("STOPPED")
    assert task["stopCode"] == "EssentialContainerExited"
    assert task["stoppedReason"] == "Essential container in task exited"
    assert task["containers"][0]["exitCode"] == 1
    lines = aws.log_lines(task)
    assert lines[0] == "starting"
    assert lines[-1] == "FATAL giving up after 3 attempts, exiting with code 1"


@pytest.mark.source("ECS API, Container: exitCode")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_only_the_container_that_crashed_has_its_exit_code(aws: Aws) -> None:
    containers = [aws.container("v1"), aws.container("crash", name="side", portMappings=[])]
    aws.create(taskDefinition=aws.register(containerDefinitions=containers))
    aws.advance(40)
    (task, *_) = aws.tasks("STOPPED")
    assert {c["name"]: c["exitCode"] for c in task["containers"]} == {"web": 0, "side": 1}


@pytest.mark.source("ECS developer guide, stopped task error codes: OutOfMemoryError, SpotInterruption")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
@pytest.mark.parametrize(
    ("tag", "stop_code", "exit_code", "reason"),
    [
        ("oom", "EssentialContainerExited", 137, "OutOfMemoryError: Container killed due to memory usage"),
        ("killed", "EssentialContainerExited", 137, None),
        ("spot", "SpotInterruption", 143, None),
        ("late", "EssentialContainerExited", 1, None),
    ],
)
def test_a_container_that_is_killed_says_why_only_where_ecs_knows(
    aws: Aws, tag: str, stop_code: str, exit_code: int, reason: str | None
) -> None:
    aws.create(tag)
    aws.advance(100)
    task = aws.tasks("STOPPED")[0]
    assert task["stopCode"] == stop_code
    assert task["containers"][0]["exitCode"] == exit_code
    assert task["containers"][0].get("reason") == reason


@pytest.mark.source("ECS API, Container: exitCode; ECS developer guide, container health checks")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_a_container_that_does_not_end_when_its_health_check_failed_is_killed(aws: Aws) -> None:
    aws.create(
        taskDefinition=aws.register(
            "stuck", containerDefinitions=[aws.container("stuck", healthCheck=HEALTH_CHECK)]
        )
    )
    aws.advance(100)
    task = aws.tasks("STOPPED")[0]
    assert task["stoppedReason"] == "Task failed container health checks"
    assert task["containers"][0]["exitCode"] == 137


@pytest.mark.source("ECS developer guide, CannotPullContainer task errors")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_nopull_fails_to_start_and_names_the_image(aws: Aws) -> None:
    aws.create("nopull")
    aws.advance(80)
    (task,) = aws.tasks("STOPPED")
    assert task["stopCode"] == "TaskFailedToStart"
    assert task["stoppedReason"].startswith("CannotPullContainerError: ")
    assert "docker.io/library/myapp:nopull: not found" in task["stoppedReason"]
    assert task["containers"][0]["reason"] == task["stoppedReason"]
    assert "exitCode" not in task["containers"][0]
    assert any("was unable to place a task. Reason: CannotPullContainerError" in e for e in aws.events())
    assert aws.service()["deployments"][0]["failedTasks"] == 1


@pytest.mark.source("ECS developer guide, service throttle logic")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_starts_that_fail_are_tried_again_less_and_less_often(aws: Aws) -> None:
    aws.create("nopull")
    aws.advance(3000)
    started = [e["createdAt"] for e in aws.service()["events"] if "has started" in e["message"]]
    gaps = [round((late - early).total_seconds()) for late, early in zip(started, started[1:], strict=False)]
    assert gaps[-1] < gaps[-2] < gaps[-3] < gaps[-4]
    assert max(gaps) <= 1000
    assert any("unable to consistently start tasks successfully" in e for e in aws.events())
    assert states(aws.service()["deployments"]) == [("PRIMARY", "IN_PROGRESS")]


@pytest.mark.source("ECS developer guide, ResourceInitializationError")
@pytest.mark.needs_sandbox("its clock")
def test_a_task_with_no_log_group_to_write_to_does_not_start(aws: Aws) -> None:
    container = aws.container()
    container["logConfiguration"]["options"]["awslogs-group"] = "/ecs/missing"
    aws.create(taskDefinition=aws.register(containerDefinitions=[container]))
    aws.advance(30)
    (task,) = aws.tasks("STOPPED")
    assert task["stopCode"] == "TaskFailedToStart"
    assert task["stoppedReason"].startswith("ResourceInitializationError: failed to validate logger args")
    assert "The specified log group does not exist" in task["stoppedReason"]


@pytest.mark.source("ECS API, LogConfiguration: awslogs-create-group")
@pytest.mark.needs_sandbox("its clock")
def test_a_log_group_is_made_if_the_container_asks_for_it(aws: Aws) -> None:
    container = aws.container()
    options = {"awslogs-group": "/ecs/fresh", "awslogs-create-group": "true"}
    container["logConfiguration"]["options"].update(options)
    aws.create(taskDefinition=aws.register(containerDefinitions=[container]))
    aws.advance(40)
    streams = aws.client("logs").describe_log_streams(logGroupName="/ecs/fresh")["logStreams"]
    assert [s["logStreamName"].rpartition("/")[0] for s in streams] == ["ecs/web"]


@pytest.mark.source("ECS API, LogConfiguration: awslogs-stream-prefix")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_a_running_container_prints_where_it_listens(aws: Aws) -> None:
    aws.create()
    aws.advance(90)
    (task,) = aws.tasks()
    assert aws.log_lines(task)[:4] == [
        "starting",
        "configuration loaded",
        "listening on port 80",
        "ready to serve requests",
    ]


@pytest.mark.source("ECS API, Deployment: rolloutState")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_sick_without_checks_never_completes(aws: Aws) -> None:
    aws.create("sick")
    aws.advance(600)
    assert states(aws.service()["deployments"]) == [("PRIMARY", "IN_PROGRESS")]
    assert len(aws.tasks("STOPPED")) > 5


@pytest.mark.source("ECS developer guide, service event messages")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_sick_fails_its_container_health_check_and_is_replaced(aws: Aws) -> None:
    containers = [aws.container("sick", healthCheck=HEALTH_CHECK)]
    aws.create(taskDefinition=aws.register(containerDefinitions=containers))
    aws.advance(90)
    (stopped,) = aws.tasks("STOPPED")
    assert stopped["stoppedReason"] == "Task failed container health checks"
    assert stopped["healthStatus"] == "UNHEALTHY"
    task = stopped["taskArn"].rpartition("/")[2]
    assert f"(service myapp) (task {task}) failed container health checks." in aws.events()
    assert aws.events()[-1].endswith("Amazon ECS replaced 1 tasks due to an unhealthy status.")


@pytest.mark.source("ECS API, HealthCheck")
@pytest.mark.needs_sandbox("its clock")
def test_a_container_health_check_makes_a_task_healthy(aws: Aws) -> None:
    containers = [aws.container(healthCheck=HEALTH_CHECK)]
    aws.create(taskDefinition=aws.register(containerDefinitions=containers))
    aws.advance(25)
    assert aws.tasks()[0]["healthStatus"] == "UNKNOWN"
    aws.advance(30)
    assert aws.tasks()[0]["healthStatus"] == "HEALTHY"
    assert aws.service()["deployments"][0]["rolloutState"] == "COMPLETED"


@pytest.mark.source("ECS API, Deployment: rolloutState")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_slow_takes_its_time_and_completes(aws: Aws) -> None:
    aws.create("slow")
    aws.advance(90)
    assert aws.service()["runningCount"] == 0
    aws.advance(90)
    assert states(aws.service()["deployments"]) == [("PRIMARY", "COMPLETED")]


@pytest.mark.source("ECS developer guide, deployment circuit breaker")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
@pytest.mark.parametrize("tag", ["crash", "nopull"])
def test_the_breaker_rolls_back_and_takes_up_the_old_deployment_again(aws: Aws, tag: str) -> None:
    before = aws.create(deploymentConfiguration=BREAKER)
    old = before["deployments"][0]["id"]
    aws.advance(90)
    new = aws.roll(tag)["deployments"][0]["id"]
    states: list[list[tuple[str, str, str]]] = []
    reasons: dict[str, set[str]] = {old: set(), new: set()}
    for _ in range(120):
        aws.advance(4)
        deployments = aws.service()["deployments"]
        for deployment in deployments:
            reasons[deployment["id"]].add(deployment["rolloutStateReason"])
        state = [(d["id"], d["status"], d["rolloutState"]) for d in deployments]
        states += [state] if state not in states[-1:] else []
    assert states == [
        [(new, "PRIMARY", "IN_PROGRESS"), (old, "ACTIVE", "COMPLETED")],
        [(old, "PRIMARY", "IN_PROGRESS"), (new, "ACTIVE", "FAILED")],
        [(old, "PRIMARY", "COMPLETED")],
    ]
    assert "ECS deployment circuit breaker: tasks failed to start." in reasons[new]
    assert f"ECS deployment circuit breaker: rolling back to deploymentId {old}." in reasons[old]
    assert aws.service()["taskDefinition"] == before["taskDefinition"]
    events = aws.events()
    assert events[-4:] == [
        f"(service myapp) (deployment {new}) deployment failed: tasks failed to start.",
        f"(service myapp) rolling back to deployment {old}.",
        f"(service myapp) (deployment {old}) deployment completed.",
        "(service myapp) has reached a steady state.",
    ]
    listed = aws.ecs.list_service_deployments(cluster=CLUSTER, service="myapp")["serviceDeployments"]
    assert [d["status"] for d in listed] == ["ROLLBACK_SUCCESSFUL", "SUCCESSFUL"]


@pytest.mark.source("ECS developer guide, deployment circuit breaker")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_the_first_deployment_of_a_service_cannot_roll_back(aws: Aws) -> None:
    aws.create("crash", deploymentConfiguration=BREAKER)
    aws.advance(300)
    (deployment,) = aws.service()["deployments"]
    assert (deployment["status"], deployment["rolloutState"]) == ("PRIMARY", "FAILED")
    assert deployment["rolloutStateReason"] == "ECS deployment circuit breaker: tasks failed to start."
    assert deployment["failedTasks"] == 3
    started = len(aws.tasks("STOPPED"))
    aws.advance(300)
    assert len(aws.tasks("STOPPED")) == started, "a failed deployment starts no more tasks"


@pytest.mark.source("ECS API, DeploymentCircuitBreaker: thresholdConfiguration")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
@pytest.mark.parametrize(
    ("count", "threshold", "failures"),
    [
        (1, None, 3),
        (10, None, 5),
        (1, {"type": "COUNT", "value": 1}, 1),
        (4, {"type": "UNBOUNDED_PERCENT", "value": 50}, 2),
        (10, {"type": "BOUNDED_PERCENT", "value": 80}, 8),
    ],
)
def test_the_breaker_trips_at_its_threshold(
    aws: Aws, count: int, threshold: dict[str, Any] | None, failures: int
) -> None:
    breaker: dict[str, Any] = {"enable": True, "rollback": False}
    if threshold:
        breaker["thresholdConfiguration"] = threshold
    aws.create("crash", count=count, deploymentConfiguration={"deploymentCircuitBreaker": breaker})
    aws.advance(300)
    (record,) = aws.ecs.list_service_deployments(cluster=CLUSTER, service="myapp")["serviceDeployments"]
    arns = [record["serviceDeploymentArn"]]
    (deployment,) = aws.ecs.describe_service_deployments(serviceDeploymentArns=arns)["serviceDeployments"]
    assert deployment["deploymentCircuitBreaker"]["threshold"] == failures
    assert deployment["deploymentCircuitBreaker"]["failureCount"] >= failures


@pytest.mark.source("ECS API, DeploymentConfiguration: minimumHealthyPercent")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_without_a_breaker_a_bad_deployment_leaves_the_old_tasks_running(aws: Aws) -> None:
    aws.create(count=2)
    aws.advance(90)
    aws.roll("crash")
    aws.advance(600)
    service = aws.service()
    assert states(service["deployments"]) == [("PRIMARY", "IN_PROGRESS"), ("ACTIVE", "COMPLETED")]
    assert service["deployments"][1]["runningCount"] == 2
    assert service["deployments"][0]["failedTasks"] > 3


@pytest.mark.source("ECS API, RunTask; Container: exitCode")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_a_run_task_with_a_crashing_image_stops_with_its_exit_code(aws: Aws) -> None:
    response = aws.ecs.run_task(
        cluster=CLUSTER,
        taskDefinition=aws.register("crash"),
        launchType="FARGATE",
        networkConfiguration=aws.network(),
    )
    arn = response["tasks"][0]["taskArn"]
    aws.advance(60)
    waiter = aws.ecs.get_waiter("tasks_stopped")
    waiter.wait(cluster=CLUSTER, tasks=[arn], WaiterConfig={"Delay": 0, "MaxAttempts": 1})
    (task,) = aws.ecs.describe_tasks(cluster=CLUSTER, tasks=[arn])["tasks"]
    assert task["containers"][0]["exitCode"] == 1
    assert task["group"] == "family:myapp"
    assert LOG_GROUP in {g["logGroupName"] for g in aws.client("logs").describe_log_groups()["logGroups"]}


@pytest.mark.source("ECS developer guide, service event messages")
def test_a_service_for_instances_that_are_not_there_starts_nothing(aws: Aws) -> None:
    # AWS begins a cluster without instances; the sandbox does where this tag says so.
    aws.ecs.create_cluster(clusterName="bare", tags=[{"key": "sandbox:container-instances", "value": "0"}])
    aws.create(cluster="bare", launchType="EC2")
    aws.advance(60)
    assert aws.ecs.list_tasks(cluster="bare")["taskArns"] == []
    (service,) = aws.ecs.describe_services(cluster="bare", services=["myapp"])["services"]
    (event,) = [e["message"] for e in service["events"]]
    aws.ecs.delete_service(cluster="bare", service="myapp", force=True)
    assert "was unable to place a task because no container instance met all of its requirements" in event
