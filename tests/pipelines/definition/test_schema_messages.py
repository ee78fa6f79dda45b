"""What a mistake in a pipeline is called: what is wrong, and what to write instead."""

import pytest

from pipelines.definition.parser import InvalidPipelineError, parse_pipeline
from tests.api.sample_project import PIPELINE


@pytest.mark.parametrize(
    ("old", "new", "said"),
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
    ],
)
def test_a_mistake_is_named_with_what_is_right(old: str, new: str, said: str):
    assert old in PIPELINE
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(PIPELINE.replace(old, new, 1))
    assert said in [problem.message[: len(said)] for problem in bad.value.problems]


def test_a_key_that_does_not_belong_is_placed_where_it_stands():
    text = PIPELINE.replace("serviceRef: myapp", "serviceref: myapp", 1)
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(text)
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "serviceref" in one)
    assert line in [problem.line for problem in bad.value.problems]
