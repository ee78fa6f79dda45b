"""Conversion of AWS values to column values; an invalid value never stops a sync.

Responses come from foreign accounts and delegates. Oversized values are cut, malformed ones are left out.
"""

import hashlib
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, Final, TypeVar

from django.db import models

from guards.limits import SYNC_DOCUMENT_VALUES, SYNC_TEXT_CHARACTERS
from guards.text import sanitize_text

Row = TypeVar("Row", bound=models.Model)
_MAX_INTEGER: Final = 2**31 - 1
_MAX_DEPTH: Final = 20
_VALID_YEARS: Final = range(1970, 9999)
_DIGEST_LENGTH: Final = 16


def build_row(model: type[Row], **values: Any) -> Row:
    """Build a row, each value converted for its column; foreign keys are taken unchanged."""
    column = model._meta.get_field
    return model(**{name: _convert_for_column(column(name), value) for name, value in values.items()})


def clean_text(value: object, max_length: int = int(SYNC_TEXT_CHARACTERS)) -> str:
    """Return a text of at most `max_length` characters; a digest keeps cut texts distinct."""
    if not isinstance(value, str):
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
    text = sanitize_text(value)
    if len(text) <= max_length:
        return text
    digest = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return (
        f"{text[: max_length - _DIGEST_LENGTH - 1]}…{digest}"
        if max_length > 2 * _DIGEST_LENGTH
        else text[:max_length]
    )


def parse_integer(value: object) -> int | None:
    """Return an integer that a column can store, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return max(-_MAX_INTEGER, min(int(value), _MAX_INTEGER))


def parse_datetime(value: object) -> datetime | None:
    """Return an aware date and time, or None."""
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(moment, datetime) or moment.year not in _VALID_YEARS:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_ip_address(value: object) -> str | None:
    """Return an IP address, or None."""
    try:
        # The zone of a link-local address is valid only on its machine.
        return str(ip_address(str(value).partition("%")[0]))
    except ValueError:
        return None


def clean_document(value: object) -> Any:
    """Return JSON that a database can store: cleaned texts, limited in size and depth."""
    return _DocumentCleaner().clean(value, 0)


class _DocumentCleaner:
    """Cleaner of one document; values beyond the limit are left out."""

    def __init__(self) -> None:
        self.left = int(SYNC_DOCUMENT_VALUES)

    def clean(self, value: object, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > _MAX_DEPTH:
            return None
        if isinstance(value, Mapping):
            pairs = list(value.items())[: self.left + 1]
            return {clean_text(str(key), 255): self.clean(inner, depth + 1) for key, inner in pairs}
        if isinstance(value, list | tuple):
            return [self.clean(inner, depth + 1) for inner in value[: self.left + 1]]
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**63 else None
        return clean_text(value.isoformat() if isinstance(value, datetime) else value)


def _convert_for_column(column: Any, value: object) -> Any:
    if isinstance(column, models.GenericIPAddressField):
        return parse_ip_address(value)
    if isinstance(column, models.CharField | models.TextField):
        return clean_text(value, column.max_length or int(SYNC_TEXT_CHARACTERS))
    if isinstance(column, models.IntegerField):
        number = parse_integer(value)
        return number if number is not None and number >= 0 else (None if column.null else 0)
    if isinstance(column, models.DateTimeField):
        return parse_datetime(value)
    if isinstance(column, models.BooleanField):
        return value if isinstance(value, bool) else None
    return clean_document(value) if isinstance(column, models.JSONField) else value
