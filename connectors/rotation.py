"""Brings every encrypted value under the first key, so that an older key can be let go."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.apps import apps
from django.db import models, transaction

from connectors.encryption import EncryptedTextField, Sealed, key_of, rotate

# One transaction each: a rotation that ends early has lost one batch, and holds nobody up for long.
BATCH = 200


@dataclass(frozen=True)
class Column:
    """One encrypted column of one table."""

    model: type[models.Model]
    name: str

    def __str__(self) -> str:
        return f"{self.model._meta.db_table}.{self.name}"

    def batches(self, size: int) -> Iterator[list[tuple[object, str]]]:
        """Yield (primary key, token) of the rows that hold a value, in the order of their keys."""
        rows = self.model._base_manager.exclude(**{self.name: ""}).order_by("pk")
        found = list(rows.values_list("pk", self.name)[:size])
        while found:
            yield [(key, value.token) for key, value in found if isinstance(value, Sealed)]
            found = list(rows.filter(pk__gt=found[-1][0]).values_list("pk", self.name)[:size])

    def replace(self, key: object, old: str, new: str) -> bool:
        """Put a token in the place of another; not where somebody has written since."""
        unchanged = self.model._base_manager.filter(pk=key, **{self.name: Sealed(old)})
        return bool(unchanged.update(**{self.name: Sealed(new)}))


@dataclass(frozen=True)
class Rotated:
    """What became of one column; `unreadable` values were written with a key that is not there."""

    column: Column
    values: int
    rotated: int
    unreadable: int


def encrypted_columns() -> list[Column]:
    """Return every encrypted column of every table, by name."""
    concrete = [model for model in apps.get_models(include_auto_created=True) if not model._meta.proxy]
    found = [
        Column(model, field.attname)
        for model in concrete
        for field in model._meta.local_concrete_fields
        if isinstance(field, EncryptedTextField)
    ]
    return sorted(found, key=str)


def rotate_column(column: Column, *, size: int = BATCH, told: Callable[[int], None] | None = None) -> Rotated:
    """Write every value of a column anew under the first key; what is under it already is left alone.

    `told` hears after each batch how many values were looked at so far. A value that changes meanwhile is
    looked at again: it may have been written by a process that does not know the new key yet.
    """
    values = rotated = unreadable = 0
    for batch in column.batches(size):
        with transaction.atomic():
            ends = Counter(_rotate_one(column, key, token) for key, token in batch)
        values += len(batch)
        rotated += ends["rotated"]
        unreadable += ends["unreadable"]
        if told:
            told(values)
    return Rotated(column, values, rotated, unreadable)


def keys_used(column: Column, *, size: int = BATCH) -> Counter[int | None]:
    """Count the values of a column by the number of their key, from 0; None where no key fits."""
    return Counter(key_of(token) for batch in column.batches(size) for _, token in batch)


def _rotate_one(column: Column, key: object, token: str) -> str:
    while True:
        number = key_of(token)
        if not number:
            return "kept" if number == 0 else "unreadable"
        if column.replace(key, token, rotate(token)):
            return "rotated"
        found = column.model._base_manager.filter(pk=key).values_list(column.name, flat=True).first()
        if not isinstance(found, Sealed):
            return "kept"
        token = found.token
