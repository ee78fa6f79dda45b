"""What always holds of expressions, compared with a second, plain reading of the same rules."""

import json
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipelines.completion.items import iterate_leaves
from steps.expressions import (
    BadExpressionError,
    find_paths,
    get_path_value,
    is_path,
    list_paths,
    resolve_expressions,
)
from steps.variables import ScriptEnvironment
from tests.lanes import examples

NAMES = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$-]{0,6}", fullmatch=True)
# As what comes from people and from AWS: with brackets, so that a second reading would show.
STRINGS = st.text(max_size=12) | st.sampled_from(
    ["<+a>", "<+", ">", "<+a.b>x", "$(id)", "'; id; '", "<+secrets.x>"]
)
SCALARS = (
    STRINGS | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3)
KNOWN = st.recursive(
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=3),
    lambda inner: st.dictionaries(NAMES, VALUES | inner, min_size=1, max_size=3),
    max_leaves=6,
)
AROUND = st.text(st.characters(exclude_characters="<>+", exclude_categories=["Cs"]), max_size=8)


def _walk(path: str, values: Any) -> Any:
    for part in path.split("."):
        values = values[part]
    return values


def _spoken(value: Any) -> str:
    """A number is written with all of its digits: manifests and scripts may not know 1e-05."""
    if isinstance(value, bool):
        return {True: "true", False: "false"}[value]
    return format(Decimal(str(value)), "f") if isinstance(value, float) else str(value)


@st.composite
def _known_and_path(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    values = draw(KNOWN)
    return values, draw(st.sampled_from(sorted(list_paths(values))))


@settings(max_examples=examples(150))
@given(_known_and_path(), st.sampled_from(["", " ", "\t "]))
def test_a_lone_expression_is_its_value_with_its_type(known_and_path: tuple[dict[str, Any], str], space: str):
    values, path = known_and_path
    filled = resolve_expressions(f"<+{space}{path}{space}>", values)
    assert filled == _walk(path, values)
    assert type(filled) is type(_walk(path, values))


@settings(max_examples=examples(150))
@given(_known_and_path(), st.lists(AROUND, min_size=2, max_size=4))
def test_inside_a_text_each_is_put_in_once_and_what_came_in_stays(
    known_and_path: tuple[dict[str, Any], str], around: list[str]
):
    values, path = known_and_path
    assume(any(around))
    value = _walk(path, values)
    text = f"<+{path}>".join(around)
    if isinstance(value, str | int | float):
        assert resolve_expressions(text, values) == _spoken(value).join(around)
    else:
        with pytest.raises(BadExpressionError, match="cannot stand inside a text"):
            resolve_expressions(text, values)


@settings(max_examples=examples(100))
@given(_known_and_path(), st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=4))
def test_a_document_keeps_its_shape_and_nothing_that_was_given_changes(
    known_and_path: tuple[dict[str, Any], str], plain: Any
):
    values, path = known_and_path
    assume("<+" not in json.dumps(plain))
    document = {"plain": plain, "<+key>": [1, {"here": f"<+{path}>"}], "none": None}
    before = deepcopy((document, values))
    filled = resolve_expressions(document, values)
    assert filled == {"plain": plain, "<+key>": [1, {"here": _walk(path, values)}], "none": None}
    assert (document, values) == before


@settings(max_examples=examples(100))
@given(_known_and_path(), AROUND)
def test_what_is_left_for_later_is_filled_in_later_as_if_at_once(
    known_and_path: tuple[dict[str, Any], str], around: str
):
    values, path = known_and_path
    assume(isinstance(_walk(path, values), str | int | float))
    first = {**values, "now": {"it": "N"}}
    text = f"{around}<+now.it>{around}<+{path}>{around}"
    assume(path.partition(".")[0] != "now")
    partial = resolve_expressions(text, first, is_deferred=lambda name: name == path)
    assert partial == f"{around}N{around}<+{path}>{around}"
    assert resolve_expressions(partial, first) == resolve_expressions(text, first)


@settings(max_examples=examples(150))
@given(_known_and_path(), st.data())
def test_a_name_with_a_letter_too_few_leads_to_the_right_one(
    known_and_path: tuple[dict[str, Any], str], data: st.DataObject
):
    values, path = known_and_path
    values = {"surely_there": {"cluster_name": 1}, **values}
    wrong = f"surely_there.{data.draw(st.sampled_from(['cluster_nam', 'clustername', 'cluster_names']))}"
    with pytest.raises(BadExpressionError) as refused:
        resolve_expressions({"a": [f"<+{wrong}>"]}, {"surely_there": {"cluster_name": 1}, "x": values})
    assert refused.value.message == f"<+{wrong}> is unknown here. Did you mean <+surely_there.cluster_name>?"
    assert refused.value.where == ("a", 0)


@settings(max_examples=examples(150))
@given(KNOWN)
def test_every_path_that_is_listed_can_be_named_and_nothing_is_left_out(values: dict[str, Any]):
    values_by_path = dict(iterate_leaves(values, ""))
    assert all(is_path(path) for path in values_by_path)
    assert all(get_path_value(path, values) == value for path, value in values_by_path.items())
    assert set(values_by_path) == set(list_paths(values))
    document = [f"<+{path}>" for path in values_by_path]
    assert [path for _, path in find_paths(document)] == list(values_by_path)


@settings(max_examples=examples(100))
@given(st.dictionaries(NAMES, STRINGS, min_size=1, max_size=3), AROUND)
def test_no_value_becomes_a_part_of_a_script(values: dict[str, str], around: str):
    script = f"{around}\n" + "\n".join(f'echo "<+a.{name}>"' for name in values)
    environment = ScriptEnvironment(lambda path: get_path_value(path, {"a": values}))
    ready = environment.replace_expressions(script)
    assert "<+" not in ready
    references = [f'echo "${{SLIPWAY_VALUE_{number}}}"' for number in range(1, len(values) + 1)]
    assert ready == "\n".join([around, *references])
    assert list(environment.values.values()) == list(values.values())
