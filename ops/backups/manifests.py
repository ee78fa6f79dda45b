"""Manifest of a backup: what it is, what it needs, and what refuses it."""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import django
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from ops.backups.schema_fingerprints import compute_schema
from ops.migration_files import list_migrations
from rbac.encryption import get_key_name

PRODUCT: Final = "slipway"
FORMAT: Final = 2
MANIFEST_NAME: Final = "manifest.json"
DUMP_NAME: Final = "database.dump"
MOST_NAMES: Final = 5


class BackupError(Exception):
    """A backup cannot be made or restored; the message says why, and what to do."""


@dataclass(frozen=True)
class BackupManifest:
    """Content of `manifest.json`.

    `migrations` are those that are applied, as "app.name", and `schema` has a fingerprint of their tables by
    app, which `django`, a version without its patch, computed. `keys` are the names of the encryption keys,
    which are hashes; no key is in a backup. `checksum` is the SHA-256 of the dump.
    """

    id: str
    created_at: str
    version: str
    database: str
    migrations: tuple[str, ...]
    schema: dict[str, str]
    django: str
    keys: tuple[str, ...]
    checksum: str
    product: str = PRODUCT
    format: int = FORMAT

    @property
    def taken_at(self) -> datetime:
        return datetime.fromisoformat(self.created_at)


def build_manifest(dump: Path, taken_at: datetime) -> BackupManifest:
    """Return the manifest of a dump of this installation's database. Raises `BackupError`."""
    migrations = list_applied_migrations()
    if unknown := _find_unknown_migrations(migrations):
        raise BackupError(
            f"This is Slipway {settings.SLIPWAY_VERSION}, which does not know {_list_some(unknown)}. Back up "
            "with the version that migrated the database."
        )
    return BackupManifest(
        id=str(uuid4()),
        created_at=taken_at.astimezone(UTC).isoformat(),
        version=settings.SLIPWAY_VERSION,
        database=connection.vendor,
        migrations=migrations,
        schema=compute_schema(migrations),
        django=_DJANGO,
        keys=list_key_names(),
        checksum=compute_checksum(dump),
    )


def require_migrated_database(consequence: str) -> None:
    """Raise `BackupError` for a database without tables of Slipway: it is another one than is meant."""
    if not list_applied_migrations():
        raise BackupError(
            f"The database has no tables of Slipway, so {consequence}. Check DATABASE_URL, or SLIPWAY_HOME "
            "where it is not set."
        )


def list_applied_migrations() -> tuple[str, ...]:
    """Return the migrations that are applied to the database, as "app.name"."""
    applied = MigrationRecorder(connection).applied_migrations()
    return tuple(sorted(f"{app}.{name}" for app, name in applied))


def list_key_names() -> tuple[str, ...]:
    """Return the names of the encryption keys of this process, the one that encrypts first."""
    return tuple(get_key_name(key) for key in settings.FIELD_ENCRYPTION_KEYS)


def compute_checksum(dump: Path) -> str:
    """Return the SHA-256 of a file."""
    with dump.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path, manifest: BackupManifest) -> None:
    """Write the manifest, which makes a folder a complete backup."""
    (folder / MANIFEST_NAME).write_text(json.dumps(asdict(manifest), indent=2) + "\n")


def read_manifest(folder: Path) -> BackupManifest:
    """Return the manifest of a complete backup. Raises `BackupError`."""
    try:
        document = json.loads((folder / MANIFEST_NAME).read_text())
    except FileNotFoundError as exc:
        raise BackupError(f"{folder} has no {MANIFEST_NAME}: it is no backup, or an incomplete one.") from exc
    except (OSError, ValueError) as exc:
        raise BackupError(f"{folder / MANIFEST_NAME} cannot be read: {exc}") from exc
    return _parse(folder, document)


def _parse(folder: Path, document: Any) -> BackupManifest:
    if not isinstance(document, dict) or document.get("product") != PRODUCT:
        raise BackupError(f"{folder} is not a backup of Slipway.")
    if document.get("format") != FORMAT:
        raise BackupError(
            f"{folder} has format {document.get('format')}; this version of Slipway reads format {FORMAT}."
        )
    try:
        tuples = {name: tuple(document[name]) for name in ("migrations", "keys")}
        fields = {**document, **tuples, "schema": dict(document["schema"])}
        manifest = BackupManifest(**fields)
        _ = manifest.taken_at
    except (KeyError, TypeError, ValueError) as exc:
        raise BackupError(f"{folder / MANIFEST_NAME} is damaged: {exc}") from exc
    return manifest


def require_restorable(folder: Path, manifest: BackupManifest) -> None:
    """Raise `BackupError` for a backup that is damaged, newer, of another database, or without its keys."""
    dump = folder / DUMP_NAME
    if not dump.is_file() or compute_checksum(dump) != manifest.checksum:
        raise BackupError(f"{dump} is missing or damaged: its checksum differs from the manifest.")
    if manifest.database != connection.vendor:
        raise BackupError(
            f"The backup is of {manifest.database}, but DATABASE_URL names {connection.vendor}. "
            "Restore it into the same kind of database."
        )
    if not manifest.migrations:
        raise BackupError(f"{folder} has no tables of Slipway: it was made of an empty database.")
    require_known_migrations(manifest)
    require_same_schema(manifest)
    if missing := [key for key in manifest.keys if key not in list_key_names()]:
        raise BackupError(
            f"The backup needs the encryption {_plural('key', missing)} {', '.join(missing)}, but here are "
            f"{', '.join(list_key_names())}. Add the missing to FIELD_ENCRYPTION_KEY: no key is in a backup."
        )


def require_known_migrations(manifest: BackupManifest) -> None:
    """Raise `BackupError` for a backup of a newer version, whose tables this one does not know."""
    if unknown := _find_unknown_migrations(manifest.migrations):
        raise BackupError(
            f"Slipway {manifest.version} made the backup, this is {settings.SLIPWAY_VERSION}, which does not "
            f"know {_list_some(unknown)}. Restore it with version {manifest.version} or newer."
        )


def _find_unknown_migrations(migrations: Collection[str]) -> list[str]:
    known = {f"{app}.{name}" for app, name in list_migrations()}
    return [name for name in migrations if name not in known and name.split(".")[0] not in _OPTIONAL_APPS]


def require_same_schema(manifest: BackupManifest) -> None:
    """Raise `BackupError` if migrations of the same names make other tables here than in the backup."""
    if manifest.django != _DJANGO:
        # Another Django may describe the same tables differently. Landed migrations are not edited.
        return
    here = compute_schema(manifest.migrations)
    if differing := [app for app in here | manifest.schema if here.get(app) != manifest.schema.get(app)]:
        raise BackupError(
            f"The migrations of {_list_some(differing)} make other tables here than in the backup: they were "
            f"edited in between. Restore it with the code that made it, a build of {manifest.version}."
        )


_DJANGO: Final = ".".join(map(str, django.VERSION[:2]))
# Apps that only some installations have.
_OPTIONAL_APPS: Final = {"sandbox"}


def _list_some(names: Collection[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - MOST_NAMES} more" if len(ordered) > MOST_NAMES else ""
    return f"{', '.join(ordered[:MOST_NAMES])}{more}"


def _plural(noun: str, items: Collection[object]) -> str:
    return noun if len(items) == 1 else f"{noun}s"
