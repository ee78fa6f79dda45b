"""A stage is given a provisioner by forms: its steps, what undoes them, and all of it gone again (R185)."""

import pytest

from deployments.editing.commands import carry_out
from deployments.editing.draft import Draft
from deployments.editing.outline import outline
from deployments.editing.provisioners import provisioner_of, provisioners
from deployments.pipelines import read_pipeline
from deployments.starters import new_pipeline
from deployments.steps.base import known_steps

STAGE = "pipeline.stages.0"
MADE = f"{STAGE}.stage.spec.environment.provisioner.steps"
TEXT = new_pipeline("Rolling", service="web", environment="dev", infrastructure="eu", title="Web")


def done(text: str, do: str, **given: str) -> str:
    outcome = carry_out(text, {"do": do, **given})
    assert not outcome.problem
    return outcome.text


@pytest.mark.parametrize("name", [one.name for one in provisioners()])
def test_a_provisioner_brings_its_steps_before_those_that_deploy(name: str) -> None:
    text = done(TEXT, "set-provisioner", at=STAGE, provisioner=name)
    tree = Draft(text).value
    stage = tree["pipeline"]["stages"][0]
    assert provisioner_of(stage) == name
    chosen = next(one for one in provisioners() if one.name == name)
    said = stage["stage"]["spec"]["environment"]["provisioner"]
    assert [one["step"]["type"] for one in said["steps"]] == list(chosen.steps)
    assert [one["step"]["type"] for one in said.get("rollbackSteps", [])] == list(chosen.rollback_steps)
    assert stage["stage"]["spec"]["environment"]["environmentRef"] == "dev"
    again = done(text, "set-provisioner", at=STAGE, provisioner=name)
    assert again == text


def test_a_script_that_provisions_can_be_saved_as_it_is_added() -> None:
    text = done(TEXT, "set-provisioner", at=STAGE, provisioner="Shell Script")
    stage = read_pipeline(text).stages[0]
    assert [step.type for step in stage.steps] == ["ShellScriptProvision", "EcsRollingDeploy"]
    assert stage.provisioner_steps == 1
    titles = [section.title for section in outline(Draft(text).value)[0].sections]
    assert titles == ["Provisioner", "Steps", "Rollback steps", "Rollback steps of the provisioner"]


def test_the_last_step_of_a_provisioner_takes_the_provisioner_along() -> None:
    text = done(TEXT, "set-provisioner", at=STAGE, provisioner="Shell Script")
    text = done(text, "add-step", at=MADE, type="ShellScript")
    assert [step.type for step in read_pipeline(text).stages[0].steps][:2] == [
        "ShellScriptProvision",
        "ShellScript",
    ]
    text = done(text, "delete", at=f"{MADE}.1")
    assert done(text, "delete", at=f"{MADE}.0") == TEXT
    assert done(text, "drop-provisioner", at=STAGE) == TEXT


def test_only_what_needs_no_cluster_is_offered_among_the_steps_of_a_provisioner() -> None:
    text = done(TEXT, "set-provisioner", at=STAGE, provisioner="Shell Script")
    making = outline(Draft(text).value)[0].sections[0]
    offered = {type_ for type_, _ in making.palette}
    assert {"ShellScriptProvision", "HarnessApproval", "Http"} <= offered
    assert not any(type_.startswith("Ecs") for type_ in offered)
    assert offered <= known_steps().keys()


def test_a_provisioner_that_nobody_knows_changes_nothing() -> None:
    outcome = carry_out(TEXT, {"do": "set-provisioner", "at": STAGE, "provisioner": "Magic"})
    assert "There is no provisioner Magic; there are" in outcome.problem
    assert outcome.text == TEXT
