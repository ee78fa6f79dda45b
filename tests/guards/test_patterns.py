"""Patterns that people write: what they match, and that none of them keeps a list of texts busy for long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from guards import patterns
from guards.patterns import PatternTooSlow, fitting, glob_fits

TEXTS = some.text(alphabet="ab.*", max_size=8)


@given(TEXTS, TEXTS)
def test_a_star_stands_for_anything_and_nothing_else_is_special(pattern: str, text: str) -> None:
    parts = (re.escape(part) for part in pattern.split("*"))
    assert glob_fits(pattern, text) == (re.fullmatch(".*".join(parts), text) is not None)


def test_a_list_that_keeps_an_expression_busy_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0)
    with pytest.raises(PatternTooSlow, match="repeat less"):
        list(fitting(".*.*.*b", ["a" * 128] * 3))
