"""Holds what AWS answers to the columns that keep it: no text, number or date of one row stops a sync.

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

from guards.limits import SEEN_DOCUMENT_VALUES, SEEN_TEXT_CHARACTERS
from guards.text import clean

Row = TypeVar("Row", bound=models.Model)
_MOST: Final = 2**31 - 1
_DEEPEST: Final = 20
_YEARS: Final = range(1970, 9999)
_DIGEST: Final = 16


def row_of(model: type[Row], **values: Any) -> Row:
    """A row of these values, each as its column can hold it; keys of other rows are taken as they are."""
    column = model._meta.get_field
    return model(**{name: _held_by(column(name), value) for name, value in values.items()})


def text(value: object, most: int = int(SEEN_TEXT_CHARACTERS)) -> str:
    """A text of at most `most` characters; two that differ stay different when they are cut."""
    if not isinstance(value, str):
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
    found = clean(value)
    if len(found) <= most:
        return found
    told = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{found[: most - _DIGEST - 1]}…{told}" if most > 2 * _DIGEST else found[:most]


def number(value: object) -> int | None:
    """A whole number that a column holds; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return max(-_MOST, min(int(value), _MOST))


def moment(value: object) -> datetime | None:
    """A moment with its zone; None for what is no date that anybody would mean."""
    found = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(found, datetime) or found.year not in _YEARS:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def address(value: object) -> str | None:
    """An IP address, or None."""
    try:
        # The zone of a link-local address means nothing anywhere else.
        return str(ip_address(str(value).partition("%")[0]))
    except ValueError:
        return None


def document(value: object) -> Any:
    """JSON as a database holds it: texts cut and cleaned, not too many values, not too deep."""
    return _Document().held(value, 0)


class _Document:
    """Counts the values of one document: what comes after too many of them is left out."""

    def __init__(self) -> None:
        self.left = int(SEEN_DOCUMENT_VALUES)

    def held(self, value: object, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > _DEEPEST:
            return None
        if isinstance(value, Mapping):
            pairs = list(value.items())[: self.left + 1]
            return {text(str(key), 255): self.held(inner, depth + 1) for key, inner in pairs}
        if isinstance(value, list | tuple):
            return [self.held(inner, depth + 1) for inner in value[: self.left + 1]]
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**63 else None
        return text(value.isoformat() if isinstance(value, datetime) else value)


def _held_by(column: Any, value: object) -> Any:
    if isinstance(column, models.GenericIPAddressField):
        return address(value)
    if isinstance(column, models.CharField | models.TextField):
        return text(value, column.max_length or int(SEEN_TEXT_CHARACTERS))
    if isinstance(column, models.IntegerField):
        found = number(value)
        return found if found is not None and found >= 0 else (None if column.null else 0)
    if isinstance(column, models.DateTimeField):
        return moment(value)
    if isinstance(column, models.BooleanField):
        return value if isinstance(value, bool) else None
    return document(value) if isinstance(column, models.JSONField) else value
