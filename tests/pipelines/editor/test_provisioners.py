"""A stage is given a provisioner by forms: its steps, what undoes them, and all of it gone again (R185)."""

import pytest

from catalog.manifests.yaml_drafts import YamlDraft
from pipelines.definition.parser import parse_pipeline
from pipelines.editor.commands import run_command
from pipelines.editor.outline import build_outline
from pipelines.editor.provisioners import get_provisioner_name, list_provisioners
from pipelines.pipeline_templates import render_pipeline_template
from steps.kinds.registry import get_step_kinds

STAGE = "pipeline.stages.0"
MADE = f"{STAGE}.stage.spec.environment.provisioner.steps"
TEXT = render_pipeline_template("Rolling", service="web", environment="dev", infrastructure="eu", title="Web")


def apply_command(text: str, do: str, **arguments: str) -> str:
    outcome = run_command(text, {"do": do, **arguments})
    assert not outcome.problem
    return outcome.text


@pytest.mark.parametrize("name", [provisioner.name for provisioner in list_provisioners()])
def test_a_provisioner_brings_its_steps_before_those_that_deploy(name: str) -> None:
    text = apply_command(TEXT, "set-provisioner", at=STAGE, provisioner=name)
    tree = YamlDraft(text).value
    stage = tree["pipeline"]["stages"][0]
    assert get_provisioner_name(stage) == name
    chosen = next(provisioner for provisioner in list_provisioners() if provisioner.name == name)
    spec = stage["stage"]["spec"]["environment"]["provisioner"]
    assert [step["step"]["type"] for step in spec["steps"]] == list(chosen.steps)
    assert [step["step"]["type"] for step in spec.get("rollbackSteps", [])] == list(chosen.rollback_steps)
    assert stage["stage"]["spec"]["environment"]["environmentRef"] == "dev"
    repeated_text = apply_command(text, "set-provisioner", at=STAGE, provisioner=name)
    assert repeated_text == text


def test_a_script_that_provisions_can_be_saved_as_it_is_added() -> None:
    text = apply_command(TEXT, "set-provisioner", at=STAGE, provisioner="Shell Script")
    stage = parse_pipeline(text).stages[0]
    assert [step.type for step in stage.steps] == ["ShellScriptProvision", "EcsRollingDeploy"]
    assert stage.provisioner_step_count == 1
    titles = [section.title for section in build_outline(YamlDraft(text).value)[0].sections]
    assert titles == ["Provisioner", "Steps", "Rollback steps", "Rollback steps of the provisioner"]


def test_the_last_step_of_a_provisioner_takes_the_provisioner_along() -> None:
    text = apply_command(TEXT, "set-provisioner", at=STAGE, provisioner="Shell Script")
    text = apply_command(text, "add-step", at=MADE, type="ShellScript")
    assert [step.type for step in parse_pipeline(text).stages[0].steps][:2] == [
        "ShellScriptProvision",
        "ShellScript",
    ]
    text = apply_command(text, "delete", at=f"{MADE}.1")
    assert apply_command(text, "delete", at=f"{MADE}.0") == TEXT
    assert apply_command(text, "drop-provisioner", at=STAGE) == TEXT


def test_only_what_needs_no_cluster_is_offered_among_the_steps_of_a_provisioner() -> None:
    text = apply_command(TEXT, "set-provisioner", at=STAGE, provisioner="Shell Script")
    making = build_outline(YamlDraft(text).value)[0].sections[0]
    offered = {type_ for type_, _ in making.palette}
    assert {"ShellScriptProvision", "HarnessApproval", "Http"} <= offered
    assert not any(type_.startswith("Ecs") for type_ in offered)
    assert offered <= get_step_kinds().keys()


def test_a_provisioner_that_nobody_knows_changes_nothing() -> None:
    outcome = run_command(TEXT, {"do": "set-provisioner", "at": STAGE, "provisioner": "Magic"})
    assert "Unknown provisioner Magic. Use one of" in outcome.problem
    assert outcome.text == TEXT


STEPS = f"{STAGE}.stage.spec.execution.steps"
UNDOING = {
    "steps": f"{STAGE}.stage.spec.execution.rollbackSteps",
    "provisioner": f"{STAGE}.stage.spec.environment.provisioner.rollbackSteps",
}


def _types(text: str, path: str) -> list[str]:
    node = YamlDraft(text).value
    for name in path.split("."):
        node = node[int(name)] if isinstance(node, list) else node.get(name, {})
    return [step["step"]["type"] for step in node]


def _with_partner_at(section: str) -> str:
    """A stage whose provisioner makes a stack, and what puts it back in one of the two places."""
    text = apply_command(TEXT, "set-provisioner", at=STAGE, provisioner="CloudFormation")
    if section == "provisioner":
        return text
    text = apply_command(text, "delete", at=f"{UNDOING['provisioner']}.0")
    return apply_command(text, "add-step", at=UNDOING["steps"], type="RollbackStack")


@pytest.mark.parametrize("section", UNDOING)
def test_a_step_whose_partner_stands_in_either_rollback_brings_no_second_one(section: str) -> None:
    text = _with_partner_at(section)
    for into in (STEPS, MADE):
        text = apply_command(text, "add-step", at=into, type="CreateStack")
    text = apply_command(text, "set-provisioner", at=STAGE, provisioner="CloudFormation")
    assert text.count("type: RollbackStack") == 1
    assert _types(text, UNDOING[section])[-1] == "RollbackStack"


@pytest.mark.parametrize("section", UNDOING)
@pytest.mark.parametrize("at", [STEPS, MADE])
def test_a_partner_in_either_rollback_goes_with_the_last_step_that_needs_it(section: str, at: str) -> None:
    text = apply_command(_with_partner_at(section), "add-step", at=STEPS, type="CreateStack")
    first, last = (f"{MADE}.0", f"{STEPS}.1") if at == STEPS else (f"{STEPS}.1", f"{MADE}.0")
    text = apply_command(text, "add-step", at=MADE, type="HarnessApproval")
    text = apply_command(text, "delete", at=first)
    assert "type: RollbackStack" in text
    text = apply_command(text, "delete", at=last)
    assert "RollbackStack" not in text
    assert _types(text, UNDOING["steps"]) == ["EcsRollingRollback"]
    assert _types(text, UNDOING["provisioner"]) == []


def test_what_puts_back_goes_with_a_provisioner_unless_another_step_needs_it() -> None:
    text = _with_partner_at("steps")
    needed = apply_command(text, "add-step", at=STEPS, type="CreateStack")
    for arguments in ({"do": "drop-provisioner"}, {"do": "set-provisioner", "provisioner": "Terraform"}):
        assert "RollbackStack" not in apply_command(text, at=STAGE, **arguments)
        assert "RollbackStack" in apply_command(needed, at=STAGE, **arguments)
