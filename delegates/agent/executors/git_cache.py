"""Repositories of one commit each, kept for the next task that wants the same commit."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from guards.limits import GIT_CACHE_BYTES, GIT_CACHE_SECONDS

_WAIT_SECONDS = 0.05
# A folder that nobody finished: whoever filled it is dead.
_ABANDONED_SECONDS = 3600
_BEGUN = "begun-"


@dataclass(frozen=True)
class GitCache:
    """A folder of repositories by URL and commit, shared by all processes of one user.

    What a commit holds never changes; whether somebody may see it is asked of the server each time.
    """

    folder: Path

    @contextlib.contextmanager
    def held(
        self, url: str, commit: str, *, fill: Callable[[Path], str], wait: Callable[[], None]
    ) -> Iterator[Path]:
        """The repository of a commit while nobody else touches it; filled first where it is not there.

        `fill` fetches into a folder and says which commit came; `wait` is called while somebody else holds
        it, and may raise. Raises `OSError` where the folder cannot be used.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = hashlib.sha256(f"{url}\0{commit}".encode()).hexdigest()
        with self._locked(name, wait):
            place = self.folder / name
            if place.exists():
                os.utime(place)
                yield place
                return
            begun = Path(tempfile.mkdtemp(prefix=_BEGUN, dir=self.folder))
            try:
                if fill(begun) == commit:
                    begun.rename(place)
                    self._prune(keep=name)
                    yield place
                else:
                    # Somebody pushed meanwhile.
                    yield begun
            finally:
                shutil.rmtree(begun, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self, name: str, wait: Callable[[], None]) -> Iterator[None]:
        with (self.folder / f"lock-{name[:2]}").open("a") as lock:
            while not _taken(lock.fileno()):
                wait()
                time.sleep(_WAIT_SECONDS)
            yield

    def _prune(self, keep: str) -> None:
        """Leave out what is old, and the oldest of what is too much; what is in use stays."""
        now, left = time.time(), int(GIT_CACHE_BYTES)
        for used, path in sorted(self._entries(), reverse=True):
            if path.name.startswith(_BEGUN):
                is_wanted = now - used < _ABANDONED_SECONDS
            else:
                left -= _size(path)
                is_wanted = path.name == keep or (left >= 0 and now - used < GIT_CACHE_SECONDS)
            if not is_wanted:
                self._remove(path)

    def _entries(self) -> Iterator[tuple[float, Path]]:
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.is_dir():
                    yield path.stat().st_mtime, path

    def _remove(self, path: Path) -> None:
        with (self.folder / f"lock-{path.name[:2]}").open("a") as lock:
            if path.name.startswith(_BEGUN) or _taken(lock.fileno()):
                shutil.rmtree(path, ignore_errors=True)


def _taken(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _size(path: Path) -> int:
    found = 0
    for one in path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found += one.lstat().st_size
    return found
