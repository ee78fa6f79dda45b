"""What may be written at a place of a pipeline, also of one that is half written."""

from collections.abc import Callable
from textwrap import indent
from typing import Any

import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.models import Environment, Service
from pipelines.completion.drafts import PipelineDraft
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, Scope, User
from tests.api.sample_project import World, make_world
from tests.deployments.engine.conftest import stage_text
from tests.fixtures.people import make_person
from tests.lanes import examples
from tests.pipelines.completion.test_runtime_completion import STEPS, VARIABLES

Browse = Callable[[User], Client]
STAGE = stage_text(STEPS, name="deploy").replace("back_deploy", "back")
TEXT = f"pipeline:\n  identifier: named\n  name: Named\n{VARIABLES}  stages:\n{indent(STAGE, '    ')}"
BEFORE = "execution.steps"


def _line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def _paths(draft: PipelineDraft, line: int) -> set[str]:
    return {item.path for item in draft.list_items(draft.find_node_at_line(line))}


def test_a_step_may_name_those_before_it_and_not_the_one_beside_it():
    draft = PipelineDraft(TEXT)
    beside = _paths(draft, _line_of(TEXT, "url: https"))
    assert f"{BEFORE}.first.output.waitsUntil" in beside
    assert f"{BEFORE}.pause.output.waitsUntil" not in beside
    assert "httpResponseCode" in beside
    last = _paths(draft, _line_of(TEXT, "identifier: last"))
    assert {f"{BEFORE}.pause.output.waitsUntil", f"{BEFORE}.ask.output.build"} <= last
    assert "httpResponseCode" not in last
    assert not any(path.startswith(BEFORE) for path in _paths(draft, _line_of(TEXT, "deploymentType")))


def test_a_rollback_step_may_name_the_steps_of_its_stage_and_no_later_one_names_it():
    deleting = "- step: {identifier: back, type: EcsCanaryDelete}\n"
    first = TEXT.replace("- step: {identifier: back, type: EcsRollingRollback}\n", deleting)
    assert first != TEXT
    second_stage = indent(STAGE.replace(": deploy", ": more").replace(": back", ": undo"), "    ")
    draft = PipelineDraft(first + second_stage)
    back, _ = draft.find_node("deploy/back")
    assert f"{BEFORE}.last.output.waitsUntil" in {item.path for item in draft.list_items(back)}
    groups = {choice.key: choice.group for choice in draft.list_choices()}
    assert groups["deploy/back"] == "deploy, rollback"
    assert groups["more/undo"] == "more, rollback"
    later, is_behind = draft.find_node("more/")
    paths = {item.path for item in draft.list_items(later, is_behind=is_behind)}
    assert f"{BEFORE}.last.output.waitsUntil" in paths
    assert f"{BEFORE}.back.output.serviceName" not in paths


def test_a_strategy_that_fills_the_steps_in_is_known_by_them():
    text = (
        TEXT.replace(STEPS.splitlines()[0].strip(), "x").split("      execution:")[0]
        + "      strategy: Rolling\n"
    )
    draft = PipelineDraft(text)
    mark, is_behind = draft.find_node("deploy/")
    paths = {item.path for item in draft.list_items(mark, is_behind=is_behind)}
    assert any(path.endswith(".output.taskDefinitionArn") for path in paths), sorted(paths)


@pytest.mark.parametrize("broken", ['when: {condition: "<+', "when: {condition: <+", "  : <+", "\tx: <+"])
def test_a_line_that_is_being_typed_does_not_hide_the_rest(broken: str):
    lines = TEXT.split("\n")
    at = _line_of(TEXT, "identifier: last")
    lines.insert(at, " " * 14 + broken)
    paths = _paths(PipelineDraft("\n".join(lines)), at + 1)
    assert f"{BEFORE}.first.output.waitsUntil" in paths
    assert "pipeline.variables.color" in paths


@settings(max_examples=examples(200))
@given(st.data())
def test_any_text_has_some_names(data: st.DataObject):
    lines = TEXT.split("\n")
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = data.draw(
            st.sampled_from(["", "- step", "  stages: 7", "pipeline:", "spec: [", "- stage: x"])
            | st.text(max_size=8)
        )
    draft = PipelineDraft("\n".join(lines))
    for line in (1, len(lines)):
        assert "service.name" in _paths(draft, line)
    draft.list_choices()


# --- at the doors ----------------------------------------------------------------------------------


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    sample_world = make_world(project, admin, admin)
    Service.objects.filter(pk=sample_world.service.pk).update(variables={"greeting": "hi", "level": "x"})
    Environment.objects.filter(pk=sample_world.environment.pk).update(variables={"level": "dev"})
    return sample_world


@pytest.fixture
def pipeline(world: World) -> Pipeline:
    pipeline: Pipeline = world.pipeline
    Pipeline.objects.filter(pk=pipeline.pk).update(yaml=TEXT)
    return pipeline


def _list_suggestions(client: Client, **fields: Any) -> dict[str, str]:
    data = {"in_scope": "account/default/demo", "yaml": TEXT, **fields}
    answer = client.post("/pipelines/expressions/", data)
    assert answer.status_code == 200
    return {entry["value"]: entry["detail"] for entry in answer.json()["expressions"]}


@pytest.mark.django_db
def test_the_editor_is_told_by_line_and_by_form(world: World, admin: User, browse: Browse):
    client = browse(admin)
    by_line = _list_suggestions(client, line=_line_of(TEXT, "identifier: last"))
    at = "pipeline.stages.0.stage.spec.execution.steps.2"
    assert _list_suggestions(client, at=at) == by_line
    assert by_line[f"{BEFORE}.first.output.waitsUntil"] == "When the wait ends."
    assert {"serviceVariables.greeting", "variables.level", "env.variables.level"} <= set(by_line)
    for hostile in ("9" * 4000, "-1", "x", "pipeline.stages.99999999.stage"):
        assert "service.name" in _list_suggestions(client, line=hostile, at=hostile)


@pytest.mark.django_db
def test_a_pipeline_lists_the_names_of_a_step_without_values(pipeline: Pipeline, admin: User, browse: Browse):
    client = browse(admin)
    address = f"/api/v1/pipelines/{pipeline.pk}/expressions"
    expressions = {
        entry["path"]: entry
        for entry in client.get(f"{address}?at=deploy/last&page_size=200").json()["results"]
    }
    assert expressions["pipeline.variables.token"]["state"] == "SECRET"
    assert expressions[f"{BEFORE}.ask.output.build"]["state"] == "LATER"
    assert not any("value" in entry for entry in expressions.values())
    page = client.get(f"/pipelines/{pipeline.pk}/expressions/?at=deploy/last&q=ask").content.decode()
    assert "&lt;+execution.steps.ask.output.build&gt;" in page
    assert "After its step finishes" in page
    assert client.get(f"{address}?at=deploy/none").status_code == 404


@pytest.mark.django_db
def test_of_what_somebody_may_not_view_nothing_is_told(world: World, project: Scope, browse: Browse):
    reader = make_person("reader")
    role = Role.objects.create(scope=project, identifier="runs", name="Runs")
    role.set_permissions({"core_pipeline_view", "core_environment_view"})
    RoleAssignment.objects.create(scope=project, user=reader, role=role)
    expressions = _list_suggestions(browse(reader), line=_line_of(TEXT, "identifier: last"))
    assert "env.variables.level" in expressions
    assert "serviceVariables.greeting" not in expressions
