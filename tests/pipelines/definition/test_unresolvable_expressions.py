"""Expressions that can never come to anything are refused as a pipeline is saved, with the nearest name."""

import pytest

from pipelines.definition.parser import InvalidPipelineError, parse_pipeline
from tests.deployments.engine.conftest import pipeline_text, stage_text

VARIABLES = "{colour: blue, token: {type: Secret, required: true}}"


def _text(spec: str, type_: str = "Http", when: str = "") -> str:
    step = f"- step:\n    identifier: one\n    type: {type_}\n{when}    spec: {spec}\n"
    return pipeline_text(stage_text(step), variables=VARIABLES)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{url: 'https://<+infra.clster>/'}", "is unknown here. Did you mean <+infra.cluster>?"),
        ("{url: 'https://<+servce.name>/'}", "Did you mean <+service.name>?"),
        ("{url: https://a/, requestBody: <+pipeline.variables.color>}", "mean <+pipeline.variables.colour>?"),
        ("{url: https://a/, headers: [{key: a, value: <+env.kind>}]}", "<+env.kind> is unknown here"),
        ("{url: https://a/, assertion: <+stage.name.first> == 1}", "<+stage.name.first> is unknown here"),
    ],
)  # fmt: skip
def test_a_name_that_nothing_has_is_refused_with_the_nearest_one(spec: str, message: str) -> None:
    with pytest.raises(InvalidPipelineError) as refused:
        parse_pipeline(_text(spec))
    (problem,) = refused.value.problems
    assert message in problem.message
    assert problem.path.startswith("pipeline.stages.0.stage.spec.execution.steps.0.step.spec.")
    assert problem.line


def test_so_is_one_in_a_condition() -> None:
    with pytest.raises(InvalidPipelineError, match="Did you mean <\\+env.type>"):
        parse_pipeline(_text("{url: https://a/}", when="    when: {condition: <+env.typ> == 'x'}\n"))
    parse_pipeline(_text("{url: https://a/}", when="    when: {condition: <+env.type> == '<+no.such>'}\n"))


@pytest.mark.parametrize(
    "spec",
    [
        "{url: 'https://<+serviceVariables.any>/<+env.variables.any>/<+variables.any>/<+artifact.tag>'}",
        "{url: https://a/, requestBody: <+pipeline.variables.token> <+pipeline.number>}",
        "{url: https://a/, assertion: <+json.a.b> == 1 && <+httpResponseCode> == 200}",
        '{url: https://a/, headers: [{key: a, value: <+secrets.getValue("account.token")>}]}',
    ],
)
def test_what_only_a_run_can_tell_is_taken(spec: str) -> None:
    parse_pipeline(_text(spec))


def test_a_manifest_of_a_step_may_name_what_the_step_learns() -> None:
    manifest = "{type: Inline, spec: {content: 'a: <+targetGroupArn> # <+no.such>'}}"
    parse_pipeline(
        _text(f"{{taskDefinition: {manifest}, runTaskRequestDefinition: {manifest}}}", "EcsRunTask")
    )
