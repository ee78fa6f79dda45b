"""What a form changes in a pipeline: strategies with their rollback, partners, groups, refusals."""

from typing import Any

import pytest

from guards.yaml_parser import parse_yaml
from pipelines.definition.parser import parse_pipeline
from pipelines.editor.commands import run_command
from pipelines.editor.forms import get_strategy
from pipelines.editor.tree_paths import parse_path
from pipelines.pipeline_templates import render_pipeline_template

STEPS = "pipeline.stages.0.stage.spec.execution.steps"
STAGE = "pipeline.stages.0"
TEXT = render_pipeline_template("Rolling", service="web", environment="dev", infrastructure="eu", title="Web")


def types(text: str) -> tuple[list[str], list[str]]:
    stage = parse_pipeline(text).stages[0]
    return [step.type for step in stage.steps], [step.type for step in stage.rollback_steps]


def apply_command(text: str, do: str, **arguments: str) -> str:
    outcome = run_command(text, {"do": do, **arguments})
    assert not outcome.problem
    assert not outcome.errors
    return outcome.text


def test_a_strategy_takes_the_place_of_another_and_leaves_other_steps_alone():
    text = apply_command(TEXT, "add-step", at=STEPS, type="EcsRunTask")
    text = run_command(
        text,
        {
            "form_at": f"{STEPS}.1",
            "form_is": "ecsRunTask",
            "spec.taskDefinitionArn": "arn:x",
            "spec.runTaskRequestDefinition.rows": "1",
            "spec.runTaskRequestDefinition.0.store": "Inline",
            "spec.runTaskRequestDefinition.0.content": "count: 1\n",
        },
    ).text
    text = apply_command(text, "set-strategy", at=STAGE, strategy="Canary")
    steps, undoing = types(text)
    assert steps[-1] == "EcsRunTask"
    assert "EcsCanaryDeploy" in steps
    assert "EcsCanaryDelete" in undoing
    assert apply_command(text, "set-strategy", at=STAGE, strategy="Rolling").count("EcsCanary") == 0


def test_a_step_brings_what_undoes_it_and_takes_it_along_when_it_goes():
    text = apply_command(TEXT, "add-step", at=STEPS, type="EcsCanaryDeploy")
    assert types(text)[1] == ["EcsRollingRollback", "EcsCanaryDelete"]
    text = apply_command(text, "delete", at=f"{STEPS}.1")
    assert types(text) == (["EcsRollingDeploy"], ["EcsRollingRollback"])


def rollback_of(text: str) -> list[Any]:
    stages = parse_yaml(text).value["pipeline"]["stages"]
    return list(stages[0]["stage"]["spec"]["execution"]["rollbackSteps"])


def test_a_partner_goes_out_of_groups_and_parallel_blocks_too_which_stay_only_with_something_in_them():
    undoing = STEPS.replace("steps", "rollbackSteps")
    text = apply_command(TEXT, "add-step", at=STEPS, type="EcsCanaryDeploy")
    beside = apply_command(text, "beside", at=f"{undoing}.1")
    assert apply_command(beside, "delete", at=f"{STEPS}.1") == TEXT
    grouped = apply_command(beside, "group", at=f"{undoing}.0.parallel.1")
    assert apply_command(grouped, "delete", at=f"{STEPS}.1") == TEXT
    nested = apply_command(apply_command(text, "group", at=f"{undoing}.1"), "group", at=f"{undoing}.1")
    assert [next(iter(entry)) for entry in rollback_of(nested)] == ["step", "stepGroup"]
    assert apply_command(nested, "delete", at=f"{STEPS}.1") == TEXT
    assert apply_command(beside, "delete", at=f"{STEPS}.0").count("EcsRollingRollback") == 0


def test_a_step_whose_partner_stands_in_a_group_brings_no_second_one():
    grouped = apply_command(TEXT, "group", at=f"{STEPS.replace('steps', 'rollbackSteps')}.0")
    assert (
        apply_command(grouped, "add-step", at=STEPS, type="EcsRollingDeploy").count("EcsRollingRollback") == 1
    )


def test_a_stage_that_only_names_its_strategy_has_it_written_out_before_a_change():
    short = TEXT[: TEXT.index("          execution:")] + "          strategy: Rolling # ours\n"
    text = apply_command(short, "add-step", at=STEPS, type="EcsCanaryDeploy")
    assert types(text) == (["EcsRollingDeploy", "EcsCanaryDeploy"], ["EcsRollingRollback", "EcsCanaryDelete"])


def test_what_runs_side_by_side_comes_apart_again_as_it_was():
    text = apply_command(TEXT, "add-step", at=STEPS, type="EcsCanaryDeploy")
    beside = apply_command(text, "beside", at=f"{STEPS}.1")
    assert "- parallel:" in beside
    grouped = apply_command(beside, "group", at=f"{STEPS}.0.parallel.1")
    assert "- stepGroup:" in grouped
    inside = f"{STEPS}.0.parallel.1.stepGroup.steps.0"
    assert apply_command(apply_command(grouped, "out", at=inside), "out", at=f"{STEPS}.0.parallel.1") == text


def test_values_are_read_by_the_types_of_the_fields():
    fields: dict[str, str] = {"form_at": f"{STEPS}.0", "form_is": "ecsRollingDeploy", "timeout": "soon"}
    wrong = run_command(TEXT, fields | {"spec.failFast.failedTasks": "many"})
    assert set(wrong.errors) == {"timeout", "spec.failFast.failedTasks"}
    assert wrong.text == TEXT
    right = run_command(
        TEXT, fields | {"timeout": "45m", "spec.failFast.failedTasks": "5", "spec.forceNewDeployment": "true"}
    )
    step = parse_pipeline(right.text).stages[0].steps[0]
    assert step.timeout_seconds == 45 * 60
    assert step.spec == {"forceNewDeployment": True, "failFast": {"failedTasks": 5}}
    back = {"timeout": "", "spec.failFast.failedTasks": "", "spec.forceNewDeployment": ""}
    assert run_command(right.text, fields | back).text == TEXT


@pytest.mark.parametrize(
    "command",
    [
        {"do": "delete", "at": f"{STEPS}.9"},
        {"do": "delete", "at": f"{STEPS}.0", "is": "another"},
        {"do": "add-step", "at": STEPS, "type": "Nonsense"},
        {"do": "add-step", "at": STEPS, "type": "EcsRollingRollback"},
        {"do": "add-step", "at": "pipeline.name", "type": "EcsRollingDeploy"},
        {"do": "out", "at": f"{STEPS}.0"},
        {"do": "explode", "at": STAGE},
        {"do": "up", "at": ""},
        {"do": "delete", "at": f"{STEPS}.{'9' * 4301}"},
    ],
)
def test_what_cannot_be_done_says_so_and_changes_nothing(command: dict[str, Any]):
    outcome = run_command(TEXT, command)
    assert outcome.problem
    assert outcome.text == TEXT


@pytest.mark.parametrize(
    "command", [{"do": "set-strategy", "strategy": "Canary"}, {"do": "add-step", "type": "EcsRollingDeploy"}]
)
def test_a_stage_without_a_body_is_corrected_in_the_yaml_first(command: dict[str, str]):
    text = "pipeline:\n  stages:\n    - stage:\n"
    at = STEPS if command["do"] == "add-step" else STAGE
    outcome = run_command(text, {"at": at, **command})
    assert "This stage is not a mapping" in outcome.problem
    assert outcome.text == text


def test_a_stage_whose_execution_is_no_mapping_has_the_strategy_beside_it():
    text = "pipeline:\n  stages:\n    - stage: {spec: {strategy: Rolling, execution: 5}}\n"
    assert get_strategy(parse_yaml(text).value, parse_path(STAGE)) == "Rolling"


def test_when_a_step_runs_is_chosen_by_form_and_taken_back():
    fields = {"form_at": f"{STEPS}.0", "form_is": "ecsRollingDeploy", "when.status": "All"}
    condition = '<+env.type> == "Production"'
    chosen_text = run_command(TEXT, fields | {"when.condition": condition}).text
    assert "stageStatus: All" in chosen_text
    assert parse_pipeline(chosen_text).stages[0].steps[0].type == "EcsRollingDeploy"
    assert run_command(chosen_text, fields | {"when.status": "", "when.condition": ""}).text == TEXT
