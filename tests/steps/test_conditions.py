"""Conditions of strangers: an answer or a refusal, soon, and nothing that was written is ever run."""

from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from guards.limits import CONDITION_CHARACTERS
from steps.conditions import BadConditionError, Condition, UnclearConditionError, parse_condition
from steps.expressions import find_paths
from tests.fixtures.time_limits import run_within_cpu
from tests.lanes import examples

KNOWN: dict[str, Any] = {
    "env": {"type": "Production", "name": "prod-eu"},
    "pipeline": {"variables": {"go": True, "said": "true", "count": 3, "text": "4", "none": None}},
}
PIECES = [
    "<+env.type>",
    "<+pipeline.variables.count>",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "!",
    "(",
    ")",
    "[",
    "]",
]
WORDS = [
    "in",
    "contains",
    ".startsWith",
    '"x"',
    "'Production'",
    "3",
    "-1.5",
    "true",
    "null",
    ",",
    "__import__",
    "<+",
]
TEXTS = st.lists(st.sampled_from(PIECES + WORDS) | st.text(max_size=3), max_size=25).map(" ".join)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('<+env.type> == "Production"', True),
        ('!(<+env.type> == "Production")', False),
        ("!!<+pipeline.variables.go>", True),
        ("<+pipeline.variables.said> && <+pipeline.variables.go>", True),
        ("<+pipeline.variables.said> == true", True),
        ("<+pipeline.variables.text> == 4 && <+pipeline.variables.text> > <+pipeline.variables.count>", True),
        ("<+pipeline.variables.count> >= 3 && <+pipeline.variables.count> <= 3", True),
        ("<+pipeline.variables.count> == true", False),
        ("<+pipeline.variables.none> == null", True),
        ('<+env.name> in ["prod-us", "prod-eu"]', True),
        ('<+env.name> in "prod-us, prod-eu"', True),
        ('<+env.name> startsWith "prod" && <+env.name>.endsWith("-eu")', True),
        ('<+env.name> contains "us"', False),
        ("true || <+nobody.knows> == 1", True),
        ("false || true && false", False),
        ("(false || true) && true", True),
        (r'"say \"hi\"" == ' + "'say \"hi\"'", True),
    ],
)
def test_a_condition_has_its_answer(text: str, answer: bool) -> None:
    assert parse_condition(text).holds(KNOWN) is answer


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "A value is missing here."),
        ("<+env.type> ==", 15, "A value is missing here."),
        ("<+env.type> == Production", 16, "write texts in quotes"),
        ("true false", 6, "join two with && or ||"),
        ("(true", 6, "')' is missing here."),
        ("<+env.type> = 'x'", 13, "cannot be read"),
        ("1 == 'open", 6, "cannot be read"),
        ("true & true", 6, "cannot be read"),
        ("__import__('os').system('id')", 1, "cannot be read"),
        ("<+env.type> == 1.2.3", 16, "cannot be read"),
        ("(" * 30 + "true" + ")" * 30, 22, "20 parentheses"),
        ("[" * 900, 22, "20 parentheses"),
        ("true " * 300, 1, "1,024 characters"),
    ],
)
def test_what_is_none_is_refused_with_its_column(text: str, column: int, message: str) -> None:
    with pytest.raises(BadConditionError) as refused:
        parse_condition(text)
    assert message in refused.value.message
    assert refused.value.column == column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<+env.typ> == "x"', "Did you mean <+env.type>?"),
        ("<+env.type>", "neither true nor false"),
        ("<+env.type> < 3", "is not a number, and < compares numbers"),
        ("<+pipeline.variables.none> contains 'x'", "is not a text"),
        ("1 in 2", "is not a list"),
        ("<+env.__class__> == 1", "is unknown here"),
    ],
)
def test_what_has_no_answer_says_why(text: str, message: str) -> None:
    with pytest.raises(UnclearConditionError, match=message.replace("+", r"\+").replace("?", r"\?")):
        parse_condition(text).holds(KNOWN)


@settings(max_examples=examples(800))
@given(TEXTS)
@example("<+env.type>.__class__ == 1")
def test_any_text_is_answered_or_refused_at_once(text: str) -> None:
    assert 1 <= run_within_cpu(0.5, lambda: _column(text)) <= CONDITION_CHARACTERS + 1


def _column(text: str) -> int:
    """Where the text is refused; 1 where it is answered."""
    try:
        assert parse_condition(text).holds(KNOWN) in (True, False)
    except (BadConditionError, UnclearConditionError) as refused:
        return getattr(refused, "column", 1)
    return 1


@settings(max_examples=examples(200))
@given(st.text(max_size=30), st.booleans())
def test_a_value_is_compared_and_never_read(value: str, other: bool) -> None:
    values = {"a": {"b": value}}
    assert parse_condition("<+a.b> == <+a.b>").holds(values)
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_condition(f'<+a.b> == "{quoted}"').holds(values)


# --- compared with a second, plain reading of the same rules -----------------------------------------

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_NUMBERS = st.integers(-999, 999)
_LEAVES = st.sampled_from(["true", "false"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@st.composite
def _tree(draw: st.DrawFn, depth: int = 3) -> tuple[str, bool]:
    """A condition in full parentheses, and what it comes to by the rules of Python."""
    kind = draw(
        st.sampled_from(["leaf", "order", "same", "not", "and", "or"] if depth else ["leaf", "order"])
    )
    if kind == "leaf":
        literal = draw(_LEAVES)
        return literal, literal == "true"
    if kind == "order":
        number, other_number = draw(_NUMBERS), draw(_NUMBERS)
        sign = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
        answers = {
            "<": number < other_number,
            "<=": number <= other_number,
            ">": number > other_number,
            ">=": number >= other_number,
        }
        return f"({number} {sign} {other_number})", {
            **answers,
            "==": number == other_number,
            "!=": number != other_number,
        }[sign]
    if kind == "same":
        first, second = draw(_TEXT), draw(_TEXT)
        return f"({_quoted(first)} == {_quoted(second)})", first == second
    operand, is_left = draw(_tree(depth=depth - 1))
    if kind == "not":
        return f"(!{operand})", not is_left
    right, is_right = draw(_tree(depth=depth - 1))
    both = is_left and is_right if kind == "and" else is_left or is_right
    return f"({operand} {'&&' if kind == 'and' else '||'} {right})", both


@settings(max_examples=examples(400))
@given(_tree())
def test_every_condition_comes_to_what_its_parts_come_to(tree: tuple[str, bool]) -> None:
    text, answer = tree
    assume(len(text) <= CONDITION_CHARACTERS)
    assert parse_condition(text).holds({}) is answer


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(_LEAVES, st.sampled_from(["&&", "||"])), min_size=1, max_size=8))
def test_and_binds_closer_than_or(parts: list[tuple[str, str]]) -> None:
    text = " ".join(f"{leaf} {sign}" for leaf, sign in parts) + " true"
    python = text.replace("&&", "and").replace("||", "or").replace("true", "True").replace("false", "False")
    groups = [all(word.strip() == "True" for word in part.split("and")) for part in python.split("or")]
    assert parse_condition(text).holds({}) is any(groups)


@settings(max_examples=examples(300))
@given(_TEXT, st.booleans(), _NUMBERS)
def test_a_text_is_a_number_or_a_truth_only_beside_one(text: str, truth: bool, number: int) -> None:
    values = {"v": {"text": text, "truth": truth, "number": number, "told": str(number)}}

    def holds(condition: str) -> bool:
        return parse_condition(condition).holds(values)

    assert holds("<+v.told> == <+v.number> && <+v.number> == <+v.told>")
    assert holds(f"<+v.truth> == {_quoted(str(truth).lower())}")
    assert not holds("<+v.truth> == <+v.number>")
    # Beside a text, a text is what it is: 1.0 is not 1.
    assert not holds(f"<+v.told> == {_quoted(f'{number}.0')}")
    assert holds(f"<+v.number> == {_quoted(f'{number}.0')}")
    for name in ("text", "truth", "number", "told"):
        for other in ("text", "truth", "number", "told"):
            same = holds(f"<+v.{name}> == <+v.{other}>")
            assert same is holds(f"<+v.{other}> == <+v.{name}>")
            assert same is not holds(f"<+v.{name}> != <+v.{other}>")
            assert same is holds(f"<+v.{name}> in [<+v.{other}>]")


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(PIECES + WORDS), max_size=12).map(" ".join))
def test_a_condition_says_what_it_names_and_is_the_same_with_other_spaces(text: str) -> None:
    try:
        condition = parse_condition(text)
    except BadConditionError:
        return
    assert set(condition.paths) == {path for _, path in find_paths(text)}
    wide = parse_condition(f"  {text.replace(' ', '   ')}\t") if len(text) < 300 else condition
    assert wide.paths == condition.paths
    assert _answer(wide) == _answer(condition)


def _answer(condition: Condition) -> bool | str:
    try:
        return condition.holds(KNOWN)
    except UnclearConditionError as unclear:
        return str(unclear)
