"""What may be written about failures: read from the inside out, and mistakes named with line and column."""

import pytest

from pipelines.definition.parser import InvalidPipelineError, parse_pipeline
from tests.api.sample_project import PIPELINE

STAGE = "        type: Deployment\n"
STEPS = """          execution:
            steps:
              - step:
                  identifier: deploy
                  type: EcsRollingDeploy
                  failureStrategies: [{onFailure: {errors: [Timeout], action: {type: Abort}}}]
              - step: {identifier: again, type: EcsRollingDeploy}
            rollbackSteps:
              - step: {identifier: back, type: EcsRollingRollback}
"""
LINE = next(number for number, line in enumerate(PIPELINE.splitlines(), 1) if "type: Deployment" in line) + 4


def _with(action: str, errors: str = "AllErrors", text: str = PIPELINE) -> str:
    block = f"""        failureStrategies:
          - onFailure:
              errors: [{errors}]
              action: {action}
"""
    return text.replace(STAGE, STAGE + block, 1)


def test_those_of_a_step_come_before_those_of_its_stage() -> None:
    text = _with("{type: Ignore}", text=PIPELINE.replace("          strategy: Rolling\n", STEPS))
    own, inherited = parse_pipeline(text).stages[0].steps
    assert [strategy["action"]["type"] for strategy in own.failure_strategies] == ["Abort", "Ignore"]
    assert [strategy["action"]["type"] for strategy in inherited.failure_strategies] == ["Ignore"]


def test_a_strategy_fills_in_steps_with_those_of_the_stage() -> None:
    (step,) = parse_pipeline(_with("{type: Ignore}")).stages[0].steps
    assert [strategy["errors"] for strategy in step.failure_strategies] == [["AllErrors"]]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("{type: Retry}", "spec is missing"),
        ("{type: Retry, spec: {retryCount: 1}}", "retryIntervals is missing"),
        (
            "{type: Retry, spec: {retryCount: 1, retryIntervals: [soon]}}",
            "soon is not a duration; use a value such as 90s, 30m",
        ),
        ("{type: Ignore, spec: {retryCount: 1}}", "unknown key retryCount"),
        (
            "{type: PipelineRollback}",
            "PipelineRollback is not allowed; use one of Abort, Ignore",
        ),
        ("{type: ManualIntervention, spec: {}}", "timeout is missing"),
        (
            "{type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: Retry}}}}",
            "Retry is not allowed; use one of Abort, Ignore, MarkAsFailure",
        ),
        (
            "{type: Retry, spec: {retryCount: 1, retryIntervals: [1s], "
            "onRetryFailure: {action: {type: Retry}}}}",
            "Retry is not allowed",
        ),
    ],
)
def test_a_mistake_is_named_where_it_stands(action: str, message: str) -> None:
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(_with(action))
    (problem,) = bad.value.problems
    assert problem.message.startswith(message)
    assert problem.line == LINE
    assert problem.column is not None
    assert problem.column > len("              ")


def test_an_error_that_nobody_knows_is_named() -> None:
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(_with("{type: Ignore}", errors="Timeout, Boredom"))
    (problem,) = bad.value.problems
    assert problem.message.startswith("Boredom is not allowed; use one of AllErrors")


def test_a_rollback_step_has_no_strategies() -> None:
    text = PIPELINE.replace("          strategy: Rolling\n", STEPS).replace(
        "- step: {identifier: back, type: EcsRollingRollback}",
        "- step: {identifier: back, type: EcsRollingRollback, failureStrategies: []}",
    )
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(text)
    assert bad.value.problems[0].message.startswith("failureStrategies is not allowed in rollback steps")
