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

    help = "Migrates, collects static files and seeds the demo; what is done already is left alone."

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
            "This database was made before the first release and is not brought over. Start with an empty "
            f"one: set another SLIPWAY_HOME or delete {settings.HOME}, or change DATABASE_URL."
        )
