"""JSON of strangers: read as the standard library reads it, or refused with the place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards import limits
from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from tests.fixtures.time_limits import run_within_cpu


def parse_refused(text: str) -> InputRejected:
    with pytest.raises(InputRejected) as refused:
        parse_json(text)
    return refused.value


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ('{"a": 1,\n "a": 2}', 2, 2, 'the key "a" is already given'),
        ('{"a": NaN}', 1, 7, "NaN is not a JSON number"),
        ('{"a": -Infinity}', 1, 7, "'-'"),
        ('{"a": 1e400}', 1, 7, "too large"),
        ('{"a": 9223372036854775808}', 1, 7, "too large"),
        ('{"a": "\\u0000"}', 1, 7, "NUL"),
        ('{"a": "\\ud800"}', 1, 7, "surrogate"),
        ('{"\\ud800": 1}', 1, 2, "surrogate"),
        ("{'a': 1}", 1, 2, "single quote"),
        ('{"a": "x\ny"}', 1, 7, "no end"),
        ('{"a": "\\x"}', 1, 7, "escape"),
        ('{"a": 012}', 1, 7, "'0'"),
        ('{"a": 1,}', 1, 9, "a key"),
        ('{"a" 1}', 1, 6, "a colon"),
        ("[1 2]", 1, 4, "a comma"),
        ("[1]]", 1, 4, "the end"),
        ("[1", 1, 3, "ends where"),
        ("", 1, 1, "ends where"),
        ("[nul]", 1, 2, "nul stands"),
        ("[,1]", 1, 2, ", stands"),
        ("[1}", 1, 3, "} stands"),
        ('\n\n{"a": [1, {"b": tru}]}', 3, 17, "tru stands"),
    ],
)
def test_a_refusal_names_the_place_and_the_reason(text: str, line: int, column: int, message: str) -> None:
    fault = parse_refused(text).problem
    assert (fault.line, fault.column) == (line, column)
    assert message in fault.display_message


def test_a_refusal_names_the_path_of_the_value() -> None:
    assert parse_refused('{"a": [1, {"b": [NaN]}]}').problem.path == ("a", 1, "b", 0)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" + "1," * 500_000,
        '"' + "\\u0041" * 100_000,
        '"' + "\\" * 1_000_000,
        "9" * 2_000_000,
        " " * 2_000_000,
        "[" + " " * 2_000_000 + "x",
        "{" + '"a":1,' * 300_000,
    ],
    ids=lambda text: f"{text[:6]}… {len(text)}",
)
def test_a_bomb_is_refused_before_it_costs_anything(text: str) -> None:
    run_within_cpu(0.5, lambda: parse_refused(text))


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('abé\n"\\🚢'), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN, st.booleans(), st.sampled_from([None, 2]))
def test_whatever_is_good_is_read_as_it_was_written(value: object, ascii_only: bool, indent: int) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only, indent=indent)) == value


PIECES = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"', "\\", "\\u", "d800", "1", "-", ".", "e", "true", " ", "\n", "\0", "é"]
)


@given(st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join))
def test_what_the_standard_library_refuses_is_refused(text: str) -> None:
    """And what is taken is what the standard library reads: no text means two things."""
    try:
        value = parse_json(text)
    except InputRejected:
        return
    assert value == json.loads(text)


@pytest.mark.parametrize(("depth", "is_good"), [(limits.JSON_DEPTH, True), (limits.JSON_DEPTH + 1, False)])
def test_the_depth_is_counted_exactly(depth: int, is_good: bool) -> None:
    text = "[" * depth + "]" * depth
    if is_good:
        parse_json(text)
    else:
        assert "deeper than 64" in str(parse_refused(text))
