"""YAML that has run is run again, also where a newer release would not save it."""

import pytest

from deployments.execution.operations import run_pipeline, start_attempt
from deployments.models import Execution
from pipelines.operations.pipelines import PipelineNotRunnable, save_pipeline
from rbac.models import Scope, User
from tests.api.sample_project import PIPELINE, World, make_world

pytestmark = pytest.mark.django_db
_STEPS = "execution: {steps: [{step: {identifier: go, type: EcsRollingDeploy, timeout: 10000h}}]}"


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


def _write(**changes: str) -> str:
    variables = changes.get("variables", "{}")
    text = PIPELINE.replace("  stages:", f"  variables: {variables}\n  stages:", 1)
    return text.replace("strategy: Rolling", changes.get("steps", "strategy: Rolling"))


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (_write(variables="{1st: x}"), {}),
        (_write(variables="{a: {allowedValues: [b, 1]}}"), {"a": "b"}),
        (_write(variables="{a: {value: fixed, allowedValues: [fixed, 2]}}"), {}),
        (_write(steps=_STEPS), {}),
    ],
    ids=["name", "choices", "choices of a fixed value", "duration"],
)
def test_yaml_that_has_run_is_not_refused_by_newer_rules(
    world: World, admin: User, text: str, inputs: dict[str, str]
) -> None:
    run = Execution.objects.filter(pk=world.execution.pk)
    run.update(yaml=text, inputs=inputs, status="FAILED")
    earlier = run.get()
    assert run_pipeline(actor=admin, pipeline=world.pipeline, replays=earlier).inputs == inputs
    for whole in (False, True):
        Execution.objects.filter(pk=earlier.pk).update(next_attempt=None)
        attempt = start_attempt(actor=admin, execution=run.get(), whole=whole)
        assert (attempt.yaml, attempt.inputs) == (text, inputs)
    with pytest.raises(PipelineNotRunnable):
        save_pipeline(actor=admin, scope=world.scope, yaml=text, pipeline=world.pipeline)


def test_yaml_that_has_run_is_refused_for_what_cannot_run(world: World, admin: User) -> None:
    for text in (
        _write(variables="{a: {type: Text}}"),
        PIPELINE.replace("strategy: Rolling", "strategy: no"),
    ):
        Execution.objects.filter(pk=world.execution.pk).update(yaml=text)
        earlier = Execution.objects.get(pk=world.execution.pk)
        with pytest.raises(PipelineNotRunnable):
            run_pipeline(actor=admin, pipeline=world.pipeline, replays=earlier)
