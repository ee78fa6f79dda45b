"""Texts and names: what no database holds, and what reads as something else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.text import (
    NAME_PATTERN,
    find_control_problem,
    find_name_problem,
    find_size_problem,
    find_text_problem,
)


@pytest.mark.parametrize("text", ["a\0", "\ud800", "é\udfff", "line\n\0"])
def test_what_cannot_be_stored_is_refused(text: str) -> None:
    assert find_text_problem(text)
    assert find_control_problem(text)


def test_the_place_is_named() -> None:
    fault = find_text_problem("first\nsec\0ond")
    assert fault is not None
    assert fault.display_message == "Line 2, column 4: a NUL character is not allowed; remove it."


@pytest.mark.parametrize("text", ["a\x1b[31m", "\x7f", "a\x85", "\x01"])
def test_control_characters_are_refused_where_they_have_no_meaning(text: str) -> None:
    assert find_text_problem(text) is None
    assert find_control_problem(text)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "  ",
        "a\nb",
        "a\u2028b",
        "evil\u202etxt",
        "a\u2066b",
        "a\u200bb",
        "\ufeffa",
        "\x1b[1m",
        "\u200e",
        "a" * 129,
    ],
)
def test_a_name_that_misleads_is_refused(name: str) -> None:
    assert find_name_problem(name, 128)


def test_the_place_of_a_misleading_character_in_a_name_is_named() -> None:
    fault = find_name_problem("evil\u202etxt", 128)
    assert fault is not None
    assert fault.display_message == (
        "Character 5 of the name is U+202E, which changes the text direction; remove it."
    )


@pytest.mark.parametrize("name", ["a", "Größe", "発送", "👩‍🚀 crew", "می‌خواهم", "a" * 128, '"><img src=x>'])
def test_a_name_in_any_script_is_taken(name: str) -> None:
    assert find_name_problem(name, 128) is None


@given(st.text(max_size=60), st.integers(0, 60))
def test_the_size_is_that_of_the_utf_8(text: str, most: int) -> None:
    if find_text_problem(text) is None:
        assert (find_size_problem(text, most) is not None) == (len(text.encode()) > most)


@given(st.text(max_size=40))
def test_a_good_name_is_one_line_that_can_be_stored(name: str) -> None:
    if find_name_problem(name, 40) is None:
        assert name.encode()
        assert len(name.splitlines()) == 1 or "\x85" not in name
        assert not set(name) & set("\0\n\r\u202e\u2028")


def test_the_pattern_of_a_name_says_what_is_taken() -> None:
    pattern = re.compile(NAME_PATTERN)
    # Half of a surrogate pair is in no JSON.
    codes = [*range(0xD800), *range(0xE000, 0x10000)]
    accepted_codes = {code for code in codes if pattern.search(f"a{chr(code)}b")}
    assert accepted_codes == {code for code in codes if find_name_problem(f"a{chr(code)}b", 3) is None}
    assert not pattern.search(" \t")
