"""What the parsers take and what they refuse."""

import contextlib
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.limits import BODY_BYTES, JSON_DEPTH
from web.api.parsers import GuardedJSONParser, GuardedYAMLParser
from web.http.problems import BadInput, TooLarge


def parse(body: bytes) -> dict[str, object]:
    return GuardedJSONParser().parse(io.BytesIO(body))


def test_an_object_is_read():
    assert parse('{"a": [1, 2.5, true, null, "ü{[\\"]}"]}'.encode()) == {"a": [1, 2.5, True, None, 'ü{["]}']}
    assert parse(b"") == {}
    assert parse(b"  \n") == {}
    assert parse(b'\xef\xbb\xbf{"a": -9223372036854775807}') == {"a": -(2**63) + 1}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"1",
        b'"text"',
        b"null",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e400}',
        b'{"a": 9223372036854775808}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\\u0000"}',
        b'{"\\u0000": 1}',
        b'{"a": ["\\ud800"]}',
        b'{"a": {"b": "\\udfff"}}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": ' + b"[" * (JSON_DEPTH + 1) + b"]" * (JSON_DEPTH + 1) + b"}",
        b'{"a":' * 20_000,
        b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:30]),
)
def test_what_would_hurt_further_in_is_refused(body: bytes):
    with pytest.raises(BadInput):
        parse(body)


def test_brackets_inside_texts_are_no_depth():
    body = json.dumps({"a": "[" * 1000 + '\\"' + "{" * 1000}).encode()
    assert parse(body)["a"] == "[" * 1000 + '\\"' + "{" * 1000


def test_a_large_body_is_refused_without_being_read_whole():
    class Endless(io.RawIOBase):
        requested_size = 0

        def read(self, size: int = -1) -> bytes:
            self.requested_size = size
            return b" " * size

    stream = Endless()
    with pytest.raises(TooLarge):
        GuardedJSONParser().parse(stream)
    assert stream.requested_size == BODY_BYTES + 1


def test_yaml_is_kept_as_text():
    assert GuardedYAMLParser().parse(io.BytesIO(b"a: 1\n")) == {"yaml": "a: 1\n"}
    for body in (b"a: \x00", b"a: \xff"):
        with pytest.raises(BadInput):
            GuardedYAMLParser().parse(io.BytesIO(body))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text("abc", max_size=3), values, max_size=4))
def test_every_good_object_is_read_as_it_was_written(value: dict[str, object]):
    assert parse(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes):
    with contextlib.suppress(BadInput):
        assert isinstance(parse(body), dict)
