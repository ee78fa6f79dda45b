"""Masks: a secret is hidden in every form in which programs print it, wherever it begins."""

import html
import json
import re
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guards import masks
from guards.masks import MASK_TEXT, MIN_SECRET_CHARACTERS, HidingMask, SecretMask
from tests.fixtures.time_limits import run_within_cpu
from tests.lanes import examples

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
    assert SecretMask([SECRET]).mask_text(f"before {form} after") == f"before {MASK_TEXT} after"


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "u", "us", "usr", "user:"])
@pytest.mark.parametrize("after", ["", "x", "xy", "xyz"])
def test_a_secret_is_hidden_in_base64_wherever_it_begins(encode: object, before: str, after: str):
    printed = encode(f"{before}{SECRET}{after}".encode()).decode()  # type: ignore[operator]
    masked = SecretMask([SECRET]).mask_text(f"Authorization: Basic {printed}")
    assert MASK_TEXT in masked
    remainders = masked.removeprefix("Authorization: Basic ").split(MASK_TEXT)
    assert all(part in printed for part in remainders)
    # At most what a neighbour has a part in stays, one letter at each side.
    assert sum(map(len, remainders)) <= len(encode(before.encode())) + len(encode(after.encode())) + 4  # type: ignore[operator]


def test_each_line_of_a_secret_of_many_lines_is_hidden_by_itself():
    mask = SecretMask([PEM])
    for line in PEM.splitlines():
        assert mask.mask_lines([f"> {line}"]) == [f"> {MASK_TEXT}"]


def test_a_secret_that_runs_over_short_lines_is_hidden_and_no_line_is_lost():
    mask = SecretMask(["ab\ncd\nef"])
    assert mask.mask_lines(["x ab", "cd", "ef y"]) == [f"x {MASK_TEXT}", "", " y"]


def test_a_secret_inside_a_longer_one_leaves_no_rest():
    assert SecretMask(["secret", "secret-and-more"]).mask_text("a secret-and-more b") == f"a {MASK_TEXT} b"


def test_what_is_too_short_to_be_a_secret_is_left_alone():
    assert SecretMask(["x" * (MIN_SECRET_CHARACTERS - 1), ""]).mask_text("xxxxx") == "xxxxx"


SECRETS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=6, max_size=60
).filter(lambda text: len(text.strip()) >= 6)
AROUND = st.text(max_size=20)
PRINTED: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "JSON with other escapes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON for pages": lambda text: json.dumps(text)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e"),
    "URL": lambda text: quote(text, safe=""),
    "URL of a path": quote,
    "form": quote_plus,
    "URL in a URL": lambda text: quote(quote(text, safe=""), safe=""),
    "HTML": html.escape,
    "Python": lambda text: repr(text)[1:-1],
    "Python bytes": lambda text: repr(text.encode())[2:-1],
    "shell": lambda text: text.replace("'", "'\\''"),
    "hexadecimal": lambda text: text.encode().hex(),
    "base64": lambda text: b64encode(text.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("form", PRINTED)
@settings(max_examples=examples(60))
@given(SECRETS, AROUND, AROUND)
# Some writers escape one of these signs and not the other.
@example("0000<&", "", "")
def test_no_secret_comes_through(form: str, secret: str, before: str, after: str):
    printed = PRINTED[form](secret)
    remainder = SecretMask([secret]).mask_text(f"{before}{printed}{after}").replace(MASK_TEXT, "\0")
    # Of base64 the last letter belongs to a neighbour too.
    assert printed[: -1 if form == "base64" else None] not in remainder


@pytest.mark.parametrize("form", ["as it is", "base64", "hexadecimal", "URL"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n    ", "\\n", "\\r\\n"])
@settings(max_examples=examples(30))
@given(st.from_regex(r"[!-~]{12,120}", fullmatch=True), st.integers(4, 76), st.binary(max_size=5))
# A secret that holds what looks like an escaped end of line.
@example("00\\n00000000", 4, b"")
def test_no_secret_comes_through_that_is_wrapped(form: str, end: str, secret: str, width: int, before: bytes):
    text = before.decode("latin-1") + secret if form == "base64" else secret
    printed = PRINTED[form](text)
    wrapped = end.join(printed[at : at + width] for at in range(0, len(printed), width))
    masked = SecretMask([secret]).mask_text(f"[{wrapped}]")
    assert masked.count("\n") == wrapped.count("\n")
    remainder = masked.replace(MASK_TEXT, "").replace("\\r", "").replace("\\n", "")
    # What remains are the letters of what stands before it, and one at each side.
    assert len("".join(remainder.split())) <= 2 + (len(b64encode(before * 2)) + 2 if form == "base64" else 0)


def test_the_lines_of_wrapped_base64_are_hidden_one_by_one():
    """A program may print them so slowly that no two are seen together."""
    secret = "a long secret, as a key or a certificate is: " * 6
    lines = encodebytes(f"user:{secret}:more".encode()).decode().splitlines()
    mask = SecretMask([secret])
    masked_lines = [mask.mask_lines([f"2026-11-21 12:00:00 {line}"])[0] for line in lines]
    assert [line for line in masked_lines if MASK_TEXT not in line] == [masked_lines[0], masked_lines[-1]]


def test_letters_that_are_no_secret_stay():
    text = "\n".join(["sha256:" + "ab" * 32, "build " + "x" * 30, "", "C:\\new\\notes", "  indented"])
    assert SecretMask([SECRET, PEM]).mask_text(text) == text


def test_many_secrets_do_not_slow_a_log_down():
    """200 secrets, and 5,000 lines with identifiers: well below what a second prints."""
    mask = SecretMask([f"secret-{number}-{'k' * 30}" for number in range(200)])
    lines = [f"request {number:032x} took 12 ms" for number in range(5000)]
    assert run_within_cpu(2, lambda: mask.mask_lines(lines)) == lines


def test_many_blanks_do_not_slow_a_log_down():
    """A program that fills its lines up with blanks, beside an end of line that is written as two letters."""
    text = "a \\n b" + " " * 60_000 + "c"
    assert run_within_cpu(1, lambda: SecretMask([SECRET]).mask_text(text)) == text


@given(st.text(alphabet=" \t\r\n\\nab", max_size=40))
def test_a_break_is_found_whatever_stands_before_it(text: str):
    plain = re.compile(r"[ \t]*(?:\r?\n|(?:\\r)?\\n)[ \t]*")
    assert masks._LINE_BREAK.sub("|", text) == plain.sub("|", text)


def test_a_mask_that_lacks_a_value_hides_everything_and_says_why() -> None:
    mask = HidingMask("Vault is sealed")
    assert mask.mask_text("first\n\nthird") == f"{mask.reason}\n\n{mask.reason}"
    assert mask.mask_lines(["a line", ""]) == [mask.reason, ""]
    assert "Vault is sealed" in mask.reason
    document = {"key": ["text", {"inner": "text"}, 5], "other": None}
    assert "text" not in json.dumps(mask.mask_json(document)).replace(mask.reason, "")
    assert "key" not in json.dumps(mask.mask_json(document)).replace(mask.reason, "")
    assert mask.mask_json([5, None, {}]) == [5, None, {}]
