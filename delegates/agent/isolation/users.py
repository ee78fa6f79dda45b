"""The pool of users that tasks run as, one task at a time each."""

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from delegates.agent.isolation.levels import CannotIsolate
from delegates.agent.isolation.removing import remove_owned

# The image of the agent has names for the first range; the second is for rootless containers, which map few.
RANGES = (range(200_000, 201_000), range(60_000, 61_000))
# Where every user may leave files.
SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")
_UID_MAP = Path("/proc/self/uid_map")


@contextlib.contextmanager
def lease_user() -> Iterator[int]:
    """Lend a user that no other task of this machine has. Raises `CannotIsolate` where all are taken.

    The name of a socket is taken by one process at a time, and is free again however that process ends.
    """
    for user in _turns.next():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
            try:
                lock.bind(f"\0slipway-task-user-{user}")
            except OSError:
                continue
            yield user
            return
    raise CannotIsolate("every user of the pool runs a task: lower SLIPWAY_DELEGATE_CAPACITY")


class _Turns:
    """Users in turn, from a random one on, so that one which was used just now rests the longest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = random.randrange(len(RANGES[0]))  # noqa: S311  -- to spread, not to hide

    def next(self) -> Iterator[int]:
        users = mapped_range()
        for _ in users:
            with self._lock:
                self._next = (self._next + 1) % len(users)
                user = users[self._next]
            yield user


_turns = _Turns()


def mapped_range() -> range:
    """Return the first range of which this machine or container knows every user."""
    with contextlib.suppress(OSError, ValueError):
        known = [
            range(int(first), int(first) + int(count))
            for first, _, count in (line.split() for line in _UID_MAP.read_text().splitlines())
        ]
        for users in RANGES:
            if any(users[0] in one and users[-1] in one for one in known):
                return users
    return RANGES[0]


def remove_files_of(user: int, folders: tuple[str, ...] = SHARED_FOLDERS) -> None:
    """Delete what a user left where every user may write: the next task with this user must not find it."""
    for folder in folders:
        # The folder of a workspace is the group's only.
        remove_owned(folder, lambda status: user in (status.st_uid, status.st_gid))
