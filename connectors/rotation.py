"""Brings every encrypted value under the first key, so that an older key can be let go."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from allauth.mfa.models import Authenticator
from django.apps import apps
from django.conf import settings
from django.db import models, transaction

from connectors.encryption import EncryptedTextField, Sealed
from rbac.encryption import SECOND_FACTOR, WrongKey, decrypt, encrypt, is_current, key_of, name_of

# One transaction each: a rotation that ends early has lost one batch, and holds nobody up for long.
BATCH = 200
UNREADABLE = "a key that is not here"
# Under the first key, but not bound to its row yet.
OLDER_FORM = " in the older form"


@dataclass(frozen=True)
class Column:
    """One encrypted column of one table."""

    model: type[models.Model]
    field: EncryptedTextField

    def __str__(self) -> str:
        return f"{self.model._meta.db_table}.{self.field.attname}"

    def batches(self, size: int) -> Iterator[list["Value"]]:
        """Yield the values of the rows that hold one, in the order of their keys."""
        name = self.field.attname
        rows = self.model._base_manager.exclude(**{name: ""}).order_by("pk")
        columns = rows.values_list("pk", name, *self.field.bound_to)
        found = list(columns[:size])
        while found:
            yield [
                Value(key, value.token, self.field.place(bound))
                for key, value, *bound in found
                if isinstance(value, Sealed)
            ]
            found = list(columns.filter(pk__gt=found[-1][0])[:size])

    def replace(self, value: "Value", new: str) -> bool:
        """Put a token in the place of another; not where somebody has written since."""
        name = self.field.attname
        unchanged = self.model._base_manager.filter(pk=value.key, **{name: Sealed(value.token)})
        return bool(unchanged.update(**{name: Sealed(new)}))

    def again(self, value: "Value") -> "Value | None":
        """The value as it is now, None where it is gone."""
        rows = self.model._base_manager.filter(pk=value.key)
        found = rows.values_list(self.field.attname, flat=True).first()
        return Value(value.key, found.token, value.place) if isinstance(found, Sealed) else None


@dataclass(frozen=True)
class SecondFactors:
    """What makes the codes of people's second factors: tokens in JSON that a library keeps."""

    name: str

    def __str__(self) -> str:
        return f"{Authenticator._meta.db_table}.data.{self.name}"

    def batches(self, size: int) -> Iterator[list["Value"]]:
        """Yield the values of the rows that hold one, in the order of their keys."""
        rows = Authenticator.objects.filter(data__has_key=self.name).order_by("pk").values_list("pk", "data")
        found = list(rows[:size])
        while found:
            yield [Value(key, data[self.name], SECOND_FACTOR) for key, data in found]
            found = list(rows.filter(pk__gt=found[-1][0])[:size])

    def replace(self, value: "Value", new: str) -> bool:
        """Put a token in the place of another; not where somebody has written since."""
        row = Authenticator.objects.select_for_update().filter(pk=value.key).first()
        if row is None or row.data.get(self.name) != value.token:
            return False
        row.data[self.name] = new
        row.save(update_fields=["data"])
        return True

    def again(self, value: "Value") -> "Value | None":
        """The value as it is now, None where it is gone."""
        row = Authenticator.objects.filter(pk=value.key).first()
        token = row.data.get(self.name) if row else None
        return Value(value.key, token, SECOND_FACTOR) if token else None


@dataclass(frozen=True)
class Value:
    """One encrypted value: its row's primary key, its token, and the place that it is bound to."""

    key: object
    token: str
    place: str


@dataclass(frozen=True)
class Rotated:
    """What became of one column; `unreadable` values were written with a key that is not there."""

    column: "Place"
    values: int
    rotated: int
    unreadable: int


Place = Column | SecondFactors


def encrypted_places() -> list[Place]:
    """Return everything that is encrypted, by name."""
    return sorted([*encrypted_columns(), SecondFactors("secret"), SecondFactors("seed")], key=str)


def encrypted_columns() -> list[Column]:
    """Return every encrypted column of every table, by name."""
    concrete = [model for model in apps.get_models(include_auto_created=True) if not model._meta.proxy]
    found = [
        Column(model, field)
        for model in concrete
        for field in model._meta.local_concrete_fields
        if isinstance(field, EncryptedTextField)
    ]
    return sorted(found, key=str)


def rotate_column(column: Place, *, size: int = BATCH, told: Callable[[int], None] | None = None) -> Rotated:
    """Write every value of a column anew under the first key; what is under it already is left alone.

    `told` hears after each batch how many values were looked at so far. A value that changes meanwhile is
    looked at again: it may have been written by a process that does not know the new key yet.
    """
    values = rotated = unreadable = 0
    for batch in column.batches(size):
        with transaction.atomic():
            ends = Counter(_rotate_one(column, value) for value in batch)
        values += len(batch)
        rotated += ends["rotated"]
        unreadable += ends["unreadable"]
        if told:
            told(values)
    return Rotated(column, values, rotated, unreadable)


def keys_used(column: Place, *, size: int = BATCH) -> Counter[str]:
    """Count the values of a column by the name of their key; see `UNREADABLE` and `OLDER_FORM`."""
    return Counter(_key_used(one) for batch in column.batches(size) for one in batch)


def _key_used(value: Value) -> str:
    name = key_of(value.token, value.place)
    if name is None:
        return UNREADABLE
    is_older = name == first_key() and not is_current(value.token)
    return f"{name}{OLDER_FORM}" if is_older else name


def first_key() -> str:
    """The name of the key that writes."""
    return name_of(settings.FIELD_ENCRYPTION_KEYS[0])


def _rotate_one(column: Place, value: Value) -> str:
    while True:
        try:
            text = decrypt(value.token, value.place)
        except WrongKey:
            return "unreadable"
        if is_current(value.token):
            return "kept"
        if column.replace(value, encrypt(text, value.place)):
            return "rotated"
        changed = column.again(value)
        if changed is None:
            return "kept"
        value = changed
