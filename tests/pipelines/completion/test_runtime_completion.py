"""What a step of a run can name: values as they are, secrets as stars, and nothing that is not for one."""

from collections.abc import Callable
from textwrap import indent
from typing import Any

import pytest
from django.test import Client

from catalog.models import Environment
from deployments.execution.operations import run_pipeline
from deployments.models import Execution, StepExecution
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, Scope, User
from steps.states import Status
from tests.api.sample_project import make_world
from tests.deployments.engine.conftest import stage_text
from tests.fixtures.people import make_person

Browse = Callable[[User], Client]
HOSTILE = "<img src=x onerror=alert(1)>"
VARIABLES = """\
  variables:
    color: <+input>.default(blue)
    token: {type: Secret, required: true}
"""
STEPS = """\
- step: {identifier: first, name: First, type: Wait, spec: {duration: 1m}}
- parallel:
    - step:
        identifier: ask
        name: Ask
        type: Http
        spec: {url: https://example.com/, outputVariables: [{name: build, value: <+json.build>}]}
    - step: {identifier: pause, name: Pause, type: Wait, spec: {duration: 1m}}
- step: {identifier: last, name: Last, type: Wait, spec: {duration: 1m}}
"""


@pytest.fixture
def execution(project: Scope, admin: User) -> Execution:
    """A run of a stage with two branches, whose service has a variable; nothing has moved it on yet."""
    world = make_world(project, admin, admin)
    world.service.variables = {"greeting": HOSTILE, "nested-name": 3}
    world.service.save()
    Environment.objects.filter(pk=world.environment.pk).update(variables={"level": "dev"})
    stage = stage_text(STEPS, name="deploy").replace("back_deploy", "back")
    text = f"pipeline:\n  identifier: named\n  name: Named\n{VARIABLES}  stages:\n{indent(stage, '    ')}"
    pipeline = Pipeline.objects.create(scope=project, identifier="named", name="Named", yaml=text)
    return run_pipeline(actor=admin, pipeline=pipeline, inputs={"token": "hush-hush-4711"})


def _ended(execution: Execution, identifier: str, **outputs: Any) -> None:
    step_rows = StepExecution.objects.filter(stage__execution=execution, identifier=identifier)
    step_rows.update(status=Status.SUCCESS, outputs=outputs, started_at=execution.created_at)


def _list_expressions(client: Client, execution: Execution, **query: str) -> dict[str, Any]:
    answer = client.get(f"/api/v1/executions/{execution.pk}/expressions", {"page_size": "200", **query})
    assert answer.status_code == 200, answer.content
    return {entry["path"]: entry for entry in answer.json()["results"]}


def test_values_keep_their_types_and_a_secret_is_stars(execution: Execution, admin: User, browse: Browse):
    entries = _list_expressions(browse(admin), execution)
    assert entries["pipeline.variables.color"]["value"] == "blue"
    assert entries["serviceVariables.nested-name"]["value"] == 3
    assert entries["serviceVariables.nested-name"]["expression"] == "<+serviceVariables.nested-name>"
    for path in ("pipeline.variables.token", "variables.token"):
        assert (entries[path]["state"], entries[path]["value"]) == ("SECRET", "****")
    assert entries["execution.id"]["value"] == str(execution.pk)


def test_a_step_knows_those_before_it_and_not_the_one_beside_it(
    execution: Execution, admin: User, browse: Browse
):
    _ended(execution, "first", waitsUntil="2030-01-01")
    _ended(execution, "pause", waitsUntil="2030-01-02")
    client = browse(admin)
    beside = _list_expressions(client, execution, at="deploy/ask")
    assert beside["execution.steps.first.output.waitsUntil"]["value"] == "2030-01-01"
    assert "execution.steps.pause.output.waitsUntil" not in beside
    last = _list_expressions(client, execution, at="deploy/last")
    assert last["execution.steps.pause.output.waitsUntil"]["value"] == "2030-01-02"
    for name in ("httpResponseCode", "build"):
        later = last[f"execution.steps.ask.output.{name}"]
        assert (later["state"], later["value"]) == ("LATER", None)
    assert client.get(f"/api/v1/executions/{execution.pk}/expressions?at=deploy/none").status_code == 404


def test_a_rollback_step_is_listed_and_knows_all_steps_of_its_stage(
    execution: Execution, admin: User, browse: Browse
):
    _ended(execution, "last", waitsUntil="2030-01-03")
    client = browse(admin)
    entries = _list_expressions(client, execution, at="deploy/back")
    assert entries["execution.steps.last.output.waitsUntil"]["value"] == "2030-01-03"
    page_text = client.get(f"/deployments/{execution.pk}/expressions/").content.decode()
    assert '<optgroup label="Stage deploy, rollback">' in page_text
    assert 'value="deploy/back"' in page_text


def test_without_a_step_the_one_that_began_last_is_meant(execution: Execution, admin: User, browse: Browse):
    client = browse(admin)
    assert "execution.steps.first.output.waitsUntil" not in _list_expressions(client, execution)
    _ended(execution, "first", waitsUntil="2030-01-01")
    assert "execution.steps.first.output.waitsUntil" in _list_expressions(client, execution)


def test_a_secret_that_got_into_an_output_is_stars_too(execution: Execution, admin: User, browse: Browse):
    _ended(execution, "first", told="it is hush-hush-4711", list=["hush-hush-4711"], password="•••")
    entries = _list_expressions(browse(admin), execution)
    before = "execution.steps.first.output"
    assert entries[f"{before}.told"]["value"] == "it is ****"
    assert entries[f"{before}.list"]["value"] == ["****"]
    assert entries[f"{before}.password"]["state"] == "SECRET"


def test_what_no_path_can_name_stays_inside_its_parent(execution: Execution, admin: User, browse: Browse):
    _ended(execution, "first", exitCodes={"4f0": {"app": 0}}, codes={"app": {"main": 0}})
    entries = _list_expressions(browse(admin), execution)
    before = "execution.steps.first.output"
    assert entries[f"{before}.exitCodes"]["value"] == {"4f0": {"app": 0}}
    assert entries[f"{before}.codes.app.main"]["value"] == 0


def test_variables_of_what_somebody_may_not_view_have_no_values(execution: Execution, browse: Browse):
    reader = make_person("reader")
    role = Role.objects.create(scope=execution.scope, identifier="runs", name="Runs")
    role.set_permissions({"core_pipeline_view"})
    RoleAssignment.objects.create(scope=execution.scope, user=reader, role=role)
    entries = _list_expressions(browse(reader), execution)
    for path in ("serviceVariables.greeting", "service.variables.greeting", "env.variables.level"):
        assert (entries[path]["state"], entries[path]["value"]) == ("HIDDEN", None)
    assert entries["pipeline.variables.color"]["value"] == "blue"
    assert not _list_expressions(browse(reader), execution, q="onerror")


def test_the_page_escapes_values_and_finds_by_name(execution: Execution, admin: User, browse: Browse):
    client = browse(admin)
    page = client.get(f"/deployments/{execution.pk}/expressions/", {"q": "<+serviceVariables.gre"})
    text = page.content.decode()
    assert "&lt;+serviceVariables.greeting&gt;" in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert HOSTILE not in text
    assert "infra.cluster" not in text
    assert "hush-hush" not in client.get(f"/deployments/{execution.pk}/expressions/").content.decode()


def test_pages_follow_each_other_both_ways(execution: Execution, admin: User, browse: Browse):
    client = browse(admin)
    address, paths = f"/api/v1/executions/{execution.pk}/expressions?page_size=7", []
    while address:
        answer = client.get(address).json()
        paths += [entry["path"] for entry in answer["results"]]
        address = answer["next"]
    assert paths == sorted(paths) == list(_list_expressions(client, execution))
    assert client.get(f"/api/v1/executions/{execution.pk}/expressions?cursor=x").status_code == 404
