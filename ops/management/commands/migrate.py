"""`manage.py migrate`: Django's, which refuses a database whose restore is unfinished."""

from typing import Any

from django.core.management.commands import migrate

from ops.backups.unfinished import refuse_unfinished_restore


class Command(migrate.Command):
    """Command that migrates the database."""

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_unfinished_restore()
        super().handle(*args, **options)
