"""The product's `migrate`, which copies what it came to the last time where a test database is made."""

from pathlib import Path
from typing import Any

from django.db import connections

from ops.management.commands import migrate
from tests.database.rows import remember_migrated
from tests.database.template import fill


class Command(migrate.Command):
    """Only who makes a test database asks for tables of apps without migrations, too."""

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if options["run_syncdb"] and connection.settings_dict["TEST"].get("TEMPLATE"):
            return
        if not options["run_syncdb"] or connection.vendor != "sqlite":
            super().handle(*args, **options)
            return

        def migrated() -> None:
            super(Command, self).handle(*args, **options)
            connection.close()

        connection.close()
        fill(Path(connection.settings_dict["NAME"]), migrated)
        remember_migrated()
