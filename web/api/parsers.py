"""Parsers of request bodies: strict JSON objects, and YAML as text."""

from collections.abc import Mapping
from typing import Any, BinaryIO

from rest_framework.parsers import BaseParser

from guards.input_problems import InputProblem, InputRejected
from guards.json_parser import parse_json
from guards.limits import BODY_BYTES
from guards.text import find_text_problem
from web.http.problems import BadInput, TooLarge


class GuardedJSONParser(BaseParser):
    """Strict JSON objects: no NaN, no duplicate keys, no numbers outside the database's range."""

    media_type = "application/json"

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        text = read_text(stream)
        if not text.strip():
            return {}
        return parse_object(text)


class GuardedYAMLParser(BaseParser):
    """YAML body, passed on as text: {"yaml": "..."}, the same as YAML wrapped in JSON."""

    media_type = "application/yaml"

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        text = read_text(stream)
        if fault := find_text_problem(text):
            raise build_body_error(fault)
        return {"yaml": text}


class LegacyYAMLParser(GuardedYAMLParser):
    """YAML body under the media type in use before RFC 9512."""

    media_type = "application/x-yaml"


def read_text(stream: BinaryIO) -> str:
    """Read at most `BODY_BYTES` of UTF-8 from `stream`. Raises `TooLarge`, `BadInput`."""
    body = stream.read(BODY_BYTES + 1)
    if len(body) > BODY_BYTES:
        raise TooLarge(f"The request body must be at most {BODY_BYTES}.")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise BadInput(f"The body is not valid UTF-8 at byte {exc.start + 1}.") from exc


def parse_object(text: str) -> dict[str, Any]:
    """Return one JSON object. Raises `BadInput` with the position of the problem."""
    try:
        value = parse_json(text)
    except InputRejected as error:
        raise build_body_error(error.problem) from error
    if not isinstance(value, dict):
        raise BadInput("The body must be a JSON object.")
    return value


def build_body_error(fault: InputProblem) -> BadInput:
    """Return the error for an invalid body."""
    return BadInput(fault.display_message, errors=[fault.to_json()])
