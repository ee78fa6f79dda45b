"""Conversion of AWS values to what database columns hold; an invalid value never stops a sync.

Answers come from accounts and through delegates that Slipway does not own. What does not fit is cut, and what
says nothing is left out: a picture without one detail is better than none.
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
    """A row of these values, each as its column can hold it; keys of other rows are taken as they are."""
    column = model._meta.get_field
    return model(**{name: _convert_for_column(column(name), value) for name, value in values.items()})


def clean_text(value: object, most: int = int(SYNC_TEXT_CHARACTERS)) -> str:
    """A text of at most `most` characters; two that differ stay different when they are cut."""
    if not isinstance(value, str):
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
    found = sanitize_text(value)
    if len(found) <= most:
        return found
    told = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{found[: most - _DIGEST_LENGTH - 1]}…{told}" if most > 2 * _DIGEST_LENGTH else found[:most]


def parse_integer(value: object) -> int | None:
    """A whole number that a column holds; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return max(-_MAX_INTEGER, min(int(value), _MAX_INTEGER))


def parse_datetime(value: object) -> datetime | None:
    """A moment with its zone; None for what is no date that anybody would mean."""
    found = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(found, datetime) or found.year not in _VALID_YEARS:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def parse_ip_address(value: object) -> str | None:
    """An IP address, or None."""
    try:
        # The zone of a link-local address means nothing anywhere else.
        return str(ip_address(str(value).partition("%")[0]))
    except ValueError:
        return None


def clean_document(value: object) -> Any:
    """JSON as a database holds it: texts cut and cleaned, not too many values, not too deep."""
    return _DocumentCleaner().clean(value, 0)


class _DocumentCleaner:
    """Counts the values of one document: what comes after too many of them is left out."""

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
        found = parse_integer(value)
        return found if found is not None and found >= 0 else (None if column.null else 0)
    if isinstance(column, models.DateTimeField):
        return parse_datetime(value)
    if isinstance(column, models.BooleanField):
        return value if isinstance(value, bool) else None
    return clean_document(value) if isinstance(column, models.JSONField) else value
