"""Programs of PostgreSQL's client: the ones that fit the server, and the environment they run in."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from psycopg.conninfo import make_conninfo

from ops.backups.manifests import BackupError

# Debian and PostgreSQL's own packages keep one folder for each major version.
VERSION_FOLDERS: Final = Path("/usr/lib/postgresql")
# From 17 on, pg_dump and pg_restore set `transaction_timeout`, which older servers refuse:
# https://www.postgresql.org/docs/17/release-17.html
LAST_OLD_VERSION: Final = 16
# Nothing else is passed on: the environment of Slipway has its keys.
_PASSED_NAMES: Final = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
_PASSED_PREFIXES: Final = ("PG", "LC_", "SSL_", "KRB5")
_SERVICE: Final = "slipway"
_MOST_ERROR_CHARACTERS: Final = 1000
_HINTS: Final = {
    "version mismatch": "Use the client of the server's version.",
    "unsupported version": "A newer pg_dump wrote the dump. Restore it into the major version that it comes "
    "from, or into a newer one.",
}


def find_client(name: str, server_version: int) -> Path:
    """Return the program that fits a server of this major version. Raises `BackupError`."""
    versions = {path: _read_version(path) for path in _list_programs(name)}
    fitting = [path for path, version in versions.items() if fits_server(version, server_version)]
    if fitting:
        return min(fitting, key=lambda path: versions[path])
    needed = (
        f"{server_version} to {LAST_OLD_VERSION}" if server_version < LAST_OLD_VERSION else server_version
    )
    or_newer = " or newer" if server_version > LAST_OLD_VERSION else ""
    found = ", ".join(f"{path} is version {version}" for path, version in versions.items()) or "there is none"
    raise BackupError(
        f"PostgreSQL {server_version} needs {name} of version {needed}{or_newer}: {found}. Install "
        f"postgresql-client-{max(server_version, LAST_OLD_VERSION)} (https://apt.postgresql.org), or run "
        "this in the image of Slipway, which contains it."
    )


def fits_server(client_version: int, server_version: int) -> bool:
    """Return whether a client dumps a server, and restores into it."""
    is_same_age = (client_version <= LAST_OLD_VERSION) == (server_version <= LAST_OLD_VERSION)
    return client_version >= server_version and is_same_age


def run_client(program: Path, *arguments: str, parameters: Mapping[str, str] | None = None) -> None:
    """Run a program with only the variables that it needs. Raises `BackupError` with its last output.

    `parameters` are those of libpq for the connection, passwords included.
    """
    with _hide_passwords(parameters or {}) as (shown, variables):
        database = [f"--dbname={make_conninfo(**shown)}"] if shown else []
        result = subprocess.run(
            [str(program), *arguments, *database],
            env=_build_environment() | variables,
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode:
        message = " ".join(result.stderr.split())[-_MOST_ERROR_CHARACTERS:]
        hint = next((f" {hint}" for part, hint in _HINTS.items() if part in message), "")
        raise BackupError(f"{program.name} failed: {message}{hint}")


@contextmanager
def _hide_passwords(parameters: Mapping[str, str]) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yield the parameters without passwords, and variables with them: all users may read arguments.

    That of a client's key has no variable, only a place in a service file:
    https://www.postgresql.org/docs/16/libpq-pgservice.html
    """
    shown = dict(parameters)
    variables = {"PGPASSWORD": password} if (password := shown.pop("password", "")) else {}
    # Another service cannot be named beside one.
    if "service" in shown or not (key_password := shown.pop("sslpassword", "")):
        yield shown, variables
        return
    if key_password != key_password.rstrip() or len(key_password.splitlines()) > 1:
        raise BackupError(
            "The password of the client's key (sslpassword) must be one line without a space at its end."
        )
    # Only its owner may read it.
    with NamedTemporaryFile("w", prefix="slipway-pg-") as services:
        services.write(f"[{_SERVICE}]\nsslpassword={key_password}\n")
        services.flush()
        yield shown | {"service": _SERVICE}, variables | {"PGSERVICEFILE": services.name}


def _build_environment() -> dict[str, str]:
    """Return the variables of a program: its paths, language, and those of libpq."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_NAMES or name.startswith(_PASSED_PREFIXES)
    }


def _list_programs(name: str) -> list[Path]:
    installed = sorted(VERSION_FOLDERS.glob(f"*/bin/{name}"))
    on_path = shutil.which(name)
    return [*installed, Path(on_path)] if on_path else installed


def _read_version(program: Path) -> int:
    """Return the major version of a program; 0 if it names none."""
    command = [str(program), "--version"]
    result = subprocess.run(command, env=_build_environment(), capture_output=True, text=True, check=False)
    version = re.search(r"\(PostgreSQL\) (\d+)", result.stdout)
    return int(version[1]) if version else 0
