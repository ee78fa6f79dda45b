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
    """A token as it came from the database, not opened yet."""

    token: str


class DecryptingAttribute(DeferredAttribute):
    """Opens a sealed value when it is asked for, so that a list of things costs nothing and needs no key."""

    field: Any

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, EncryptedValue):
            opened = decrypt(value.token, self.field.get_binding(instance))
            value = instance.__dict__[self.field.attname] = opened
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class EncryptedTextField(models.TextField):
    """A text that is plain on a model instance and a token in the database; it cannot be searched.

    `bound_to` names columns that never change and tell the row from all others: a token that somebody copies
    to another row cannot be read there. A bound column is written with its row, never by an update.
    Without it, a token can be read in its column alone.
    Reading it may raise `DecryptionFailed`; `values()` gives it `EncryptedValue`.
    """

    descriptor_class = DecryptingAttribute

    def __init__(self, *args: Any, bound_to: Iterable[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        # Not among what migrations write down: the column is the same.
        self.bound_to = tuple(bound_to)

    def get_binding(self, instance: models.Model) -> str:
        """Where the value of an instance belongs."""
        return self.build_binding([getattr(instance, name) for name in self.bound_to])

    def build_binding(self, values: Iterable[Any]) -> str:
        """Return the place that is told by the values of the columns it is bound to."""
        return json.dumps([self.model._meta.db_table, self.column, *map(str, values)])

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return the token, bound to the row; what was never opened stays as it is."""
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
