"""Encrypts what must not be readable in the database; the first key writes, every key may read."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute


class WrongKey(Exception):
    """A stored value was encrypted with a key that this process does not have."""

    def __init__(self) -> None:
        super().__init__(
            "A stored secret cannot be read: FIELD_ENCRYPTION_KEY lacks the key it was written with."
        )


def encrypt(text: str) -> str:
    """Make an opaque token of the text."""
    return _keys(tuple(settings.FIELD_ENCRYPTION_KEYS)).encrypt(text.encode()).decode()


def decrypt(token: str) -> str:
    """Read a token of `encrypt`. Raises `WrongKey` if no key fits or the token was tampered with."""
    try:
        return _keys(tuple(settings.FIELD_ENCRYPTION_KEYS)).decrypt(token.encode()).decode()
    except InvalidToken as exc:
        raise WrongKey from exc


def rotate(token: str) -> str:
    """The same text under the first key."""
    return encrypt(decrypt(token))


def key_of(token: str) -> int | None:
    """The number of the key that a token was written with: 0 is the first, None where no key fits."""
    for number, key in enumerate(settings.FIELD_ENCRYPTION_KEYS):
        try:
            _keys((key,)).decrypt(token.encode())
        except InvalidToken:
            continue
        return number
    return None


def key_names() -> list[str]:
    """What to call the keys in front of people: the beginning of each one's hash, in their order."""
    return [sha256(key.encode()).hexdigest()[:8] for key in settings.FIELD_ENCRYPTION_KEYS]


@lru_cache(maxsize=16)
def _keys(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


@dataclass(frozen=True)
class Sealed:
    """A token as it came from the database, not opened yet."""

    token: str


class Opening(DeferredAttribute):
    """Opens a sealed value when it is asked for, so that a list of things costs nothing and needs no key."""

    field: Any

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, Sealed):
            value = instance.__dict__[self.field.attname] = decrypt(value.token)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class EncryptedTextField(models.TextField):
    """A text that is plain on a model instance and a token in the database; it cannot be searched.

    Reading it may raise `WrongKey`; `values()` gives it `Sealed`.
    """

    descriptor_class = Opening

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, Sealed):
            return value.token
        prepared = super().get_prep_value(value)
        return prepared if prepared is None or prepared == "" else encrypt(prepared)

    def from_db_value(self, value: Any, _expression: Any, _connection: Any) -> Any:
        return value if value is None or value == "" else Sealed(value)
