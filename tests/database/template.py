"""The migrated test database is kept from one run to the next: migrating takes longer than most tests."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from django.conf import settings

ROOT = Path(__file__).resolve().parents[2]
# What decides what an empty database looks like after all migrations.
SOURCES = (
    "*/migrations/*.py",
    "rbac/**/*.py",
    "delegates/models/*.py",
    "delegates/models/delegates.py",
    "*.lock",
)
# Of other versions of the code; whoever goes back and forth between branches needs some.
KEPT = 10


def _folder() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "slipway-tests"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def fingerprint() -> str:
    """Return a digest of the sources that decide the result of the migrations."""
    digest = hashlib.sha256()
    versions = [version("django"), sqlite3.sqlite_version, *settings.INSTALLED_APPS]
    digest.update("\n".join(versions).encode())
    for path in sorted({path for pattern in SOURCES for path in ROOT.glob(pattern)}):
        content = path.read_bytes()
        digest.update(f"\n{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:32]


@contextlib.contextmanager
def _hold_lock(lock: Path) -> Iterator[None]:
    with lock.open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield


def fill(database: Path, migrate: Callable[[], None]) -> None:
    """Give an empty SQLite database all tables: a copy of those that were migrated before, else by `migrate`.

    Processes that begin together migrate once: the others wait for the first one.
    """
    folder = _folder()
    template = folder / f"{fingerprint()}.sqlite3"
    with _hold_lock(template.with_suffix(".lock")):
        if not template.exists():
            migrate()
            _save_template(database, template)
            return
    shutil.copyfile(template, database)
    os.utime(template)


def _save_template(database: Path, template: Path) -> None:
    half = template.with_suffix(f".{os.getpid()}")
    # Not by copying the file: what was written last may lie beside it.
    with (
        contextlib.closing(sqlite3.connect(database)) as made,
        contextlib.closing(sqlite3.connect(half)) as copy,
    ):
        made.backup(copy)
    half.replace(template)
    older = sorted(template.parent.glob("*.sqlite3"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in older[KEPT:]:
        path.unlink(missing_ok=True)
        path.with_suffix(".lock").unlink(missing_ok=True)
