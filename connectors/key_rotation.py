"""Rotation of encryption keys: re-encrypts every stored value with the first key."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from allauth.mfa.models import Authenticator
from django.apps import apps
from django.conf import settings
from django.db import models, transaction

from rbac.encrypted_fields import EncryptedTextField, EncryptedValue
from rbac.encryption import (
    SECOND_FACTOR_CONTEXT,
    DecryptionFailed,
    decrypt,
    encrypt,
    get_key_name,
    get_token_key_name,
    is_current_token,
)

# One transaction per batch: an interrupted rotation loses one batch and holds locks briefly.
BATCH_SIZE = 200
UNKNOWN_KEY = "an unknown key"
# Under the first key, but not bound to its row yet.
UNBOUND_SUFFIX = " in an older format"


@dataclass(frozen=True)
class EncryptedColumn:
    """One encrypted column of one table."""

    model: type[models.Model]
    field: EncryptedTextField

    def __str__(self) -> str:
        return f"{self.model._meta.db_table}.{self.field.attname}"

    def batches(self, size: int) -> Iterator[list["StoredToken"]]:
        """Yield the values in batches, in key order."""
        name = self.field.attname
        rows = self.model._base_manager.exclude(**{name: ""}).order_by("pk")
        columns = rows.values_list("pk", name, *self.field.bound_to)
        batch = list(columns[:size])
        while batch:
            yield [
                StoredToken(key, value.token, self.field.build_binding(bound))
                for key, value, *bound in batch
                if isinstance(value, EncryptedValue)
            ]
            batch = list(columns.filter(pk__gt=batch[-1][0])[:size])

    def replace(self, value: "StoredToken", new: str) -> bool:
        """Replace a token unless another process has written the row meanwhile."""
        name = self.field.attname
        unchanged = self.model._base_manager.filter(pk=value.key, **{name: EncryptedValue(value.token)})
        return bool(unchanged.update(**{name: EncryptedValue(new)}))

    def reload(self, value: "StoredToken") -> "StoredToken | None":
        """Return the current value, or None for a deleted row."""
        rows = self.model._base_manager.filter(pk=value.key)
        stored_value = rows.values_list(self.field.attname, flat=True).first()
        return (
            StoredToken(value.key, stored_value.token, value.binding)
            if isinstance(stored_value, EncryptedValue)
            else None
        )


@dataclass(frozen=True)
class SecondFactorColumn:
    """Column of second factor secrets: tokens in JSON of the library."""

    name: str

    def __str__(self) -> str:
        return f"{Authenticator._meta.db_table}.data.{self.name}"

    def batches(self, size: int) -> Iterator[list["StoredToken"]]:
        """Yield the values in batches, in key order."""
        rows = Authenticator.objects.filter(data__has_key=self.name).order_by("pk").values_list("pk", "data")
        batch = list(rows[:size])
        while batch:
            yield [StoredToken(key, data[self.name], SECOND_FACTOR_CONTEXT) for key, data in batch]
            batch = list(rows.filter(pk__gt=batch[-1][0])[:size])

    def replace(self, value: "StoredToken", new: str) -> bool:
        """Replace a token unless another process has written the row meanwhile."""
        row = Authenticator.objects.select_for_update().filter(pk=value.key).first()
        if row is None or row.data.get(self.name) != value.token:
            return False
        row.data[self.name] = new
        row.save(update_fields=["data"])
        return True

    def reload(self, value: "StoredToken") -> "StoredToken | None":
        """Return the current value, or None for a deleted row."""
        row = Authenticator.objects.filter(pk=value.key).first()
        token = row.data.get(self.name) if row else None
        return StoredToken(value.key, token, SECOND_FACTOR_CONTEXT) if token else None


@dataclass(frozen=True)
class StoredToken:
    """One encrypted value: its row's primary key, its token, and the place that it is bound to."""

    key: object
    token: str
    binding: str


@dataclass(frozen=True)
class RotationResult:
    """Result of rotating one column; `unreadable` values use a missing key."""

    column: "RotatableColumn"
    values: int
    rotated: int
    unreadable: int


RotatableColumn = EncryptedColumn | SecondFactorColumn


def list_rotatable_columns() -> list[RotatableColumn]:
    """Return everything that is encrypted, by name."""
    return sorted(
        [*list_encrypted_columns(), SecondFactorColumn("secret"), SecondFactorColumn("seed")], key=str
    )


def list_encrypted_columns() -> list[EncryptedColumn]:
    """Return every encrypted column of every table, by name."""
    concrete = [model for model in apps.get_models(include_auto_created=True) if not model._meta.proxy]
    columns = [
        EncryptedColumn(model, field)
        for model in concrete
        for field in model._meta.local_concrete_fields
        if isinstance(field, EncryptedTextField)
    ]
    return sorted(columns, key=str)


def rotate_column(
    column: RotatableColumn, *, size: int = BATCH_SIZE, report_progress: Callable[[int], None] | None = None
) -> RotationResult:
    """Encrypt every value of a column under the first key; values that use it already are skipped.

    `report_progress` receives the number of processed values after each batch. A value that changes
    meanwhile is processed again: its writer may not have the new key yet.
    """
    values = rotated = unreadable = 0
    for batch in column.batches(size):
        with transaction.atomic():
            ends = Counter(_rotate_value(column, value) for value in batch)
        values += len(batch)
        rotated += ends["rotated"]
        unreadable += ends["unreadable"]
        if report_progress:
            report_progress(values)
    return RotationResult(column, values, rotated, unreadable)


def count_keys(column: RotatableColumn, *, size: int = BATCH_SIZE) -> Counter[str]:
    """Count the values of a column by key name; see `UNREADABLE` and `UNBOUND_SUFFIX`."""
    return Counter(_get_key_name(value) for batch in column.batches(size) for value in batch)


def _get_key_name(value: StoredToken) -> str:
    name = get_token_key_name(value.token, value.binding)
    if name is None:
        return UNKNOWN_KEY
    is_older = name == get_first_key_name() and not is_current_token(value.token)
    return f"{name}{UNBOUND_SUFFIX}" if is_older else name


def get_first_key_name() -> str:
    """Return the name of the key that writes."""
    return get_key_name(settings.FIELD_ENCRYPTION_KEYS[0])


def _rotate_value(column: RotatableColumn, value: StoredToken) -> str:
    while True:
        try:
            text = decrypt(value.token, value.binding)
        except DecryptionFailed:
            return "unreadable"
        if is_current_token(value.token):
            return "kept"
        if column.replace(value, encrypt(text, value.binding)):
            return "rotated"
        changed = column.reload(value)
        if changed is None:
            return "kept"
        value = changed
