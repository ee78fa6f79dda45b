"""Copies of rows with some changed columns."""

import copy
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from django.db.models import Model

Row = TypeVar("Row", bound=Model)
BATCH = 5_000


def copy_row(row: Row, **changes: Any) -> Row:
    """Return an unsaved copy of `row` with these changes."""
    row_copy = copy.copy(row)
    row_copy._state = copy.copy(row._state)
    row_copy._state.adding, row_copy._state.fields_cache = True, {}
    row_copy.pk = None
    for name, value in changes.items():
        setattr(row_copy, name, value)
    return row_copy


def store(model: type[Row], rows: Iterable[Row]) -> None:
    """Store rows in batches of some thousands."""
    waiting: Iterator[Row] = iter(rows)
    while some := list(islice(waiting, BATCH)):
        model._default_manager.bulk_create(some)
