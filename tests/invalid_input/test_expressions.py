"""Expressions of strangers: a value or a refusal, soon, and never a look at anything but the known values."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guards.limits import EXPRESSION_CHARACTERS, EXPRESSION_RESULT_CHARACTERS
from pipelines.editor.variable_rows import VariableRows
from steps.actions.terraform import normalize_variables
from steps.expressions import BadExpressionError, resolve_expressions
from steps.kinds.registry import get_step_kind
from tests.fixtures.time_limits import run_within_cpu
from tests.lanes import examples

KNOWN: dict[str, Any] = {
    "infra": {"cluster": "demo", "region": "us-east-1", "count": 3, "is_on": True},
    "serviceVariables": {"a": "<+infra.cluster>", "long": "x" * 4096, "list": [1, 2], "none": None},
    "$odd": {"b-c": "odd"},
}
PIECES = [
    "<+",
    ">",
    "<",
    "+",
    ".",
    "infra",
    "cluster",
    "serviceVariables",
    "a",
    "$odd",
    "b-c",
    "long",
    "list",
]
HOSTILE = ["__class__", "()", "[0]", "{", "}", "{{7*7}}", "\n", "\0", "\ud800", "é", " ", "\u202e", "%s"]
TEXTS = st.lists(st.sampled_from(PIECES + HOSTILE) | st.text(max_size=3), max_size=40).map("".join)
DOCUMENTS = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(1000))
@given(DOCUMENTS)
@example("<+infra.__class__>")
@example("<+serviceVariables.a.upper()>")
@example("<+<+infra.cluster>>")
def test_any_text_is_filled_in_or_refused(document: Any) -> None:
    try:
        filled = resolve_expressions(document, KNOWN)
    except BadExpressionError:
        return
    assert type(filled) is type(document) or isinstance(document, str)


@settings(max_examples=examples(300))
@given(st.text(st.characters(exclude_characters="<>+"), max_size=20), st.text(max_size=30))
def test_what_comes_out_of_a_value_is_text_and_not_read_again(around: str, value: str) -> None:
    values = {"a": {"b": f"<+{value}"}, "c": "secret"}
    assert resolve_expressions(f"{around}-<+a.b>", values) == f"{around}-<+{value}"


@pytest.mark.parametrize(
    "text",
    [
        "<+" * 2048,
        "<+a>" * 1000,
        "<+" + "a." * 2000 + "a>",
        "<+" + "a" * 4000 + ">",
        "<+" + " " * 4000 + ">",
        "x" * EXPRESSION_CHARACTERS + "<+a>",
    ],
    ids=lambda text: f"{text[:6]}… {len(text)}",
)
def test_a_long_one_is_refused_at_once(text: str) -> None:
    many = {f"variable_{number}": {"value": "x"} for number in range(400)}

    def get_refusal() -> BadExpressionError:
        with pytest.raises(BadExpressionError) as refused:
            resolve_expressions({"spec": [text]}, many)
        return refused.value

    bad = run_within_cpu(0.05, get_refusal)
    assert bad.where == ("spec", 0)
    assert len(bad.message) < 400


def test_values_do_not_multiply_without_end() -> None:
    bomb = ["<+serviceVariables.long>" * 100 + "!"] * 20
    with pytest.raises(BadExpressionError, match="1,048,576 characters at most") as refused:
        resolve_expressions(bomb, KNOWN)
    assert refused.value.where == (2,)
    fits = [f"<+serviceVariables.long>{number}" for number in range(EXPRESSION_RESULT_CHARACTERS // 4096)]
    assert len(resolve_expressions(fits, KNOWN)) == len(fits)


def test_the_column_of_one_without_an_end_is_named() -> None:
    with pytest.raises(BadExpressionError, match="column 16"):
        resolve_expressions("<+infra.count> <+infra.cluster", KNOWN)


@pytest.mark.parametrize(
    ("number", "text"), [(0.00001, "0.00001"), (1e16, "10000000000000000"), (1.5, "1.5")]
)
def test_a_number_stands_in_a_text_without_an_exponent(number: float, text: str) -> None:
    assert resolve_expressions("rate: <+a>", {"a": number}) == f"rate: {text}"
    spec = {"source": {"type": "Inline", "spec": {"script": "env"}}}
    variables = [{"name": "RATE", "value": number}]
    script = get_step_kind("ShellScript").parse_spec({**spec, "environmentVariables": variables})
    assert script.variables == [["RATE", "String", text]]
    assert normalize_variables(variables, "String") == [["RATE", "String", text]]


def test_the_cells_of_a_small_number_can_be_saved_again() -> None:
    cells = VariableRows().render_cells(("rate", {"type": "Number", "value": 0.00001}))
    assert cells is not None
    assert cells["value"] == "0.00001"
    assert VariableRows().parse_cells(cells) == ("rate", {"type": "Number", "value": 0.00001})
