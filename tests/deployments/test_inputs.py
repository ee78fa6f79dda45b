"""What a run is told: types, allowed values, patterns and secrets, at every door."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from deployments.engine.masking import secrets_of
from deployments.engine.sources import known_values
from deployments.inputs import check_inputs, read_variables, variable_faults
from deployments.models import Execution, Pipeline
from deployments.operations import run_pipeline
from guards.patterns import fits, pattern_fault
from rbac.models import Scope, User
from tests.api.world import World, make_world
from web.problems import BadInput

Browse = Callable[[User], Client]
WRITTEN: dict[str, Any] = {
    "plain": 1,
    "asked": "<+input>",
    "choice": "<+input>.default(a).allowedValues(a,b)",
    "version": "<+input>.regex(^v\\d+(?:\\.\\d+)?$)",
    "count": {"type": "Number", "default": 2, "allowedValues": [1, 2, 3]},
    "go": {"type": "Boolean", "value": True},
    "token": {"type": "Secret", "required": True, "description": "Of the API."},
}
VARIABLES = read_variables(WRITTEN)
RIGHT: dict[str, Any] = {"asked": "x", "version": "v1.2", "token": "hush-hush"}
YAML = """\
  variables:
    version: <+input>.regex(v\\d+)
    color: {type: String, default: blue, allowedValues: [blue, green]}
    token: {type: Secret, required: true}
"""


def wrong(**inputs: Any) -> dict[str, str]:
    return {one["path"]: one["message"] for one in check_inputs(VARIABLES, RIGHT | inputs)[1]}


def test_what_is_right_is_taken_and_secrets_are_kept_apart():
    found, errors = check_inputs(VARIABLES, RIGHT | {"count": 3})
    assert not errors
    assert found.plain == {"asked": "x", "version": "v1.2", "count": 3}
    assert found.secrets == {"token": "hush-hush"}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"asked": None}, "is needed"),
        ({"token": ""}, "is needed"),
        ({"choice": "c"}, "must be one of a, b"),
        ({"version": "1"}, "must fit the pattern"),
        ({"count": "3"}, "must be a number"),
        ({"count": True}, "must be a number"),
        ({"count": 4}, "must be one of 1, 2, 3"),
        ({"go": "yes"}, "must be true or false"),
        ({"other": 1}, "no such variable"),
        ({"plain": []}, "must be a text, a number, true or false"),
    ],
)
def test_what_does_not_fit_is_named_with_the_reason(inputs: dict[str, Any], said: str):
    ((path, message),) = wrong(**inputs).items()
    assert path == f"inputs.{next(iter(inputs))}"
    assert said in message


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("<+input>.sometimes(x)", "is not .default"),
        ("<+input>.regex((a+)+)", "repeats a group"),
        ("<+input>.default(c).allowedValues(a,b)", "must be one of"),
        ({"type": "Text"}, "must be one of String"),
        ({"type": "Number", "value": "x"}, "must be a number"),
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": 1}, "must be a text"),
        ({"kind": 1}, "not known here"),
        ([1], "must be a text"),
    ],
)
def test_a_variable_that_cannot_be_is_refused_at_its_place(written: Any, said: str):
    ((where, message),) = variable_faults({"x": written})
    assert where[0] == "x"
    assert said in message


@given(st.text(st.sampled_from("ab*+?(){}[]|\\1,3.^$"), max_size=24))
def test_no_pattern_that_is_taken_makes_a_text_slow(pattern: str):
    if not pattern_fault(pattern):
        fits(pattern, "a" * 128 + "!")


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def asking(world: World) -> Pipeline:
    """A pipeline that asks for two inputs and a secret."""
    pipeline: Pipeline = world.pipeline
    pipeline.yaml = pipeline.yaml.replace("  stages:", YAML + "  stages:", 1)
    pipeline.save(update_fields=["yaml"])
    return pipeline


@pytest.mark.django_db
def test_the_form_of_a_run_asks_and_keeps_the_secret_to_itself(asking: Pipeline, admin: User, browse: Browse):
    client, address = browse(admin), f"/pipelines/{asking.pk}/run/"
    page = client.get(address).content.decode()
    assert 'name="input.version"' in page
    assert 'type="password"' in page
    entered = {"tag": "v2", "input.version": "2", "input.token": "hush-hush", "input.color": "green"}
    refused = client.post(address, entered).content.decode()
    assert "must fit the pattern" in refused
    assert "hush-hush" not in refused
    assert client.post(address, entered | {"input.version": "v2"}).status_code == 302
    made = Execution.objects.latest("created_at")
    assert made.inputs == {"version": "v2", "color": "green"}
    assert made.hidden_inputs == {"token": "hush-hush"}
    stage = made.stages.get()
    assert "hush-hush" not in json.dumps(stage.values)
    assert "hush-hush" in secrets_of(stage)
    assert known_values(made, stage)["pipeline"]["variables"]["token"] == "hush-hush"
    assert "hush-hush" not in client.get(f"/deployments/{made.pk}/").content.decode()


@pytest.mark.django_db
def test_a_run_without_what_is_asked_for_is_refused_before_anything_is_written(asking: Pipeline, admin: User):
    before = Execution.objects.count()
    with pytest.raises(BadInput) as refused:
        run_pipeline(actor=admin, pipeline=asking, inputs={"color": "red"})
    assert {one["path"] for one in refused.value.errors} == {"inputs.version", "inputs.color", "inputs.token"}
    assert Execution.objects.count() == before
