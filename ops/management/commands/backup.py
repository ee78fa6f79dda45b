"""`manage.py backup`: the database and a manifest, in a folder."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ops.backups.manifests import BackupError
from ops.backups.restores import create_backup


class Command(BaseCommand):
    """Command that writes a backup while Slipway runs."""

    help = "Write a backup of the database into a new folder, while Slipway runs. Keys are not part of it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="the new folder of the backup")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            manifest = create_backup(options["folder"])
        except BackupError as problem:
            raise CommandError(str(problem)) from problem
        size = sum(file.stat().st_size for file in options["folder"].iterdir())
        self.stdout.write(f"Backup {manifest.id} of {manifest.created_at}: {size:,} bytes.")
        self.stdout.write(
            f"It can be read only with the encryption keys {', '.join(manifest.keys)}, which are not in it. "
            f"Keep them elsewhere. They are in {_get_key_location()}."
        )


def _get_key_location() -> str:
    file = settings.HOME / "keys" / "field_encryption_key"
    return str(file) if settings.EMBEDDED and file.exists() else "FIELD_ENCRYPTION_KEY"
