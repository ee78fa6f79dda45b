"""Copies rows: what differs is named, everything else stays as it was."""

import copy
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from django.db.models import Model

Row = TypeVar("Row", bound=Model)
BATCH = 5_000


def like(row: Row, **changes: Any) -> Row:
    """A new row, not stored yet, that differs from `row` in `changes` only."""
    made = copy.copy(row)
    made._state = copy.copy(row._state)
    made._state.adding, made._state.fields_cache = True, {}
    made.pk = None
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def store(model: type[Row], rows: Iterable[Row]) -> None:
    """Store rows, some thousands at a time."""
    waiting: Iterator[Row] = iter(rows)
    while some := list(islice(waiting, BATCH)):
        model._default_manager.bulk_create(some)
