"""Requests of agents: body, checked fields, replies, and the threads that handle them."""

import asyncio
import contextvars
import json
import re
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NoReturn, ParamSpec, TypeVar
from uuid import UUID

from django.db import close_old_connections, connection

from guards.input_problems import InputProblem, InputRejected
from guards.limits import AGENT_BYTES, AGENT_TAGS, JSON_DEPTH, MAX_INTEGER, NAME_CHARACTERS
from guards.text import find_name_problem
from web.database_guards import require_writable_database
from web.http.problems import BadInput, TooLarge

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def _reject_constant(name: str) -> NoReturn:
    raise InputRejected(InputProblem(f"{name} is not a JSON number", "send null"))


_decoder = json.JSONDecoder(parse_constant=_reject_constant)


def parse_json_object(text: str) -> dict[str, Any]:
    """Return one JSON object. Raises `BadInput`.

    Agents send much data, so this uses the C parser; texts are not validated yet.
    """
    try:
        value = _decoder.decode(text)
    except (ValueError, RecursionError) as problem:
        raise BadInput(f"The body is not JSON: {problem}.") from problem
    if not isinstance(value, dict):
        raise BadInput("The body must be a JSON object.")
    return value


def replace_unstorable(value: Any, depth: int = JSON_DEPTH) -> Any:
    """Return `value` without characters that a database cannot store. Raises `BadInput` for deep nesting."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if depth <= 0:
        raise BadInput(f"The body is nested deeper than {int(JSON_DEPTH)} levels.")
    if isinstance(value, list):
        return [replace_unstorable(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {replace_unstorable(key): replace_unstorable(item, depth - 1) for key, item in value.items()}
    if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
        return str(value)
    return value


def build_field_error(path: str, message: str) -> BadInput:
    """Return the refusal of one field."""
    return BadInput(f"{path} {message}.", errors=[{"path": path, "message": message}])


class RequestFields:
    """The fields of one JSON object that an agent sent."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body

    def get_text(self, name: str, most: int) -> str:
        """Return a cleaned text for display, empty if missing. Raises `BadInput`."""
        value = self.body.get(name) or ""
        if not isinstance(value, str):
            raise build_field_error(name, "must be a text")
        if len(value) > most:
            raise build_field_error(name, f"may have {most} characters at most")
        return _INVISIBLE.sub("\ufffd", value)

    def get_name(self, name: str) -> str:
        """Return a name of one printable line. Raises `BadInput`."""
        return _validate_name(name, self.body.get(name))

    def get_tags(self, name: str) -> list[str]:
        """Return names without repeats, in their order. Raises `BadInput`."""
        value = self.body.get(name) or []
        if not isinstance(value, list):
            raise build_field_error(name, "must be a list of texts")
        if len(value) > AGENT_TAGS:
            raise build_field_error(name, f"may hold {AGENT_TAGS}")
        return list(dict.fromkeys(_validate_name(f"{name}.{index}", tag) for index, tag in enumerate(value)))

    def get_integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return a whole number. Raises `BadInput`."""
        value = self.body.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise build_field_error(name, f"must be a whole number from {low} to {high}")
        return value

    def get_number(self, name: str) -> float:
        """Return a number that is not negative; zero if missing. Raises `BadInput`."""
        value = self.body.get(name) or 0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise build_field_error(name, "must be a number from 0")
        return float(value)

    def get_timestamp(self, name: str) -> float | None:
        """Return the seconds since the epoch, or None. Raises `BadInput`."""
        value = self.body.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
            raise build_field_error(name, "must be seconds since 1970")
        return float(value)

    def get_choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of the given values. Raises `BadInput`."""
        value = self.body.get(name)
        if value not in choices:
            raise build_field_error(name, f"must be one of {', '.join(choices)}")
        return str(value)

    def list_objects(self, name: str, most: int) -> list[dict[str, Any]]:
        """Return a list of JSON objects, empty if missing. Raises `BadInput`."""
        value = self.body.get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise build_field_error(name, "must be a list of objects")
        if len(value) > most:
            raise build_field_error(name, f"may hold {most} at most")
        return value

    def get_object(self, name: str) -> dict[str, Any] | None:
        """Return a JSON object or None. Raises `BadInput`."""
        value = self.body.get(name)
        if value is not None and not isinstance(value, dict):
            raise build_field_error(name, "must be an object")
        return value

    def list_task_fences(self, name: str, most: int) -> dict[UUID, int]:
        """Return the reported tasks of an agent, with their fences. Raises `BadInput`."""
        fences: dict[UUID, int] = {}
        for entry in self.list_objects(name, most):
            fields = RequestFields(entry)
            fences[parse_task_id(entry.get("id"))] = fields.get_integer("fence", 0, 2**31 - 1)
        return fences


def parse_task_id(value: object) -> UUID:
    """Return the id of a task. Raises `BadInput`."""
    try:
        return UUID(value) if isinstance(value, str) else UUID("")
    except ValueError as problem:
        raise build_field_error("id", "must be the id of a task") from problem


def _validate_name(path: str, value: object) -> str:
    if not isinstance(value, str):
        raise build_field_error(path, "must be a text")
    if fault := find_name_problem(value.strip(), NAME_CHARACTERS):
        raise build_field_error(path, fault.message)
    return value.strip()


_TOO_LARGE_MESSAGE = f"A message may have {AGENT_BYTES} at most. Send less at once."
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class AgentRequest:
    """One request; `headers` have names in lower case."""

    path: str
    address: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    task_id: str = ""

    @property
    def bearer(self) -> str:
        """Return the credential of the Authorization header, or an empty text."""
        scheme, _, credential = self.headers.get("authorization", "").partition(" ")
        return credential.strip() if scheme.lower() == "bearer" else ""

    def fields(self) -> RequestFields:
        """Return the JSON object of the body. Raises `BadInput`, `TooLarge`."""
        return RequestFields(self.get_object())

    def get_object(self) -> dict[str, Any]:
        """Return the JSON object of the body with unvalidated texts. Raises `BadInput`, `TooLarge`."""
        body = self._decompress_body()
        try:
            text = body.decode()
        except UnicodeDecodeError as problem:
            raise BadInput(f"The body is not UTF-8: look at byte {problem.start + 1}.") from problem
        return parse_json_object(text) if text.strip() else {}

    def _decompress_body(self) -> bytes:
        if len(self.body) > AGENT_BYTES:
            raise TooLarge(_TOO_LARGE_MESSAGE)
        packing = self.headers.get("content-encoding", "identity").strip().lower()
        if packing == "identity":
            return self.body
        if packing != "gzip":
            raise BadInput("The content encoding is not supported. Use gzip or none.")
        unpacker = zlib.decompressobj(_GZIP)
        try:
            body = unpacker.decompress(self.body, AGENT_BYTES + 1)
        except zlib.error as problem:
            raise BadInput("The body is not valid gzip.") from problem
        if len(body) > AGENT_BYTES:
            raise TooLarge(_TOO_LARGE_MESSAGE)
        if not unpacker.eof or unpacker.unused_data:
            raise BadInput("The gzip body is incomplete or has trailing data.")
        return body


@dataclass(frozen=True)
class AgentReply:
    """Response to an agent."""

    content: Mapping[str, Any] = field(repr=False)
    status: int = 200
    retry_after: int = 0


THREADS = 8
WorkParams = ParamSpec("WorkParams")
WorkResult = TypeVar("WorkResult")
_thread_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="agents")


async def run_in_thread(
    work: Callable[WorkParams, WorkResult], *args: WorkParams.args, **kwargs: WorkParams.kwargs
) -> WorkResult:
    """Run a database function in a thread, with this task's context and its own connection.

    Raises `DatabaseNotUsable` while nothing may be changed.
    """
    context = contextvars.copy_context()

    def connected() -> WorkResult:
        try:
            require_writable_database()
            return work(*args, **kwargs)
        finally:
            _release_connection()

    return await asyncio.get_running_loop().run_in_executor(_thread_pool, context.run, connected)


def _release_connection() -> None:
    """Return the connection to its pool; SQLite has no pool, and opening a file costs more than a query."""
    if connection.vendor != "sqlite":
        close_old_connections()
    elif connection.errors_occurred:
        connection.close()
