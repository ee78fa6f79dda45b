"""A rollback to an earlier deployment tells what would change, what is unknown, and what prevents it."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from catalog.models import Infrastructure
from connectors.models import FileNode
from deployments.models import Execution, FreezeWindow, StageExecution
from inventory.models.drift import TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord
from rbac.models import Scope
from steps.states import Status
from tests.api.sample_project import World
from tests.fixtures.people import make_person
from tests.inventory.dashboards.deployed_stages import (
    ARN,
    build_definition,
    create_deployment,
    set_running,
)
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
MOST_QUERIES = 50


@pytest.fixture
def stages(world: World) -> tuple[StageExecution, StageExecution]:
    """An earlier deployment and the one that runs."""
    secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:db"
    old_stage = create_deployment(
        world,
        101,
        build_definition(
            image="app:1",
            memory=128,
            environment=[{"name": "LEVEL", "value": planted("info-value")}],
            secrets=[{"name": "DB", "valueFrom": f"{secret_arn}-old"}],
        ),
    )
    new_stage = create_deployment(
        world,
        102,
        build_definition(
            image="app:2",
            memory=256,
            environment=[{"name": "LEVEL", "value": planted("debug-value")}],
            secrets=[{"name": "DB", "valueFrom": f"{secret_arn}-new"}],
        ),
    )
    set_running(102)
    return old_stage, new_stage


def get_address(stage: StageExecution, name: str = "return-to-deployment") -> str:
    return reverse(name, args=[stage.service_id, stage.pk])


def get_plan(reader: Client, stage: StageExecution) -> Any:
    response = reader.get(get_address(stage, "api-return-to-deployment"))
    assert response.status_code == 200, response.content
    return response.json()


def list_paths(plan: Any) -> dict[str, list[str]]:
    return {group["group"]: [change["path"] for change in group["changes"]] for group in plan["groups"]}


def test_differences_to_the_running_version_are_grouped_and_no_value_is_shown(
    stages: tuple[StageExecution, StageExecution], reader: Client
) -> None:
    plan = get_plan(reader, stages[0])
    assert list_paths(plan) == {
        "image": ["containerDefinitions[app].image"],
        "config": ["containerDefinitions[app].environment[LEVEL]", "containerDefinitions[app].secrets[DB]"],
        "sizing": ["containerDefinitions[app].memory"],
    }
    assert (plan["running"]["task_definition"], plan["running"]["unknown"]) == (f"{ARN}:102", "")
    assert (plan["possible"], plan["obstacles"]) == (True, [])
    variable, secret = plan["groups"][1]["changes"]
    assert (variable["old"], variable["new"], variable["hidden"]) == ("(hidden)", "(hidden)", True)
    assert (secret["old"][-4:], secret["new"][-4:]) == ("-new", "-old"), "secrets by their ARN"
    text = reader.get(get_address(stages[0])).content.decode()
    assert "from what runs now (app:102)" in text
    assert "Task definition as JSON" in text
    assert "-value" not in text


def test_a_secret_of_the_scope_is_masked_wherever_a_definition_has_it(world: World, reader: Client) -> None:
    target = create_deployment(world, 101, build_definition(command=["--key", world.secret.value]))
    create_deployment(world, 102, build_definition(command=["--key", "none"]))
    set_running(102)
    text = reader.get(get_address(target)).content.decode()
    assert "containerDefinitions[app].command" in text
    assert world.secret.value not in text
    assert world.secret.value not in json.dumps(get_plan(reader, target))


def test_an_unknown_running_version_is_told_and_the_last_deployment_compared(
    stages: tuple[StageExecution, StageExecution], reader: Client
) -> None:
    set_running(None)
    text = reader.get(get_address(stages[0])).content.decode()
    assert "<strong>not known</strong>" in text
    assert "No sync has read a running ECS service" in text
    assert "from the last successful deployment, #102, because it is not known what runs" in text
    assert get_plan(reader, stages[0])["running"]["task_definition"] is None


def test_a_revision_from_elsewhere_is_compared_once_a_drift_check_has_read_it(
    stages: tuple[StageExecution, StageExecution], reader: Client
) -> None:
    set_running(900)
    plan = get_plan(reader, stages[0])
    assert "app:900 was not registered by a deployment that you may view" in plan["running"]["unknown"]
    TaskDefinitionRevision.objects.create(
        arn=f"{ARN}:900",
        content=json.dumps({**build_definition(image="app:1", memory=999), "status": "ACTIVE"}),
        used_at=timezone.now(),
    )
    plan = get_plan(reader, stages[0])
    assert plan["running"]["unknown"] == ""
    assert (plan["compared_with"], plan["is_complete"]) == (None, False)
    assert list_paths(plan)["sizing"] == ["containerDefinitions[app].memory"]


def test_two_running_ecs_services_leave_the_running_version_unknown(
    stages: tuple[StageExecution, StageExecution], reader: Client
) -> None:
    record = EcsServiceRecord.objects.exclude(name="theirs").get()
    record.pk, record._state.adding = None, True
    record.name, record.arn = f"{record.name}__2", f"{record.arn}__2"
    record.save()
    assert "Several ECS services run" in get_plan(reader, stages[0])["running"]["unknown"]


def test_nothing_is_deployed_if_another_version_runs_than_was_compared(
    stages: tuple[StageExecution, StageExecution], reader: Client
) -> None:
    before = Execution.objects.count()
    response = reader.post(get_address(stages[0]), {"running": f"{ARN}:101"})
    assert response.status_code == 409
    assert "Another task definition runs than the one that was compared" in response.content.decode()
    address = get_address(stages[0], "api-return-to-deployment")
    body = json.dumps({"running": ""})
    assert reader.post(address, body, content_type="application/json").status_code == 409
    assert Execution.objects.count() == before
    assert reader.post(get_address(stages[0]), {"running": f"{ARN}:102"}).status_code == 302
    assert Execution.objects.latest("created_at").rerun_of == stages[0].execution


def test_who_may_only_view_sees_the_plan_and_why_it_cannot_be_confirmed(
    stages: tuple[StageExecution, StageExecution], project: Scope
) -> None:
    client = Client()
    client.force_login(make_person("watcher", "viewer", project))
    text = client.get(get_address(stages[0])).content.decode()
    assert "You need core_pipeline_execute on the pipeline" in text
    assert "containerDefinitions[app].image" in text
    assert '<button class="button danger">' not in text
    assert client.post(get_address(stages[0]), {"running": f"{ARN}:102"}).status_code == 403


def test_a_failed_deployment_is_no_target(world: World, reader: Client) -> None:
    stage = create_deployment(world, 101, build_definition(), status=Status.FAILED)
    (obstacle,) = get_plan(reader, stage)["obstacles"]
    assert obstacle["reason"] == "You can only roll back to a successful deployment."


def test_missing_parts_of_the_earlier_run_are_named_with_the_remedy(
    stages: tuple[StageExecution, StageExecution], reader: Client, world: World
) -> None:
    target = stages[0]
    row = {"identifier": "task", "kind": "EcsTaskDefinition", "store": "FileStore", "paths": ["/task.yaml"]}
    StageExecution.objects.filter(pk=target.pk).update(sources=[row])
    plan = get_plan(reader, target)
    assert plan["possible"]
    assert "did not store the files of task" in " ".join(plan["notes"])
    FileNode.objects.filter(path="/task.yaml").update(path="/moved.yaml")
    (obstacle,) = get_plan(reader, target)["obstacles"]
    assert "The files of these manifests of #101 are gone: task" in obstacle["reason"]
    assert "Restore the files" in obstacle["remedy"]
    kept_row = {**row, "texts": [{"name": "/task.yaml", "kept": "0" * 64}]}
    StageExecution.objects.filter(pk=target.pk).update(sources=[kept_row])
    (obstacle,) = get_plan(reader, target)["obstacles"]
    assert "are gone: task" in obstacle["reason"]


def test_an_inactive_task_definition_that_a_manifest_names_prevents_the_rollback(
    stages: tuple[StageExecution, StageExecution], reader: Client
) -> None:
    row = {"identifier": "task", "kind": "EcsTaskDefinition", "store": "TaskDefinitionArn", "paths": []}
    StageExecution.objects.filter(pk=stages[0].pk).update(sources=[{**row, "content": f"{ARN}:5"}])
    plan = get_plan(reader, stages[0])
    assert plan["possible"]
    assert "registered task definition app:5. If it is inactive by then" in " ".join(plan["notes"])
    content = json.dumps({**build_definition(), "status": "INACTIVE"})
    TaskDefinitionRevision.objects.create(arn=f"{ARN}:5", content=content, used_at=timezone.now())
    (obstacle,) = get_plan(reader, stages[0])["obstacles"]
    assert obstacle["reason"] == "The task definition app:5 is INACTIVE: ECS starts no tasks of it."


def test_a_deleted_infrastructure_prevents_the_rollback(
    stages: tuple[StageExecution, StageExecution], reader: Client
) -> None:
    Infrastructure.objects.all().delete()
    (obstacle,) = get_plan(reader, stages[0])["obstacles"]
    assert "sandbox" in obstacle["reason"]
    assert (
        "The infrastructure of this deployment was deleted"
        in reader.get(get_address(stages[0])).content.decode()
    )


def test_a_freeze_and_a_moved_infrastructure_are_noted_and_prevent_nothing(
    stages: tuple[StageExecution, StageExecution], reader: Client
) -> None:
    FreezeWindow.objects.update(begins="2020-01-01T00:00", ends="2999-01-01T00:00")
    Infrastructure.objects.update(cluster="other")
    plan = get_plan(reader, stages[0])
    assert plan["possible"]
    text = " ".join(plan["notes"])
    assert "A freeze does not block rollbacks." in text
    assert "the rollback deploys to other in us-east-1" in text


def test_the_number_of_queries_of_the_plan_is_fixed(
    stages: tuple[StageExecution, StageExecution], reader: Client, world: World
) -> None:
    counts = []
    for numbers in (range(0), range(200, 220)):
        for number in numbers:
            create_deployment(world, number, build_definition(image=f"app:{number}"))
        reader.get(get_address(stages[0]))
        with CaptureQueriesContext(connection) as queries:
            assert reader.get(get_address(stages[0])).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[0] < MOST_QUERIES


def test_the_choice_lists_the_successful_deployments_of_the_place_and_marks_the_running_one(
    stages: tuple[StageExecution, StageExecution], reader: Client, world: World
) -> None:
    failed_stage = create_deployment(world, 103, build_definition(), status=Status.FAILED)
    address = reverse("choose-rollback", args=[world.service.pk, world.infrastructure.pk])
    text = reader.get(address).content.decode()
    assert all(get_address(stage) in text for stage in stages)
    assert get_address(failed_stage) not in text
    before, marked, after = text.partition("Runs now")
    assert marked
    assert "#102" in before
    assert "#101" in after
    assert get_address(stages[1]) in after


def test_an_execution_leads_to_the_choice_of_its_place(
    stages: tuple[StageExecution, StageExecution], reader: Client, world: World
) -> None:
    execution = stages[0].execution
    page = reader.get(reverse("execution", args=[execution.pk])).content.decode()
    address = reverse("choose-rollback-stage", args=[execution.pk])
    assert address in page
    choice = reverse("choose-rollback", args=[world.service.pk, world.infrastructure.pk])
    assert reader.get(address).headers["Location"] == choice
    Infrastructure.objects.all().delete()
    text = reader.get(address).content.decode()
    assert "Its service or infrastructure was deleted" in text
