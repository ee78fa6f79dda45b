"""Pipelines written on pages: problems have a place, versions are kept, two writers are compared."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from catalog.manifests.documents import parse_manifest
from catalog.models import Service
from deployments.models import Execution
from pipelines.definition.parser import parse_pipeline
from pipelines.definition.step_manifest_sources import list_sources
from pipelines.editor.graph import build_graph
from pipelines.editor.suggestions import build_full_schema
from pipelines.forms.pipelines import PipelineTemplateForm
from pipelines.models import Pipeline, Trigger
from pipelines.pipeline_templates import RUN_TASK, render_pipeline_template
from rbac.models import Scope, User
from steps.strategies.registry import get_strategies
from tests.api.sample_project import PIPELINE, World, make_world

Browse = Callable[[User], Client]


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def client(admin: User, browse: Browse) -> Client:
    return browse(admin)


def text_of(response: Any) -> str:
    return str(response.content.decode())


@pytest.mark.parametrize("strategy", sorted(get_strategies()))
def test_every_strategy_has_a_template_that_can_be_read(strategy: str):
    text = render_pipeline_template(
        strategy, service="web", environment="dev", infrastructure="eu", title="Web"
    )
    pipeline = parse_pipeline(text)
    assert pipeline.name == "Deploy Web"
    assert (pipeline.stages[0].service, pipeline.stages[0].infrastructure) == ("web", "eu")
    assert pipeline.stages[0].steps
    assert "&" not in text


def test_the_template_of_a_task_runs_it_with_manifests_to_adapt(admin: User, project: Scope) -> None:
    Service.objects.create(scope=project, identifier="web", name="Web")
    form = PipelineTemplateForm({"strategy": RUN_TASK}, person=admin, scope=project)
    text = form.text()
    (stage,) = parse_pipeline(text).stages
    assert not build_graph(parse_pipeline(text)).has_rollback_steps
    assert text.startswith("pipeline:\n  identifier: run_web\n  name: Run a task of Web\n")
    assert [step.type for step in stage.steps] == ["EcsRunTask"]
    definition, request = list_sources("EcsRunTask", stage.steps[0].spec)
    assert parse_manifest(definition["content"], "task definition").value["family"] == "my-task"
    assert parse_manifest(request["content"], "request").value["count"] == 1


def test_a_second_pipeline_of_a_service_has_an_identifier_of_its_own(admin: User, project: Scope) -> None:
    Service.objects.create(scope=project, identifier="web", name="Web")
    form = PipelineTemplateForm(None, person=admin, scope=project)
    assert "  identifier: deploy_web\n  name: Deploy Web\n" in form.text()
    Pipeline.objects.create(scope=project, identifier="deploy_web", name="Deploy Web", yaml="pipeline: {}")
    assert "  identifier: deploy_web_2\n  name: Deploy Web 2\n" in form.text()


def test_the_graph_has_a_box_for_every_step_and_none_overlap():
    text = render_pipeline_template(
        "Rolling", service="web", environment="dev", infrastructure="eu", title="Web"
    )
    graph = build_graph(parse_pipeline(text))
    (stage,) = graph.stages
    assert [(step.title, step.is_rollback) for step in stage.steps] == [
        ("ECS Rolling Deploy", False),
        ("ECS Rolling Rollback", True),
    ]
    assert graph.has_rollback_steps
    assert stage.steps[0].x + stage.steps[0].width < stage.steps[1].x
    assert all(step.y + step.height < stage.y + stage.height <= graph.height for step in stage.steps)


def test_the_schema_knows_each_kind_of_step_and_where_it_belongs():
    pipeline = build_full_schema()["properties"]["pipeline"]["properties"]
    spec = pipeline["stages"]["items"]["properties"]["stage"]["properties"]["spec"]["properties"]
    assert spec["strategy"]["enum"] == sorted(get_strategies())
    assert "steps" in spec["execution"]["properties"]
    step = build_full_schema()["$defs"]["steps"]["items"]["properties"]["step"]
    assert "EcsRollingDeploy" in step["properties"]["type"]["enum"]
    assert "EcsRollingRollback" not in step["properties"]["type"]["enum"]


@pytest.mark.django_db
def test_a_new_pipeline_begins_with_what_there_is(world: World, client: Client):
    page = text_of(client.get("/pipelines/new/"))
    assert f"serviceRef: {world.service.identifier}" in page
    assert "EcsRollingDeploy" in page
    assert 'class="graph-stage"' in page
    assert '<option value="BlueGreen">Blue/green</option>' in page


@pytest.mark.django_db
def test_without_a_service_the_page_says_where_to_make_one(project: Scope, client: Client):
    page = text_of(client.get("/pipelines/new/"))
    assert 'name="create_for" value="service"' in page
    assert "serviceRef: my_service" in page


@pytest.mark.django_db
def test_what_is_missing_is_placed_where_it_is_named(world: World, client: Client):
    text = PIPELINE.replace("serviceRef: myapp", "serviceRef: gone")
    line = next(number for number, content in enumerate(text.splitlines(), 1) if "gone" in content)
    data = {"in_scope": world.scope.path, "yaml": text}
    (problem,) = client.post("/pipelines/check/", data).json()["errors"]
    assert problem["line"] == line
    assert problem["column"] == text.splitlines()[line - 1].index("serviceRef") + 1
    assert "service gone does not exist" in problem["message"]
    refused = client.post(f"/pipelines/{world.pipeline.pk}/edit/", data | {"version": 1})
    assert refused.status_code == 400
    assert f'data-line="{line}"' in text_of(refused)
    assert "serviceRef: gone" in text_of(refused)


@pytest.mark.django_db
def test_two_who_write_at_once_lose_nothing(world: World, client: Client):
    address = f"/pipelines/{world.pipeline.pk}/edit/"
    their_yaml, own_yaml = PIPELINE.replace("name: Deploy", "name: Theirs"), PIPELINE + "# mine\n"
    assert client.post(address, {"yaml": their_yaml, "version": 1}).status_code == 302
    refused = client.post(address, {"yaml": own_yaml, "version": 1})
    assert refused.status_code == 409
    assert "Someone else saved a newer version" in text_of(refused)
    assert "# mine" in text_of(refused)
    assert "Overwrite version 2" in text_of(refused)
    assert client.post(address, {"yaml": own_yaml, "version": 2}).status_code == 302
    assert Pipeline.objects.get().yaml == own_yaml


@pytest.mark.django_db
def test_a_text_for_a_pipeline_that_is_gone_is_offered_as_a_new_one(world: World, client: Client):
    client.post(f"/pipelines/{world.pipeline.pk}/delete/")
    data = {"yaml": PIPELINE + "# mine\n", "version": 1, "in_scope": world.scope.path}
    response = client.post(f"/pipelines/{world.pipeline.pk}/edit/", data)
    assert response.status_code == 409
    assert "# mine" in text_of(response)
    assert client.post("/pipelines/new/", data).status_code == 302
    assert Pipeline.objects.get().yaml.endswith("# mine\n")


@pytest.mark.django_db
def test_a_form_that_names_no_version_overrides_nothing(world: World, client: Client):
    assert client.post(f"/pipelines/{world.pipeline.pk}/edit/", {"yaml": PIPELINE}).status_code == 409
    assert Pipeline.objects.get().version == 1


@pytest.mark.django_db
def test_the_history_compares_and_restores(world: World, client: Client):
    address = f"/pipelines/{world.pipeline.pk}"
    assert "Only one version yet" in text_of(client.get(f"{address}/history/"))
    other_yaml = PIPELINE.replace("name: Deploy", "name: Other")
    client.post(f"{address}/edit/", {"yaml": other_yaml, "version": 1})
    page = text_of(client.get(f"{address}/history/"))
    assert "Version 1 → 2" in page
    assert "name: Other" in page
    assert "name: Deploy" in text_of(client.get(f"{address}/history/?show=1"))
    assert client.get(f"{address}/history/?show=x").status_code == 404
    client.post(f"{address}/restore/1/")
    pipeline = Pipeline.objects.get()
    assert (pipeline.version, pipeline.yaml) == (3, PIPELINE)


@pytest.mark.django_db
def test_a_version_is_not_restored_over_one_that_nobody_saw(world: World, client: Client):
    address = f"/pipelines/{world.pipeline.pk}"
    for version in (1, 2):
        yaml = PIPELINE.replace("name: Deploy", f"name: Other {version}")
        client.post(f"{address}/edit/", {"yaml": yaml, "version": version})
        if version == 1:
            assert '<input type="hidden" name="version" value="2">' in text_of(
                client.get(f"{address}/history/")
            )
    response = client.post(f"{address}/restore/1/", {"version": 2}, follow=True)
    assert "after you opened its history. Nothing was restored." in text_of(response)
    assert Pipeline.objects.get().version == 3
    client.post(f"{address}/restore/1/", {"version": 3})
    pipeline = Pipeline.objects.get()
    assert (pipeline.version, pipeline.yaml) == (4, PIPELINE)


@pytest.mark.django_db
def test_the_question_before_a_deletion_names_the_pipelines_that_follow(
    world: World, admin: User, client: Client
):
    address = f"/pipelines/{world.pipeline.pk}/delete/"
    assert "Followed by other pipelines" not in text_of(client.get(address))
    follower = Pipeline.objects.create(scope=world.scope, identifier="next", name="Next", yaml=PIPELINE)
    Trigger.objects.create(
        pipeline=follower,
        identifier="after",
        name="After the first",
        kind="pipeline",
        spec={"pipeline": world.pipeline.identifier},
    )
    page = text_of(client.get(address))
    assert "Followed by other pipelines" in page
    assert "trigger After the first" in page


@pytest.mark.django_db
def test_a_deleted_pipeline_is_gone_and_its_executions_stay(world: World, client: Client):
    assert client.post(f"/pipelines/{world.pipeline.pk}/delete/").status_code == 302
    assert client.get(f"/pipelines/{world.pipeline.pk}/").status_code == 404
    assert "(deleted)" in text_of(client.get(f"/deployments/{Execution.objects.get().pk}/"))


@pytest.mark.django_db
def test_a_text_that_is_no_pipeline_leaves_the_last_drawing(world: World, client: Client):
    graph = client.post("/pipelines/graph/", {"yaml": PIPELINE})
    assert "<svg" in text_of(graph)
    assert "HX-Reswap" not in graph
    response = client.post("/pipelines/graph/", {"yaml": "pipeline:\n  stages: ["})
    assert response["HX-Reswap"] == "none"
    assert "the last valid YAML" in text_of(response)


@pytest.mark.django_db
def test_a_program_checks_and_compares(world: World, admin: User, call: Callable[[User], Any]):
    api = call(admin)
    data = {"yaml": "pipeline: 3", "org": "default", "project": "demo"}
    (problem,) = api.post("/api/v1/pipelines/checks", data, format="json").json()["errors"]
    assert (problem["path"], problem["line"], problem["column"]) == ("pipeline", 1, 11)
    address = f"/api/v1/pipelines/{world.pipeline.pk}"
    api.put(address, {"yaml": PIPELINE + "# more\n"}, format="json")
    diff = api.get(f"{address}/diff?from=1").json()
    assert (diff["added"], diff["removed"]) == (1, 0)
    assert "+# more" in diff["unified"]
