"""Pool of users that tasks run as, one task at a time each."""

import contextlib
import fcntl
import os
import random
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from delegates.agent.isolation.removal import remove_owned


class CannotIsolate(Exception):
    """Error raised when a command cannot start in isolation; the text names the refused operation."""


# The image of the agent has names for the first range; the second is for rootless containers, which map few.
RANGES = (range(200_000, 201_000), range(60_000, 61_000))
# Where every user may leave files.
SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")
# The second path is for a container with read-only files.
_LOCK_PLACES = ("/run", "/tmp")
_UID_MAP = Path("/proc/self/uid_map")


@contextlib.contextmanager
def lease_user() -> Iterator[int]:
    """Lock a user that no other task of this machine uses. Raises `CannotIsolate` if all are in use.

    One process at a time locks a file; the lock ends with the process.
    """
    folder = _lock_folder()
    for user in _rotation.next():
        lock = os.open(f"{folder}/{user}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield user
            return
        finally:
            os.close(lock)
    raise CannotIsolate("every user of the pool runs a task: lower SLIPWAY_DELEGATE_CAPACITY")


def _lock_folder() -> str:
    """Return a folder that only root can enter; a folder open to tasks could be taken by one of them."""
    for place in _LOCK_PLACES:
        folder = f"{place}/slipway-task-users"
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            status = os.lstat(folder)
            is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if is_own and not status.st_mode & 0o077 and os.access(folder, os.W_OK):
                return folder
    raise CannotIsolate(f"no folder for locks of users can be made in {' or '.join(_LOCK_PLACES)}")


class _UserRotation:
    """Rotation of users from a random start, so that a recently used one rests the longest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = random.randrange(len(RANGES[0]))  # noqa: S311  -- to spread, not to hide

    def next(self) -> Iterator[int]:
        users = get_mapped_range()
        for _ in users:
            with self._lock:
                self._next = (self._next + 1) % len(users)
                user = users[self._next]
            yield user


_rotation = _UserRotation()


def get_mapped_range() -> range:
    """Return the first user range that this machine or container maps completely."""
    with contextlib.suppress(OSError, ValueError):
        mapped_ranges = [
            range(int(first), int(first) + int(count))
            for first, _, count in (line.split() for line in _UID_MAP.read_text().splitlines())
        ]
        for users in RANGES:
            if any(users[0] in mapped_range and users[-1] in mapped_range for mapped_range in mapped_ranges):
                return users
    return RANGES[0]


def remove_user_files(user: int, folders: tuple[str, ...] = SHARED_FOLDERS) -> None:
    """Delete a user's files in world-writable folders: the user's next task must not find them."""
    for folder in folders:
        # The folder of a workspace is the group's only.
        remove_owned(folder, lambda status: user in (status.st_uid, status.st_gid))
