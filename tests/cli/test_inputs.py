"""Inputs of a run have the types of the pipeline's variables."""

import pytest

from cli.commands.run import parse_inputs
from cli.errors import CliError

PIPELINE = """
pipeline:
  identifier: shop
  variables:
    count: {type: Number}
    dry: {type: Boolean}
    version: {type: String}
    size: {allowedValues: [1, 2, large]}
    plain: <+input>
"""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("count=3", 3),
        ("count=2.5", 2.5),
        ("count=three", "three"),
        ("count=nan", "nan"),
        ("count=1e999", "1e999"),
        (f"count={'9' * 400}", int("9" * 400)),
        ("dry=true", True),
        ("dry=False", False),
        ("version=1", "1"),
        ("size=2", 2),
        ("size=large", "large"),
        ("plain=a=b", "a=b"),
        ("unknown=1", "1"),
    ],
)
def test_a_value_has_the_type_of_its_variable(text: str, value: object) -> None:
    [parsed] = parse_inputs([text], PIPELINE).values()

    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize("pipeline", ["", "pipeline: 1", "{", "pipeline: {variables: [a]}"])
def test_an_unreadable_pipeline_leaves_texts(pipeline: str) -> None:
    assert parse_inputs(["a=1"], pipeline) == {"a": "1"}


@pytest.mark.parametrize("text", ["name", "=value"])
def test_an_input_needs_a_name_and_a_value(text: str) -> None:
    with pytest.raises(CliError, match="has no value"):
        parse_inputs([text], PIPELINE)
