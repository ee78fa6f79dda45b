"""Encrypted model field that binds each value to its row."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models.query_utils import DeferredAttribute

from rbac.encryption import decrypt, encrypt


@dataclass(frozen=True)
class EncryptedValue:
    """Encrypted token from the database."""

    token: str


class DecryptingAttribute(DeferredAttribute):
    """Descriptor that decrypts a value on access, so that lists need neither time nor a key."""

    field: Any

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, EncryptedValue):
            opened = decrypt(value.token, self.field.get_binding(instance))
            value = instance.__dict__[self.field.attname] = opened
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class EncryptedTextField(models.TextField):  # type: ignore[type-arg]
    """Field with plain text on the instance and a token in the database; it is not searchable.

    `bound_to` names constant columns that identify the row: a token copied to another row cannot be
    decrypted. A bound column is written with its row, never by an update. Without `bound_to`, a token is
    bound to its column. Reading may raise `DecryptionFailed`. `values()` returns `EncryptedValue`.
    """

    descriptor_class = DecryptingAttribute

    def __init__(self, *args: Any, bound_to: Iterable[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        # Migrations leave it out: the column is the same.
        self.bound_to = tuple(bound_to)

    def get_binding(self, instance: models.Model) -> str:
        """Return the binding of an instance's value."""
        return self.build_binding([getattr(instance, name) for name in self.bound_to])

    def build_binding(self, values: Iterable[Any]) -> str:
        """Return the binding from the values of the bound columns."""
        return json.dumps([self.model._meta.db_table, self.column, *map(str, values)])

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return the token, bound to the row; a value that was never decrypted stays unchanged."""
        value = model_instance.__dict__.get(self.attname)
        if isinstance(value, EncryptedValue):
            return value
        value = super().pre_save(model_instance, add)
        if value is None or value == "":
            return value
        return EncryptedValue(encrypt(str(value), self.get_binding(model_instance)))

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, EncryptedValue):
            return value.token
        prepared = super().get_prep_value(value)
        if prepared is None or prepared == "":
            return prepared
        if self.bound_to:
            raise TypeError(f"{self} is bound to its row: save the row instead of updating it")
        return encrypt(prepared, self.build_binding(()))

    def from_db_value(self, value: Any, _expression: Any, _connection: Any) -> Any:
        return value if value is None or value == "" else EncryptedValue(value)
