"""What a mistake in a pipeline is called: what is wrong, and what to write instead."""

import pytest

from pipelines.definition.parser import InvalidPipelineError, parse_pipeline
from tests.api.sample_project import PIPELINE


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("type: Deployment", "type: Deploymen", "must be Deployment, not Deploymen"),
        (
            "serviceRef: myapp",
            "serviceref: myapp",
            "unknown key serviceref; did you mean serviceRef?",
        ),
        ("serviceRef: myapp", "serviceRef: [a]", "must be a text, not a list"),
        ("serviceRef: myapp", "serviceRef: my-app", "my-app is not an identifier; use letters"),
        ("serviceRef: myapp", "serviceRef:", "must be a text, not nothing"),
        ("name: Canary4711 rolling", "name: ''", "must not be empty"),
        ("  identifier: rolling\n", "", "identifier is missing"),
        ("serviceRef: myapp", 'serviceRef: "myapp\\n"', "myapp\n is not an identifier"),
    ],
)
def test_a_mistake_is_named_with_what_is_right(old: str, new: str, message: str):
    assert old in PIPELINE
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(PIPELINE.replace(old, new, 1))
    assert message in [problem.message[: len(message)] for problem in bad.value.problems]


@pytest.mark.parametrize("duration", ["99999d", "1000d", "10000h", '"30m\\n"'])
def test_a_duration_has_an_upper_bound_and_no_line_end(duration: str):
    steps = (
        f"execution: {{steps: [{{step: {{identifier: go, type: EcsRollingDeploy, timeout: {duration}}}}}]}}"
    )
    with pytest.raises(InvalidPipelineError, match="is not a duration; .* at most 9999h or 999d"):
        parse_pipeline(PIPELINE.replace("strategy: Rolling", steps))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ("{a: x, a.b: y}", "a.b is not a name of a variable; use letters"),
        ("{1: x, 1.5: y}", "1 is not a name of a variable"),
    ],
)
def test_a_variable_has_a_name_that_an_expression_can_have(variables: str, message: str):
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(PIPELINE.replace("  stages:", f"  variables: {variables}\n  stages:", 1))
    problem = bad.value.problems[0]
    assert message in problem.message
    assert problem.path.startswith("pipeline.variables.")
    assert problem.line == 4


def test_the_name_of_a_variable_may_have_letters_of_any_language():
    text = PIPELINE.replace(
        "strategy: Rolling",
        "execution: {steps: [{step: {identifier: go, type: Http, spec: {url: 'https://a/<+pipeline.variables.größe>'}}}]}",
    )
    (variable,) = parse_pipeline(text.replace("  stages:", "  variables: {größe: x}\n  stages:", 1)).variables
    assert variable.name == "größe"


def test_a_key_that_does_not_belong_is_placed_where_it_stands():
    text = PIPELINE.replace("serviceRef: myapp", "serviceref: myapp", 1)
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(text)
    line = next(number for number, content in enumerate(text.splitlines(), 1) if "serviceref" in content)
    assert line in [problem.line for problem in bad.value.problems]


STEPS = """\
          execution:
            steps:
              - step:
                  identifier: deploy
                  type: EcsRollingDeploy
"""
WITH_STEPS = PIPELINE.replace("          strategy: Rolling\n", STEPS)


def list_places(text: str) -> dict[str, str]:
    """Return the rest of the line at each problem of a pipeline, by the last part of its path."""
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(text)
    lines = text.splitlines()
    return {
        problem.path.rpartition(".")[2]: lines[(problem.line or 1) - 1][(problem.column or 1) - 1 :]
        for problem in bad.value.problems
    }


def test_all_faults_of_shape_and_steps_are_named_at_once_each_at_its_token() -> None:
    text = WITH_STEPS.replace("deploymentType: ECS", "deploymentType: EKS", 1)
    text = text.replace("serviceRef: myapp", "serviceref: myapp", 1)
    text = text.replace("type: EcsRollingDeploy", "type: EcsRolingDeploy", 1)
    places = list_places(text)
    assert places["deploymentType"] == "EKS"
    assert places["serviceref"] == "serviceref: myapp"
    assert places["type"].startswith("EcsRolingDeploy")


def test_an_unknown_step_type_gets_the_nearest_type_as_a_suggestion() -> None:
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(WITH_STEPS.replace("type: EcsRollingDeploy", "type: EcsRolingDeploy", 1))
    (problem,) = bad.value.problems
    assert problem.message == "there is no step of type EcsRolingDeploy; did you mean EcsRollingDeploy?"
    assert problem.path.endswith(".step.type")


def test_a_step_type_like_no_other_gets_the_list_of_types() -> None:
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(WITH_STEPS.replace("type: EcsRollingDeploy", "type: xyz", 1))
    assert "use one of" in bad.value.problems[0].message


@pytest.mark.parametrize(
    "text", ["pipeline: {stages: [{step: {type: 3}}]}", "pipeline: {step: {type: x, spec: []}}"]
)
def test_odd_shapes_are_refused_and_break_nothing(text: str) -> None:
    with pytest.raises(InvalidPipelineError):
        parse_pipeline(text)


def test_a_tag_with_a_control_character_is_refused_unless_it_has_run() -> None:
    text = PIPELINE.replace(
        "        type: Deployment\n", '        type: Deployment\n        delegateSelectors: ["4\\x17"]\n', 1
    )
    with pytest.raises(InvalidPipelineError):
        parse_pipeline(text)
    assert parse_pipeline(text, has_run=True).stages
