"""Where a secret could get to: each place, and how one sees what goes there."""

import functools
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import redis.asyncio.connection
import redis.connection
from asgiref.testing import ApplicationCommunicator
from channels.consumer import AsyncConsumer, SyncConsumer
from channels.layers import InMemoryChannelLayer
from django.contrib.sessions.backends.base import SessionBase
from django.core.cache.backends.locmem import LocMemCache
from django.core.handlers.base import BaseHandler
from django.core.mail import EmailMessage
from django.db import connections
from django.db.backends.signals import connection_created
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from kombu.transport.virtual.base import Channel

from connectors.models import Secret
from guards.log_lines import LOG_FIELDS
from rbac.encrypted_fields import EncryptedTextField
from tests.secret_watch.watch import is_planted, report, search_content
from web.http.asgi_limits import RequestLimits
from web.live.socket_middleware import SocketLimits

# Where a secret leaves Slipway in the clear because it has to, and why.
ALLOWED = {
    "http /agent/v1/tasks/acquire": "an agent is lent what its task needs, once, over TLS",
    "http /agent/v1/configuration/secrets": "an agent takes what its script needs, over TLS",
}

_NO_TEXT = (int, float, type(None))


@functools.cache
def watch_all() -> None:
    """Look at all that this process, and those that it forks, write or send from now on."""
    connection_created.connect(_watch_connection)
    for connection in connections.all(initialized_only=True):
        _watch_connection(connection=connection)
    _before(logging.Logger, "handle", _search_record)
    _before(EmailMessage, "send", _search_mail)
    _before(redis.connection.AbstractConnection, "send_packed_command", _search_command)
    _before(redis.asyncio.connection.AbstractConnection, "send_packed_command", _search_command)
    _before(InMemoryChannelLayer, "send", _search_message)
    _before(LocMemCache, "_set", _search_message)
    _before(Channel, "basic_publish", _search_message)
    _before(SessionBase, "encode", _search_message)
    _before(EncryptedTextField, "pre_save", _insist)
    for consumer in (AsyncConsumer, SyncConsumer):
        _before(consumer, "send", _search_frame)
    for door in (RequestLimits, SocketLimits):
        _watch_door(door)
    _watch_answers()
    _watch_communicator()


def _before(owner: type, name: str, see: Callable[..., None]) -> None:
    """Have `see` called with the arguments of each call of a method; works for coroutines too."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def seen(*arguments: Any, **options: Any) -> Any:
        see(*arguments, **options)
        return original(*arguments, **options)

    setattr(owner, name, seen)


def _watch_connection(*, connection: Any, **_more: object) -> None:
    if _search_statement not in connection.execute_wrappers:
        connection.execute_wrappers.append(_search_statement)


def _search_statement(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
    if many:
        params = list(params)
    _search_sql(str(sql))
    place = f"SQL {sql}"
    for row in params if many else (params,):
        for value in _values(row):
            _search_value(place, value)
    return execute(sql, params, many, context)


# The same statements are sent again and again; their values differ.
@functools.lru_cache(4096)
def _search_sql(sql: str) -> None:
    search_content("SQL", sql)


def _values(row: Any) -> Iterable[Any]:
    return (row.values() if isinstance(row, dict) else row) if row else ()


def _search_value(place: str, value: Any) -> None:
    if isinstance(value, str | bytes):
        search_content(place, value)
    elif isinstance(value, memoryview):
        search_content(place, bytes(value))
    elif not isinstance(value, _NO_TEXT):
        search_content(place, repr(getattr(value, "obj", value)))


def _search_record(_logger: logging.Logger, record: logging.LogRecord) -> None:
    search_content(f"log of {record.name}", record.getMessage())
    search_content(f"log of {record.name}", repr([record.__dict__.get(name) for name in LOG_FIELDS]))
    if record.exc_info and record.exc_info[0]:
        search_content(f"log of {record.name}", "".join(traceback.format_exception(*record.exc_info)))


def _search_mail(mail: EmailMessage, *_arguments: Any, **_options: Any) -> None:
    search_content("mail", f"{mail.subject}\n{mail.body}")


def _search_command(_connection: Any, command: Any, *_arguments: Any, **_options: Any) -> None:
    if isinstance(command, str | bytes):
        search_content("Valkey", command)
        return
    for part in command:
        search_content("Valkey", bytes(part))


def _search_message(_layer: Any, *parts: Any, **more: Any) -> None:
    for part in (*parts, *more.values()):
        search_content("message", part if isinstance(part, str | bytes) else repr(part))


def _search_frame(_consumer: Any, message: dict[str, Any]) -> None:
    for part in ("text", "bytes"):
        search_content("socket", message.get(part) or "")


def _search_event(place: str, event: Any) -> None:
    """Search an event of an ASGI application: a frame, or the head or a part of an answer."""
    for part in ("text", "bytes", "body"):
        search_content(place, event.get(part) or "")
    for _, value in event.get("headers") or ():
        search_content(place, bytes(value))


def _watch_door(door: type) -> None:
    original = door.__call__  # type: ignore[operator]

    @functools.wraps(original)
    async def passed(self: Any, scope: Any, receive: Any, send: Any) -> None:
        place = f"{scope['type']} {scope['path']}"

        async def sent(event: Any) -> None:
            if place not in ALLOWED:
                _search_event(place, event)
            await send(event)

        await original(self, scope, receive, sent)

    door.__call__ = passed  # type: ignore[method-assign,operator]


def _watch_communicator() -> None:
    """Consumers and doors that a test asks without the server around them."""
    original = ApplicationCommunicator.receive_output

    @functools.wraps(original)
    async def received(self: Any, *arguments: Any, **options: Any) -> Any:
        event = await original(self, *arguments, **options)
        _search_event("socket", event)
        return event

    ApplicationCommunicator.receive_output = received


def _watch_answers() -> None:
    get_response, get_response_async = BaseHandler.get_response, BaseHandler.get_response_async

    @functools.wraps(get_response)
    def answered(self: Any, request: HttpRequest) -> HttpResponseBase:
        return _looked_at(request, get_response(self, request))

    @functools.wraps(get_response_async)
    async def answered_async(self: Any, request: HttpRequest) -> HttpResponseBase:
        return _looked_at(request, await get_response_async(self, request))

    BaseHandler.get_response = answered  # type: ignore[method-assign]
    BaseHandler.get_response_async = answered_async  # type: ignore[method-assign]


def _looked_at(request: HttpRequest, response: Any) -> Any:
    place = f"answer to {request.method} {request.path}"
    for name, value in response.items():
        search_content(f"{place}, {name}", value)
    search_content(place, response.cookies.output())
    if not response.streaming:
        search_content(place, response.content)
    elif response.is_async:
        response.streaming_content = _streamed_async(place, response.streaming_content)
    elif not hasattr(response, "file_to_stream"):
        response.streaming_content = _streamed(place, response.streaming_content)
    return response


def _streamed(place: str, parts: Iterable[bytes]) -> Iterator[bytes]:
    for part in parts:
        search_content(place, part)
        yield part


async def _streamed_async(place: str, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for part in parts:
        search_content(place, part)
        yield part


# Whoever makes secrets of random values sets it to false: nobody looks for those.
insists = True


def _insist(field: EncryptedTextField, instance: Any, *_arguments: Any, **_options: Any) -> None:
    """What no test planted would not be found."""
    value = instance.__dict__.get(field.attname)
    if (
        insists
        and isinstance(instance, Secret)
        and isinstance(value, str)
        and value
        and not is_planted(value)
    ):
        report("the test", f"the secret {instance.identifier} is made without `planted`")
