"""Unique identifiers and user names derived from display names."""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Manager, Model, QuerySet

from rbac.models import User

# Shorter than an identifier may be: there is room for a number behind it.
_STEM_CHARACTERS: Final = 120


def build_unique_identifier(name: str, rows: QuerySet[Any], fallback: str) -> str:
    """Return an identifier derived from `name` that is unique among `rows`."""
    stem = re.sub(r"[^A-Za-z0-9_$]+", "_", name).strip("_") or fallback
    if stem[0].isdigit() or stem[0] == "$":
        stem = f"_{stem}"
    return find_free_name(stem, rows, "identifier")


def find_free_name(stem: str, rows: QuerySet[Any] | Manager[Any], column: str) -> str:
    """Return `stem`, with a number appended if `column` of a row has it already."""
    stem = stem[:_STEM_CHARACTERS]
    used_names = set(rows.filter(**{f"{column}__startswith": stem}).values_list(column, flat=True))
    return next(name for name in _generate_numbered(stem) if name not in used_names)


def find_free_username(stem: str) -> str:
    """Return `stem`, with a number appended if a user has it already, in any case.

    The name stays free until the transaction ends.
    """
    User.objects.lock_usernames()
    stem = stem[:_STEM_CHARACTERS]
    names = User.objects.filter(username__istartswith=stem).values_list("username", flat=True)
    used_names = {name.lower() for name in names}
    return next(name for name in _generate_numbered(stem) if name.lower() not in used_names)


def _generate_numbered(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}_{number}" for number in count(2))


def create_unique(thing: Model, error: ValidationError) -> None:
    """Save a new row. Raises `error` for a duplicate, also after a race."""
    try:
        with transaction.atomic():
            thing.save()
    except IntegrityError as exc:
        raise error from exc
