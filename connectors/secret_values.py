"""Values of secrets, stored or read in secret managers, with a short cache in memory.

What is read through a delegate is registered from above, because connectors know no delegates.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db import transaction
from django.utils import timezone

from connectors.models import Secret
from connectors.secret_managers.base import SecretPending, SecretReference, SecretUnreadable, fetch_reference
from rbac.encryption import DecryptionFailed
from web.clock import get_database_time

CACHE_SECONDS: Final = 60.0
"""A value that changes in its manager is used after this time at the latest."""
FAILURE_SECONDS: Final = 5.0
MAX_CACHED_VALUES: Final = 256
MAX_CHAIN: Final = 5

REFRESH_SECONDS: Final = 30.0
"""A value that a delegate has read is read again after this time, and used meanwhile."""

_CacheKey = tuple[int, datetime]


@dataclass(frozen=True)
class RemoteValue:
    """Value that a delegate has read, and the seconds since then."""

    value: str = field(repr=False)
    age_seconds: float


RemoteReader = Callable[[Secret, str, datetime | None], RemoteValue]
_remote_readers: list[RemoteReader] = []


def register_remote_reader(reader: RemoteReader) -> None:
    """Register the only function that reads secrets through delegates.

    It takes the secret, what needs the value, and the moment before which a read is too old, if any. It
    raises `SecretUnreadable`, and `SecretPending` until a delegate has answered.
    """
    _remote_readers[:] = [reader]


# Secrets whose references are being read: a manager's own login may be a reference again.
_open_reads: ContextVar[tuple[int, ...]] = ContextVar("open_secret_reads", default=())


@dataclass(frozen=True)
class _CachedRead:
    """A value, or the reason why there is none, until a moment of `time.monotonic`."""

    expires_at: float
    value: str = field(default="", repr=False)
    problem: str = ""


class _ValueCache:
    """Values of references in this process: few, for a short time, never on disk."""

    def __init__(self) -> None:
        self._reads: OrderedDict[_CacheKey, _CachedRead] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _CacheKey) -> _CachedRead | None:
        with self._lock:
            read = self._reads.get(key)
            if read is not None and read.expires_at <= time.monotonic():
                del self._reads[key]
                return None
            return read

    def put(self, key: _CacheKey, read: _CachedRead) -> None:
        with self._lock:
            self._reads[key] = read
            self._reads.move_to_end(key)
            while len(self._reads) > MAX_CACHED_VALUES:
                self._reads.popitem(last=False)

    def remove(self, key: _CacheKey) -> None:
        with self._lock:
            self._reads.pop(key, None)

    def clear(self) -> None:
        """Forget all values; a forked worker also gets its own lock."""
        self._lock = threading.Lock()
        self._reads.clear()


_cache = _ValueCache()
os.register_at_fork(after_in_child=_cache.clear)


def clear_cached_values() -> None:
    """Forget the values of all references in this process."""
    _cache.clear()


def read_secret_value(secret: Secret, *, reader: str) -> str:
    """Return the value of a secret; a reference is read in its manager, at most once a minute.

    `reader` says what needs the value, for the page of the secret. Raises `SecretUnreadable`, and
    `SecretPending` if a delegate has not read it within some seconds, or in a transaction at once.
    """
    if not secret.is_reference:
        return _decrypt(secret)
    key = (secret.pk, secret.updated_at)
    read = _cache.get(key)
    if read is None:
        read = _read_reference(secret, reader, since=None)
        _cache.put(key, read)
    if read.problem:
        raise SecretUnreadable(read.problem)
    return read.value


def fetch_secret_value(secret: Secret, *, reader: str) -> str:
    """Return the value of a secret as its manager has it now. Raises `SecretUnreadable`."""
    if not secret.is_reference:
        return _decrypt(secret)
    key = (secret.pk, secret.updated_at)
    _cache.remove(key)
    read = _read_reference(secret, reader, since=get_database_time())
    _cache.put(key, read)
    if read.problem:
        raise SecretUnreadable(read.problem)
    return read.value


def _decrypt(secret: Secret) -> str:
    try:
        return secret.value
    except DecryptionFailed as problem:
        raise SecretUnreadable(str(problem)) from problem


def _read_reference(secret: Secret, reader: str, since: datetime | None) -> _CachedRead:
    value = problem = ""
    is_remote, seconds = False, CACHE_SECONDS
    try:
        with _guard_chain(secret):
            # Loaded again: callers rarely load the manager, and its login, with a secret.
            row = Secret.objects.select_related("manager_connector__secret").get(pk=secret.pk)
            reference = SecretReference.from_secret(row)
            if is_remote := reference.is_remote:
                remote = _remote_readers[0](row, reader, since)
                # Asked again early, so that a new read begins before the value is too old.
                value, seconds = remote.value, REFRESH_SECONDS - remote.age_seconds
            else:
                value = fetch_reference(reference)
    except SecretPending:
        raise
    except Secret.DoesNotExist:
        problem = f"The secret {secret} was deleted."
    except SecretUnreadable as unreadable:
        problem = str(unreadable)
    if not is_remote:
        record_read(secret, reader, problem)
    seconds = FAILURE_SECONDS if problem else seconds
    return _CachedRead(time.monotonic() + seconds, value, problem)


@contextmanager
def _guard_chain(secret: Secret) -> Iterator[None]:
    """Refuse a reference that needs itself, or too many others, to be read."""
    chain = _open_reads.get()
    if secret.pk in chain or len(chain) >= MAX_CHAIN:
        raise SecretUnreadable(
            f"The secret {secret} needs itself, or more than {MAX_CHAIN} other references, to be read. Store "
            "the login of its secret manager as a value."
        )
    token = _open_reads.set((*chain, secret.pk))
    try:
        yield
    finally:
        _open_reads.reset(token)


def record_read(secret: Secret, reader: str, problem: str) -> None:
    """Record a read for the page of the secret, after the commit, so that no transaction holds the row."""
    now = timezone.now()

    def write() -> None:
        Secret.objects.filter(pk=secret.pk).update(
            last_read_at=now, last_read_by=reader[:255], last_read_problem=problem
        )

    transaction.on_commit(write)
