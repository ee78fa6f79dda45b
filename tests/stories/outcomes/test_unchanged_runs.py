"""A run that would change nothing says so, and replaces the tasks only where nobody asked it not to."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from connectors.models import FileNode
from deployments.engine.lease import wake_execution
from deployments.execution.operations import roll_back_execution
from deployments.models import Execution, Interrupt
from rbac.operations.api_keys import create_api_key
from tests.deployments.preview.comparison import load_preview
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)
SAME = "Nothing changed compared with fargate-task-definition:1, which is running"


def _tasks(drive: Drive) -> list[str]:
    params = {"cluster": "demo", "serviceName": "myapp"}
    return sorted(drive.call("ecs", "ListTasks", params)["taskArns"])


def _run(drive: Drive, **body: object) -> Execution:
    name = f"program {Execution.objects.count()}"
    _, token = create_api_key(actor=drive.deployer, user=drive.deployer, name=name)
    client = APIClient()
    client.credentials(HTTP_X_API_KEY=token)
    address = f"/api/v1/pipelines/{drive.pipeline.pk}/executions"
    answer = client.post(address, {"artifact": {"tag": "1.27"}, **body}, format="json")
    assert answer.status_code == 201, answer.json()
    return drive.until_over(Execution.objects.get(pk=answer.json()["id"]))


def test_a_run_that_changes_nothing_replaces_the_tasks_and_says_that_nothing_differed(drive: Drive) -> None:
    drive.run("1.27")
    before = _tasks(drive)
    warned = [line for step in load_preview(drive, "1.27")["steps"] for line in step["warnings"]]
    assert any(line.startswith(SAME) for line in warned)
    execution = _run(drive)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    (note,) = [note["text"] for note in execution.notes]
    way_out = "to keep them, run with Keep tasks if nothing changed (forceNewDeployment: false)."
    assert note == f"{SAME}. Its tasks are replaced anyway; {way_out}"
    assert not set(before) & set(_tasks(drive))


def test_a_run_that_changes_nothing_deploys_the_running_revision_again(drive: Drive) -> None:
    drive.run("1.27")
    revision, mark = drive.service()["taskDefinition"], drive.mark()
    drive.sandbox.fault("lost_answer", service="ecs", operation="UpdateService", count=1)
    # The service shows the deployment, so its revision need not be read.
    drive.sandbox.fault("denied", service="ecs", operation="DescribeServiceRevisions")
    execution = drive.run("1.27")
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), drive.log(execution)
    assert drive.service()["taskDefinition"] == revision
    effects = drive.effects(after=mark)
    assert (effects.count("UpdateService"), effects.count("RegisterTaskDefinition")) == (1, 0)
    same = "Reusing revision 1: nothing changed compared with fargate-task-definition:1"
    assert same in drive.log(execution)


def test_a_lost_update_that_nobody_may_read_waits_for_the_permission_and_is_not_undone(drive: Drive) -> None:
    drive.run("1.27")
    mark = drive.mark()
    drive.sandbox.fault("lost_answer", service="ecs", operation="UpdateService", count=1)
    drive.sandbox.fault("denied", service="ecs", operation="DescribeServiceRevisions")
    # As after a rollback by ECS, the service does not show our deployment.
    drive.sandbox.fault("stale_reads", service="ecs", operation="DescribeServices")
    execution = drive.start("1.27")
    drive.pass_time(50, step=10)
    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING", drive.log(execution)
    (reason,) = {line for line in drive.log(execution) if "The answer to UpdateService was lost" in line}
    assert "AWS denied ecs:DescribeServiceRevisions" in reason
    drive.sandbox.clear_faults()
    drive.until_over(execution)
    assert execution.outcome == "COMPLETED", drive.log(execution)
    assert drive.effects(after=mark).count("UpdateService") == 1


def test_the_rollback_of_a_run_that_changes_nothing_keeps_the_revision(drive: Drive) -> None:
    drive.run("1.27")
    revision, mark = drive.service()["taskDefinition"], drive.mark()
    execution = drive.start("1.27")
    drive.pass_time(5)
    Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.ABORT_AND_ROLL_BACK)
    wake_execution(execution.pk, drive.clock.now())
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)
    effects = drive.effects(after=mark)
    assert "UpdateService" in effects
    assert not {"RegisterTaskDefinition", "DeregisterTaskDefinition"} & set(effects)
    definition = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": revision})["taskDefinition"]
    assert definition["status"] == "ACTIVE"
    assert drive.service()["taskDefinition"] == revision


def test_a_lost_rollback_of_nothing_but_the_service_definition_is_recognized_as_ours(drive: Drive) -> None:
    drive.run("1.27")
    revision = drive.service()["taskDefinition"]
    node = FileNode.objects.get(path="/ECS Tutorial/CreateServiceRequest.yaml")
    node.content += "\nserviceConnectConfiguration: {enabled: true, namespace: demo}\n"
    node.save()
    execution = drive.start("1.27")
    mark = drive.mark()
    drive.pass_time(5)
    assert "UpdateService" in drive.effects(mark)
    drive.sandbox.fault("lost_answer", service="ecs", operation="UpdateService", count=1)
    Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.ABORT_AND_ROLL_BACK)
    wake_execution(execution.pk, drive.clock.now())
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)
    assert drive.effects(mark).count("UpdateService") == 2
    assert drive.service()["taskDefinition"] == revision
    (deployment,) = drive.service()["deployments"]
    assert deployment["serviceConnectConfiguration"]["enabled"] is False


@pytest.mark.parametrize("lags", [False, True])
def test_a_rollback_of_nothing_but_a_count_waits_until_the_tasks_have_ended(drive: Drive, lags: bool) -> None:
    drive.run("1.27")
    node = FileNode.objects.get(path="/ECS Tutorial/CreateServiceRequest.yaml")
    node.content = node.content.replace("desiredCount: 1", "desiredCount: 3")
    node.save()
    execution = _run(drive, forceNewDeployment=False)
    assert (execution.outcome, drive.service()["runningCount"]) == ("COMPLETED", 3)
    drive.pass_time(60, 5)
    if lags:
        drive.sandbox.fault("stale_reads", service="ecs", operation="DescribeServices", seconds=20)
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("ROLLED_BACK", "ROLLED_BACK"), drive.log(execution)[-6:]
    assert drive.service()["runningCount"] == 1


def test_a_run_that_asks_for_it_leaves_the_tasks_where_nothing_differs(drive: Drive) -> None:
    drive.run("1.27")
    before, revision = _tasks(drive), drive.service()["taskDefinition"]
    execution = _run(drive, forceNewDeployment=False)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), drive.log(execution)
    assert [note["text"] for note in execution.notes] == [f"{SAME}: it is reused, and its tasks are kept."]
    assert _tasks(drive) == before
    assert drive.service()["taskDefinition"] == revision
    other = _run(drive, forceNewDeployment=False, artifact={"tag": "1.28"})
    assert (other.status, other.notes) == ("SUCCESS", [])
    assert not set(before) & set(_tasks(drive))


def test_a_strategy_without_the_defaults_that_aws_adds_keeps_the_tasks(drive: Drive) -> None:
    node = FileNode.objects.get(path="/ECS Tutorial/CreateServiceRequest.yaml")
    strategy = "capacityProviderStrategy: [{capacityProvider: FARGATE_SPOT, weight: 1}]"
    assert "launchType: FARGATE" in node.content
    node.content = node.content.replace("launchType: FARGATE", strategy)
    node.save()
    drive.run("1.27")
    before = _tasks(drive)
    execution = _run(drive, forceNewDeployment=False)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), drive.log(execution)
    assert _tasks(drive) == before


def _list_forced(document: dict[str, Any]) -> list[bool]:
    return [
        bool(call["params"].get("forceNewDeployment")) for step in document["steps"] for call in step["calls"]
    ]


def test_a_preview_keeps_and_replaces_the_tasks_as_its_run_would(drive: Drive, client: Client) -> None:
    drive.run("1.27")
    client.force_login(drive.deployer)
    for is_forced in (False, True):
        body = {"artifact": {"tag": "1.27"}, "forceNewDeployment": is_forced}
        address = f"/api/v1/pipelines/{drive.pipeline.pk}/preview"
        document = client.post(address, body, content_type="application/json").json()
        assert _list_forced(document) == [is_forced]
    for choice, is_forced in (({"keep_same_tasks": "true"}, False), ({}, True)):
        page = client.post(f"/pipelines/{drive.pipeline.pk}/preview/", {"tag": "1.27", **choice})
        assert _list_forced(page.context["preview"].to_json()) == [is_forced]


def test_a_forced_run_replaces_the_tasks_without_a_note(drive: Drive) -> None:
    drive.run("1.27")
    before = _tasks(drive)
    execution = _run(drive, forceNewDeployment=True)
    assert (execution.status, execution.notes) == ("SUCCESS", [])
    assert not set(before) & set(_tasks(drive))


def test_the_page_that_runs_a_pipeline_asks_whether_to_leave_the_tasks(drive: Drive, client: Client) -> None:
    drive.run("1.27")
    before = _tasks(drive)
    client.force_login(drive.deployer)
    address = reverse("run-pipeline", args=[drive.pipeline.pk])
    assert "Keep tasks if nothing changed" in client.get(address).content.decode()
    answer = client.post(address, {"tag": "1.27", "keep_same_tasks": "true"})
    assert answer.status_code == 302
    drive.until_over(Execution.objects.latest("created_at"))
    assert _tasks(drive) == before
