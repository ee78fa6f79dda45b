"""Parameters of AWS calls: nulls are removed, and values of expressions fit their place."""

from typing import Any

import pytest

from aws.validation.parameters import convert_parameter, remove_nulls


def test_nulls_go_and_empty_values_stay() -> None:
    assert remove_nulls({"a": None, "b": [], "c": {"d": None, "e": ""}, "f": [None]}) == {
        "b": [],
        "c": {"e": ""},
        "f": [None],
    }


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("cpu",), 256, "256"),
        (("cpu",), 0.00001, "0.00001"),
        (("containerDefinitions", 0, "memory"), "512", 512),
        (("containerDefinitions", 0, "memory"), "much", "much"),
        (("containerDefinitions", 0, "essential"), "True", True),
        (("containerDefinitions", 0, "name"), True, "true"),
        (("nowhere",), 1, 1),
    ],
)
def test_the_value_of_an_expression_is_fitted_to_its_place(path: Any, value: Any, expected: Any) -> None:
    converted = convert_parameter("ecs", "RegisterTaskDefinition", path, value)
    assert (type(converted), converted) == (type(expected), expected)
