"""Parsers that refuse what would hurt further in: huge, deep, or holding NUL and lone surrogates."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, BinaryIO, NoReturn

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from web.problems import TooLarge

MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 64
MOST_DIGITS = 20
LARGEST_INTEGER = 2**63 - 1
STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
BRACKET = re.compile(r"[\[\]{}]")


class GuardedJSONParser(BaseParser):
    """JSON objects, strictly: no NaN, no duplicate keys, no number that a database cannot hold."""

    media_type = "application/json"

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        text = read_text(stream)
        if not text.strip():
            return {}
        return parse_object(text)


class GuardedYAMLParser(BaseParser):
    """A YAML body, kept as text: it arrives as {"yaml": "..."} like one that was wrapped in JSON."""

    media_type = "application/yaml"

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        text = read_text(stream)
        if "\0" in text:
            raise ParseError("The text holds a NUL character.")
        return {"yaml": text}


class OldYAMLParser(GuardedYAMLParser):
    """The same under the name that was in use before RFC 9512."""

    media_type = "application/x-yaml"


def read_text(stream: BinaryIO) -> str:
    """Read at most `MAX_BYTES` of UTF-8 from `stream`."""
    body = stream.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise TooLarge(f"A body may have {MAX_BYTES // 1024} KiB at most.")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ParseError("The body is not UTF-8.") from exc


def parse_object(text: str) -> dict[str, Any]:
    """Parse one JSON object. Raises `ParseError` naming what is wrong."""
    _refuse_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
            parse_int=_integer,
            parse_float=_float,
        )
    except ValueError as exc:
        raise ParseError(f"This is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise ParseError("The body must be a JSON object.")
    refuse_bad_text(value)
    return value


def refuse_bad_text(value: object) -> None:
    """Refuse NUL (PostgreSQL cannot store it) and lone surrogates (nothing can encode them), at any depth."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if "\0" in item:
                raise ParseError("A text holds a NUL character.")
            if any("\ud800" <= character <= "\udfff" for character in item):
                raise ParseError("A text holds half a surrogate pair.")
        elif isinstance(item, Mapping):
            pending.extend(item.keys())
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _refuse_depth(text: str) -> None:
    # Counted before parsing: the parser itself recurses and would exhaust the stack.
    depth = 0
    for bracket in BRACKET.findall(STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise ParseError(f"The JSON is nested deeper than {MAX_DEPTH} levels.")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is given twice")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS or abs(int(digits)) > LARGEST_INTEGER:
        raise ValueError("a number is too large")
    return int(digits)


def _float(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError("a number is too large")
    return number
