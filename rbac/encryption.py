"""Encryption of stored values with AES-256-GCM; the first key writes, every key may read.

A token is `2.<key>.<nonce and AES-256-GCM ciphertext>`. It is bound to its place, a text of the caller's:
moved to another place it cannot be read. Tokens from before (Fernet) have no place, and are read until
they are rotated.
"""

import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

# The place of second factor secrets: the library's rows do not name their user.
SECOND_FACTOR_CONTEXT: Final = "second factor"
_TOKEN_VERSION: Final = "2."  # noqa: S105 - no password
_NONCE_BYTES: Final = 12


class DecryptionFailed(Exception):
    """A stored value was encrypted with a key that this process does not have, or belongs elsewhere."""

    def __init__(self) -> None:
        super().__init__(
            "Could not decrypt a stored secret. Add the key it was encrypted with to "
            "FIELD_ENCRYPTION_KEY, or enter the secret again if the database row was changed."
        )


def encrypt(text: str, place: str = "") -> str:
    """Return a token of the text that can be decrypted only with the same `place`."""
    key = settings.FIELD_ENCRYPTION_KEYS[0]
    nonce = os.urandom(_NONCE_BYTES)
    sealed = nonce + _get_cipher(key).encrypt(nonce, text.encode(), place.encode())
    return f"{_TOKEN_VERSION}{get_key_name(key)}.{urlsafe_b64encode(sealed).decode()}"


def decrypt(token: str, place: str = "") -> str:
    """Read a token of `encrypt`.

    Raises `DecryptionFailed` if no key fits, the token was tampered with, or it was made for another place.
    """
    for key in _list_candidate_keys(token):
        try:
            return _decrypt_with(key, token, place)
        except (InvalidTag, InvalidToken, ValueError):
            continue
    raise DecryptionFailed


def compute_fingerprint(text: str) -> str:
    """Return a keyed digest of 64 characters, which equal texts share.

    Another first key gives another digest.
    """
    return hmac.digest(_get_fingerprint_key(settings.FIELD_ENCRYPTION_KEYS[0]), text.encode(), "sha256").hex()


def is_current_token(token: str) -> bool:
    """Return whether a token is under the first key, and bound to its place."""
    return token.startswith(f"{_TOKEN_VERSION}{get_key_name(settings.FIELD_ENCRYPTION_KEYS[0])}.")


def get_token_key_name(token: str, place: str = "") -> str | None:
    """Return the name of the key of a token, or None if it is unreadable."""
    for key in _list_candidate_keys(token):
        try:
            _decrypt_with(key, token, place)
        except (InvalidTag, InvalidToken, ValueError):
            continue
        return get_key_name(key)
    return None


def get_key_name(key: str) -> str:
    """Return the displayed name of a key: the beginning of its hash."""
    return sha256(key.encode()).hexdigest()[:8]


def _list_candidate_keys(token: str) -> list[str]:
    keys = list(settings.FIELD_ENCRYPTION_KEYS)
    if not token.startswith(_TOKEN_VERSION):
        return keys
    return [key for key in keys if token.startswith(f"{_TOKEN_VERSION}{get_key_name(key)}.")]


def _decrypt_with(key: str, token: str, place: str) -> str:
    if not token.startswith(_TOKEN_VERSION):
        return Fernet(key).decrypt(token.encode()).decode()
    sealed = urlsafe_b64decode(token.rpartition(".")[2])
    return _get_cipher(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place.encode()).decode()


@lru_cache(maxsize=16)
def _get_cipher(key: str) -> AESGCM:
    """Return the cipher of a key; never with the key itself, which the older tokens use in another way."""
    return AESGCM(_derive_key(key, b"slipway fields 2"))


@lru_cache(maxsize=16)
def _get_fingerprint_key(key: str) -> bytes:
    return _derive_key(key, b"slipway fingerprints")


def _derive_key(key: str, use: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=use).derive(urlsafe_b64decode(key))
