"""Tells whether anything that preparing depends on has changed since it was last done."""

import hashlib
import os
from pathlib import Path
from typing import Final

from django.conf import settings

# These prepare nothing.
_ASIDE: Final = {"tests", "benchmarks"}
_VARIABLES = ("SLIPWAY_DEMO_PASSWORD", "SLIPWAY_DEMO_API_KEY", "DATABASE_URL", "PUBLIC_URL")


def current() -> str:
    """A digest of the code, the static files, the database file and the settings that the demo is made of."""
    digest = hashlib.sha256()
    for path in sorted(_files()):
        status = path.stat()
        digest.update(f"{path}\0{status.st_mtime_ns}\0{status.st_size}\n".encode(errors="surrogateescape"))
    for name in _VARIABLES:
        digest.update(f"{name}={os.environ.get(name, '')}\n".encode(errors="surrogateescape"))
    digest.update(f"{settings.SANDBOX_URL}\n{_database_file()}\n".encode())
    return digest.hexdigest()


def kept() -> str:
    """The digest of the last time, or nothing when there is none or the database is not a file of ours."""
    try:
        return (settings.HOME / "prepared").read_text()
    except FileNotFoundError:
        return ""


def keep() -> None:
    """Remember that everything is prepared as things are now."""
    (settings.HOME / "prepared").write_text(current())


def _files() -> list[Path]:
    packages = (path.parent for path in settings.ROOT.glob("*/__init__.py"))
    folders = [settings.ROOT / "static", *(folder for folder in packages if folder.name not in _ASIDE)]
    return [path for folder in folders for path in folder.rglob("*") if path.suffix != ".pyc"]


def _database_file() -> str:
    """What identifies the database: a file that was removed and made again is another one."""
    database = settings.DATABASES["default"]
    if "sqlite3" not in str(database["ENGINE"]):
        # Nobody can tell from here what happened to a database elsewhere.
        return os.urandom(16).hex()
    try:
        return str(Path(str(database["NAME"])).stat().st_ino)
    except FileNotFoundError:
        return "absent"
