"""Masks: a secret is hidden in every form in which programs print it, wherever it begins."""

import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.masks import FEWEST_CHARACTERS, HIDDEN, Mask

SECRET = 'wJalr/XUtn+FEMI "K7" é~MDENG&bPx'
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
    ],
)
def test_a_secret_is_hidden_as_programs_write_it(form: str):
    assert Mask([SECRET]).text(f"before {form} after") == f"before {HIDDEN} after"


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "u", "us", "usr", "user:"])
@pytest.mark.parametrize("after", ["", "x", "xy", "xyz"])
def test_a_secret_is_hidden_in_base64_wherever_it_begins(encode: object, before: str, after: str):
    printed = encode(f"{before}{SECRET}{after}".encode()).decode()  # type: ignore[operator]
    masked = Mask([SECRET]).text(f"Authorization: Basic {printed}")
    assert HIDDEN in masked
    left = masked.removeprefix("Authorization: Basic ").split(HIDDEN)
    assert all(part in printed for part in left)
    # At most what a neighbour has a part in stays, one letter at each side.
    assert sum(map(len, left)) <= len(encode(before.encode())) + len(encode(after.encode())) + 4  # type: ignore[operator]


def test_each_line_of_a_secret_of_many_lines_is_hidden_by_itself():
    mask = Mask([PEM])
    for line in PEM.splitlines():
        assert mask.texts([f"> {line}"]) == [f"> {HIDDEN}"]


def test_a_secret_that_runs_over_short_lines_is_hidden_and_no_line_is_lost():
    mask = Mask(["ab\ncd\nef"])
    assert mask.texts(["x ab", "cd", "ef y"]) == [f"x {HIDDEN}", "", " y"]


def test_a_secret_inside_a_longer_one_leaves_no_rest():
    assert Mask(["secret", "secret-and-more"]).text("a secret-and-more b") == f"a {HIDDEN} b"


def test_what_is_too_short_to_be_a_secret_is_left_alone():
    assert Mask(["x" * (FEWEST_CHARACTERS - 1), ""]).text("xxxxx") == "xxxxx"


@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=6, max_size=40
    ).filter(lambda text: len(text.strip()) >= 6),
    st.text(max_size=20),
    st.text(max_size=20),
)
def test_no_secret_comes_through(secret: str, before: str, after: str):
    mask = Mask([secret])
    for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1]):
        assert form not in mask.text(before + form + after).replace(HIDDEN, "\0")
