"""Patterns that people write: what they match, and that none of them keeps a list of texts busy for long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from guards.patterns import describe_pattern_problem, filter_matches, is_full_match, is_glob_match
from tests.fixtures.time_limits import run_within_cpu

TEXTS = some.text(alphabet="ab.*", max_size=8)


@given(TEXTS, TEXTS)
def test_a_star_stands_for_anything_and_nothing_else_is_special(pattern: str, text: str) -> None:
    parts = (re.escape(part) for part in pattern.split("*"))
    assert is_glob_match(pattern, text) == (re.fullmatch(".*".join(parts), text) is not None)


@pytest.mark.parametrize("pattern", ["a?" * 34 + "a" * 34, "(a+)+b", "(a|aa)*b", ".*.*.*.*.*b"])
def test_no_expression_is_slow_on_any_text(pattern: str) -> None:
    assert describe_pattern_problem(pattern) == ""
    texts = ["a" * 34, *["a" * 128] * 1000]
    matches = run_within_cpu(1, lambda: list(filter_matches(pattern, texts)))
    assert matches == ([] if pattern.endswith("b") else ["a" * 34])


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (r"(a)\1", "refers back"),
        ("a(?=b)", "looks around"),
        ("(", "is no regular expression: missing )"),
        ("a{5000}", "repeats more than 1,000 times"),
        ("a" * 257, "may have 256 characters at most"),
    ],
)
def test_what_is_not_supported_is_told_in_words(pattern: str, fault: str) -> None:
    assert fault in describe_pattern_problem(pattern)


def test_all_of_a_text_has_to_fit() -> None:
    assert is_full_match(r"v\d+(?:\.\d+)?", "v1.27")
    assert not is_full_match(r"v\d+", "v1.27")
    assert not is_full_match("a*", "a" * 129)
