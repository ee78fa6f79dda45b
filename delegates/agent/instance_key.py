"""The key pair that binds an instance to this agent: made at its first start, kept where it has a disk."""

import base64
import fcntl
import logging
import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

FILE = "instance-key.pem"
_CONTEXT = "slipway-delegate registration 1"
log = logging.getLogger("slipway.delegate")


def registration_message(*, challenge: str, account_id: str, name: str, instance_key: str) -> bytes:
    """What an agent signs to register: the manager's challenge, and who the agent says it is."""
    return "\n".join((_CONTEXT, challenge, account_id, name, instance_key)).encode()


class InstanceKey:
    """An Ed25519 key pair; `lock` is the descriptor of the locked file that keeps it for this process."""

    def __init__(self, private: Ed25519PrivateKey, lock: int | None = None) -> None:
        self._private, self._lock = private, lock

    @property
    def public(self) -> str:
        """The 32 bytes of the public key as base64."""
        return base64.b64encode(self._private.public_key().public_bytes_raw()).decode()

    def sign(self, message: bytes) -> str:
        """The signature as base64."""
        return base64.b64encode(self._private.sign(message)).decode()

    def close(self) -> None:
        """Leave the file to the next process."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def load_instance_key(folder: Path) -> InstanceKey:
    """The key pair of a folder, made if there is none; one in memory where the folder cannot hold it.

    Two processes with one folder are two instances: the second one gets a key pair in memory.
    """
    path = folder / FILE
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.fchmod(file, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return InstanceKey(_read(file, path) or _make(file), file)
    except BlockingIOError:
        os.close(file)
        log.warning("Another process uses %s: this one makes a key pair in memory", path)
    except OSError as problem:
        log.warning("No key pair can be kept in %s, a restart makes a new one: %s", path, problem)
    return InstanceKey(Ed25519PrivateKey.generate())


def _read(file: int, path: Path) -> Ed25519PrivateKey | None:
    content = os.pread(file, 4096, 0)
    if not content:
        return None
    try:
        private = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if isinstance(private, Ed25519PrivateKey):
        return private
    log.error("%s is damaged: a new key pair is made", path)
    return None


def _make(file: int) -> Ed25519PrivateKey:
    private = Ed25519PrivateKey.generate()
    os.ftruncate(file, 0)
    os.pwrite(file, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0)
    os.fsync(file)
    return private
