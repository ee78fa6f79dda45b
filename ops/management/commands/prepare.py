"""`manage.py prepare`: migrations, static files and demo in one process, as starting one costs a second."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Bring database, static files and demo up to date."""

    help = "Migrates, collects static files and seeds the demo; what is done already is left alone."

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=options["verbosity"])
        call_command("collectstatic", interactive=False, verbosity=0)
        call_command("seed_demo", verbosity=options["verbosity"])
