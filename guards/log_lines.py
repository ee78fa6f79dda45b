"""Lines of the process log: JSON for machines or text for people, one line for each record.

Ids that are bound with `bind_log_fields` are in each line of their context. No text can end a line or add a
field to it, and known secrets are redacted.
"""

import re
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Literal

from structlog.contextvars import (
    bind_contextvars,
    bound_contextvars,
    clear_contextvars,
    get_contextvars,
)
from structlog.processors import JSONRenderer, TimeStamper, format_exc_info
from structlog.stdlib import ProcessorFormatter, add_log_level, add_logger_name

from guards.masks import SecretMask
from guards.text import strip_escape_sequences, truncate_text

LineStyle = Literal["json", "text"]
EventDict = MutableMapping[str, Any]

# Fields that are bound or passed as `extra`. Others, such as the request that Django adds, are left out.
LOG_FIELDS: Final = (
    "request_id",
    "celery_task",
    "execution",
    "stage",
    "step",
    "delegate_task",
    "delegate",
    "instance",
    "status",
    "previous",
    "kind",
    "method",
    "route",
    "status_code",
    "duration_ms",
)
# Fields that go with work to another process.
PROPAGATED_FIELDS: Final = ("request_id", "execution", "stage", "step")
MAX_PROPAGATED_CHARACTERS: Final = 200
_NO_ROUTE: Final = "no route"
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PLAIN_VALUE: Final = re.compile(r"[\w./:@+-]+")


def bind_log_fields(**fields: object) -> AbstractContextManager[None]:
    """Add fields to all lines of a block; those without a value are left out."""
    return bound_contextvars(**{name: str(value) for name, value in fields.items() if value})


def get_log_fields() -> dict[str, str]:
    """Return the bound fields."""
    bound = get_contextvars()
    return {name: str(bound[name]) for name in LOG_FIELDS if name in bound}


def get_propagated_fields() -> dict[str, str]:
    """Return the bound fields that go with work to another process."""
    bound = get_contextvars()
    return {name: str(bound[name]) for name in PROPAGATED_FIELDS if name in bound}


def parse_propagated_fields(value: object) -> dict[str, str]:
    """Return the fields that came with work, without unknown or oversized ones."""
    if not isinstance(value, Mapping):
        return {}
    texts = {name: text for name in PROPAGATED_FIELDS if isinstance(text := value.get(name), str)}
    return {name: text for name, text in texts.items() if len(text) <= MAX_PROPAGATED_CHARACTERS}


def replace_log_fields(fields: Mapping[str, object]) -> None:
    """Bind these fields instead of all others, for the rest of this context."""
    clear_contextvars()
    bind_contextvars(**fields)


def format_route(pattern: str | None) -> str:
    """Return the route of a URL pattern, or the text for a request that matches none.

    Lines and traces have routes instead of paths, which may contain the token of an invitation.
    """
    return _NO_ROUTE if pattern is None else f"/{pattern}"


class LineFormatter(ProcessorFormatter):
    """Formatter of log records in one of two styles.

    Both have UTC time, level, origin, fields, message and exception. In text, the lines of an exception
    follow with an indent; fields come before the message, so that no message can contain one. With
    `shows_thread`, text names the thread instead of the logger.
    """

    def __init__(
        self, style: LineStyle = "text", secrets: Sequence[str] = (), *, shows_thread: bool = False
    ) -> None:
        self._mask = SecretMask(secrets)
        self._origin = "thread" if shows_thread else "logger"
        super().__init__(
            processors=[
                ProcessorFormatter.remove_processors_meta,
                format_exc_info,
                self._redact,
                JSONRenderer(ensure_ascii=True) if style == "json" else self._render_text,
            ],
            foreign_pre_chain=[
                _add_fields,
                add_log_level,
                add_logger_name,
                _add_thread,
                TimeStamper(fmt="iso", utc=True),
            ],
        )

    def _redact(self, _logger: Any, _method: str, event: EventDict) -> EventDict:
        return {
            name: truncate_text(self._mask.mask_text(value)) if isinstance(value, str) else value
            for name, value in event.items()
        }

    def _render_text(self, _logger: Any, _method: str, event: EventDict) -> str:
        fields = " ".join(f"{name}={_quote(event[name])}" for name in LOG_FIELDS if name in event)
        head = [event["timestamp"], event["level"].upper(), f"[{event[self._origin]}]", fields]
        line = " ".join(part for part in (*head, _escape(str(event["event"]))) if part)
        exception = strip_escape_sequences(event.get("exception", ""))
        return "\n    ".join([line, *map(_escape, exception.splitlines())])


def _add_fields(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Add the bound fields and those of the record, which win."""
    record, bound = event["_record"].__dict__, get_contextvars()
    for name in LOG_FIELDS:
        value = record.get(name, bound.get(name))
        if value is not None:
            event[name] = value if isinstance(value, int | float) else str(value)
    return event


def _add_thread(_logger: Any, _method: str, event: EventDict) -> EventDict:
    event["thread"] = event["_record"].threadName
    return event


def _quote(value: object) -> str:
    text = _escape(str(value))
    return text if _PLAIN_VALUE.fullmatch(text) else '"{}"'.format(text.replace('"', "'"))


def _escape(text: str) -> str:
    """Return the text on one line, with control characters as visible escapes."""
    return _CONTROL.sub(
        lambda match: match[0].encode("unicode_escape").decode(), strip_escape_sequences(text)
    )
