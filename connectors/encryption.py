"""Encrypts what must not be readable in the database; the first key writes, every key may read."""

from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models


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


@lru_cache(maxsize=4)
def _keys(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


class EncryptedTextField(models.TextField):
    """A text that is plain in Python and a token in the database; it cannot be searched."""

    def get_prep_value(self, value: Any) -> Any:
        prepared = super().get_prep_value(value)
        return prepared if prepared is None or prepared == "" else encrypt(prepared)

    def from_db_value(self, value: Any, _expression: Any, _connection: Any) -> Any:
        return value if value is None or value == "" else decrypt(value)
