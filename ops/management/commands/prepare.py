"""`manage.py prepare`: migrations, static files and demo in one process, as starting one costs a second."""

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

# Apps that had tables of their own before each app's migrations were made anew.
FORMER_APPS = {"drift", "instances"}


class Command(BaseCommand):
    """Bring database, static files and demo up to date."""

    help = "Migrate the database, collect static files and seed the demo. Completed steps are skipped."

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_former_state()
        call_command("migrate", interactive=False, verbosity=options["verbosity"])
        call_command("collectstatic", interactive=False, verbosity=0)
        call_command("seed_demo", verbosity=options["verbosity"])


def refuse_former_state() -> None:
    """Raise `CommandError` for a database with tables from before the first release."""
    applied = {app for app, _ in MigrationRecorder(connection).applied_migrations()}
    if applied & FORMER_APPS:
        raise CommandError(
            "This database is from before the first release and cannot be migrated. Use an empty "
            f"database: set another SLIPWAY_HOME, delete {settings.HOME}, or change DATABASE_URL."
        )
