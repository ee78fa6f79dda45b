"""A service in the sandbox rolls as one in ECS does."""

import re
from typing import Any

import pytest
from botocore.exceptions import WaiterError

from tests.contract.endpoint import CLUSTER, Aws, states


@pytest.mark.source("ECS API, Deployment; ECS developer guide, service event messages")
def test_a_new_service_starts_its_tasks_and_completes(aws: Aws) -> None:
    made = aws.create(count=2)
    (deployment,) = made["deployments"]
    assert re.fullmatch(r"ecs-svc/\d{19}", deployment["id"])
    assert deployment["rolloutState"] == "IN_PROGRESS"
    assert deployment["rolloutStateReason"] == f"ECS deployment {deployment['id']} in progress."
    assert made["runningCount"] == made["pendingCount"] == 0

    aws.until(lambda: aws.service()["pendingCount"] == 2, "the start of two tasks", step=1)
    service = aws.until_completed(deployment["id"])
    assert service["runningCount"] == 2
    assert service["deployments"][0]["rolloutStateReason"] == f"ECS deployment {deployment['id']} completed."
    started, completed, steady = aws.events()
    assert re.fullmatch(
        r"\(service myapp\) has started 2 tasks: \(task [0-9a-f]{32}\) \(task [0-9a-f]{32}\)\.", started
    )
    assert completed == f"(service myapp) (deployment {deployment['id']}) deployment completed."
    assert steady == "(service myapp) has reached a steady state."


@pytest.mark.source("ECS developer guide, task lifecycle")
@pytest.mark.needs_sandbox("its clock")
def test_a_task_goes_through_every_state_in_order(aws: Aws) -> None:
    aws.create()
    aws.advance(1)
    statuses: list[str] = []
    for _ in range(30):
        (task,) = aws.tasks()
        statuses += [task["lastStatus"]] if task["lastStatus"] not in statuses[-1:] else []
        aws.advance(1)
    assert statuses == ["PROVISIONING", "PENDING", "ACTIVATING", "RUNNING"]
    assert task["startedBy"] == aws.service()["deployments"][0]["id"]
    assert task["group"] == "service:myapp"
    assert task["createdAt"] < task["pullStartedAt"] < task["pullStoppedAt"] < task["startedAt"]

    aws.update(desiredCount=0)
    aws.advance(1)
    statuses = []
    for _ in range(12):
        (task,) = aws.tasks("STOPPED")
        statuses += [task["lastStatus"]] if task["lastStatus"] not in statuses[-1:] else []
        aws.advance(1)
    assert statuses == ["DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED"]
    assert task["stopCode"] == "ServiceSchedulerInitiated"
    deployment = aws.service()["deployments"][0]["id"]
    assert task["stoppedReason"] == f"Scaling activity initiated by (deployment {deployment})"
    assert task["containers"][0]["exitCode"] == 0


@pytest.mark.source("ECS API, AwsVpcConfiguration: subnets")
@pytest.mark.needs_sandbox("subnets of known addresses")
def test_an_address_lies_in_the_subnet_that_the_task_was_given(aws: Aws) -> None:
    aws.create(count=2)
    aws.advance(5)
    details = [{d["name"]: d["value"] for d in t["attachments"][0]["details"]} for t in aws.tasks()]
    prefixes = {d["privateIPv4Address"].rpartition(".")[0] for d in details}
    assert prefixes == {"10.42.0", "10.42.64"}
    assert {d["subnetId"] for d in details} == set(aws.endpoint.subnets)


@pytest.mark.source("ECS API, DeploymentConfiguration: minimumHealthyPercent")
@pytest.mark.needs_sandbox("its clock")
def test_a_new_task_definition_replaces_the_tasks_and_keeps_the_minimum_running(aws: Aws) -> None:
    before = aws.create(count=3)["deployments"][0]["id"]
    aws.advance(90)
    after = aws.roll("v2")["deployments"][0]["id"]
    assert after != before

    lowest = 3
    counts = set()
    for _ in range(40):
        aws.advance(3)
        service = aws.service()
        lowest = min(lowest, service["runningCount"])
        counts.add(tuple(states(service["deployments"])))
    assert lowest == 3
    assert counts == {
        (("PRIMARY", "IN_PROGRESS"), ("ACTIVE", "COMPLETED")),
        (("PRIMARY", "IN_PROGRESS"),),
        (("PRIMARY", "COMPLETED"),),
    }
    service = aws.service()
    assert service["deployments"][0]["id"] == after
    assert {t["taskDefinitionArn"] for t in aws.tasks()} == {service["taskDefinition"]}


@pytest.mark.source("ECS API, DeploymentConfiguration")
@pytest.mark.needs_sandbox("its clock")
@pytest.mark.parametrize(
    ("low", "high", "fewest", "most"),
    [(50, 100, 2, 4), (100, 150, 4, 6), (0, 100, 0, 4), (51, 130, 3, 5)],
)
def test_percentages_bound_how_many_tasks_run(aws: Aws, low: int, high: int, fewest: int, most: int) -> None:
    limits = {"minimumHealthyPercent": low, "maximumPercent": high}
    aws.create(count=4, deploymentConfiguration=limits)
    aws.advance(90)
    aws.roll("v2")
    running, alive = [], []
    for _ in range(60):
        aws.advance(5)
        running.append(aws.service()["runningCount"])
        alive.append(len(aws.tasks()))
    assert min(running) == fewest
    assert max(alive) == most
    assert states(aws.service()["deployments"]) == [("PRIMARY", "COMPLETED")]


@pytest.mark.source("ECS API, DeploymentConfiguration: minimumHealthyPercent")
@pytest.mark.needs_sandbox("its clock")
def test_the_minimum_counts_tasks_of_every_deployment_that_is_under_way(aws: Aws) -> None:
    aws.create(count=3)
    # The tasks run, and nothing has vouched for them yet.
    aws.advance(25)
    assert aws.service()["runningCount"] == 3
    aws.roll("v2")
    running = []
    for _ in range(60):
        aws.advance(3)
        running.append(aws.service()["runningCount"])
    assert min(running) >= 3
    assert states(aws.service()["deployments"]) == [("PRIMARY", "COMPLETED")]


@pytest.mark.source("ECS developer guide, service event messages")
@pytest.mark.needs_sandbox("its clock")
def test_percentages_that_leave_no_room_are_told_once(aws: Aws) -> None:
    limits = {"minimumHealthyPercent": 50, "maximumPercent": 100}
    aws.create(count=1, deploymentConfiguration=limits)
    aws.advance(90)
    aws.roll("v2")
    aws.advance(600)
    events = [e for e in aws.events() if "unable to stop or start tasks during a deployment" in e]
    assert len(events) == 1
    assert states(aws.service()["deployments"]) == [("PRIMARY", "IN_PROGRESS"), ("ACTIVE", "COMPLETED")]


@pytest.mark.source("ECS API, DeploymentConfiguration: minimumHealthyPercent")
@pytest.mark.needs_sandbox("its clock")
def test_a_task_without_checks_counts_forty_seconds_after_it_runs(aws: Aws) -> None:
    aws.create()
    aws.advance(90)
    aws.roll("v2")
    aws.advance(59)
    assert len(aws.service()["deployments"]) == 2
    aws.advance(5)
    assert len(aws.service()["deployments"]) == 1


@pytest.mark.source("ECS API, UpdateService: forceNewDeployment")
def test_scaling_starts_no_deployment_but_forcing_does(aws: Aws) -> None:
    first = aws.create()["deployments"][0]["id"]
    aws.until_completed(first)
    assert aws.update(desiredCount=3)["deployments"][0]["id"] == first
    assert aws.update(deploymentConfiguration={"maximumPercent": 150})["deployments"][0]["id"] == first
    aws.until(lambda: aws.service()["runningCount"] == 3, "two more tasks")
    steady = "(service myapp) has reached a steady state."
    aws.until(lambda: aws.events()[-1] == steady and aws.events().count(steady) == 2, "another steady state")
    service = aws.service()

    forced = aws.update(forceNewDeployment=True)
    assert forced["deployments"][0]["id"] != first
    assert forced["deployments"][0]["taskDefinition"] == service["taskDefinition"]


@pytest.mark.source("ECS developer guide, service event messages")
def test_scaling_in_names_the_stopped_task(aws: Aws) -> None:
    aws.create(count=2)
    aws.until_completed()
    aws.update(desiredCount=1)
    (stopped,) = aws.until(lambda: aws.tasks("STOPPED"), "the stop of a task")
    task = stopped["taskArn"].rpartition("/")[2]
    assert f"(service myapp) has stopped 1 running tasks: (task {task})." in aws.events()


@pytest.mark.source("ECS API, ServiceDeployment: status")
def test_an_update_in_the_middle_supersedes_the_deployment(aws: Aws) -> None:
    aws.create()
    aws.until_completed()
    second = aws.roll("v2")["deployments"][0]["id"]
    aws.advance(10)
    third = aws.roll("v3")["deployments"][0]["id"]
    aws.until_completed(third)
    deployments = aws.ecs.list_service_deployments(cluster=CLUSTER, service="myapp")["serviceDeployments"]
    assert [d["status"] for d in deployments] == ["SUCCESSFUL", "STOPPED", "SUCCESSFUL"]
    assert deployments[1]["targetServiceRevisionArn"].endswith(second.partition("/")[2])


@pytest.mark.source("ECS API, ListServiceDeployments, DescribeServiceRevisions")
def test_a_service_deployment_leads_to_its_task_definition(aws: Aws) -> None:
    service = aws.create()
    (brief,) = aws.ecs.list_service_deployments(cluster=CLUSTER, service="myapp")["serviceDeployments"]
    response = aws.ecs.describe_service_deployments(serviceDeploymentArns=[brief["serviceDeploymentArn"]])
    revision = response["serviceDeployments"][0]["targetServiceRevision"]["arn"]
    described = aws.ecs.describe_service_revisions(serviceRevisionArns=[revision, revision + "0"])
    assert described["serviceRevisions"][0]["taskDefinition"] == service["taskDefinition"]
    assert described["failures"][0]["reason"] == "MISSING"


@pytest.mark.source("ECS API, StopTask")
def test_a_stopped_task_is_replaced(aws: Aws) -> None:
    aws.create()
    aws.until_completed()
    (before,) = aws.tasks()
    aws.ecs.stop_task(cluster=CLUSTER, task=before["taskArn"], reason="by hand")
    (after,) = aws.until(aws.tasks, "the start of another task")
    assert after["taskArn"] != before["taskArn"]
    (stopped,) = aws.tasks("STOPPED")
    assert (stopped["stopCode"], stopped["stoppedReason"]) == ("UserInitiated", "by hand")


@pytest.mark.source("botocore, ecs waiters-2.json: ServicesStable")
def test_the_waiter_for_a_stable_service_ends(aws: Aws) -> None:
    aws.create()
    waiter = aws.ecs.get_waiter("services_stable")
    query: dict[str, Any] = {"cluster": CLUSTER, "services": ["myapp"]}
    with pytest.raises(WaiterError):
        waiter.wait(**query, WaiterConfig={"Delay": 0, "MaxAttempts": 1})
    aws.until(lambda: aws.service()["runningCount"] == 1, "the start of the task")
    waiter.wait(**query, WaiterConfig={"Delay": 0, "MaxAttempts": 1})


@pytest.mark.source("ECS API, DeleteService")
def test_a_deleted_service_drains_and_then_is_inactive(aws: Aws) -> None:
    aws.create()
    aws.until_completed()
    service = aws.ecs.delete_service(cluster=CLUSTER, service="myapp", force=True)["service"]
    assert (service["status"], service["desiredCount"]) == ("DRAINING", 0)
    assert aws.ecs.list_services(cluster=CLUSTER)["serviceArns"] == []
    aws.until(lambda: aws.service()["status"] == "INACTIVE", "the end of the service")
    aws.ecs.get_waiter("services_inactive").wait(
        cluster=CLUSTER, services=["myapp"], WaiterConfig={"Delay": 0, "MaxAttempts": 1}
    )


@pytest.mark.source("ECS API, DeleteService: INACTIVE services may be purged")
@pytest.mark.needs_sandbox("its clock")
def test_an_inactive_service_is_forgotten_some_day(aws: Aws) -> None:
    aws.create(count=0)
    aws.ecs.delete_service(cluster=CLUSTER, service="myapp")
    aws.advance(3800)
    response = aws.ecs.describe_services(cluster=CLUSTER, services=["myapp"])
    assert response["services"] == []
    assert response["failures"][0]["reason"] == "MISSING"


@pytest.mark.source("ECS API, DescribeTasks")
@pytest.mark.needs_sandbox("its clock")
def test_stopped_tasks_are_shown_for_an_hour(aws: Aws) -> None:
    aws.create()
    aws.advance(90)
    aws.update(desiredCount=0)
    aws.advance(3000)
    assert len(aws.tasks("STOPPED")) == 1
    aws.advance(1000)
    assert aws.tasks("STOPPED") == []


@pytest.mark.source("ECS API, Service: events")
@pytest.mark.needs_sandbox("its clock")
def test_events_are_the_newest_hundred(aws: Aws) -> None:
    aws.create()
    for number in range(60):
        aws.update(desiredCount=number % 2 + 1)
        aws.advance(3)
    events = aws.service()["events"]
    assert len(events) <= 100
    assert events[0]["createdAt"] >= events[-1]["createdAt"]
    assert len({e["id"] for e in events}) == len(events)
