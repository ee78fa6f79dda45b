"""Django's `flush`, tried again where a process of the test's own stood in its way."""

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import flush

from web.outages import is_outage

TRIES = 8


class Command(flush.Command):
    """A manager that runs beside the tests may be inside a transaction; PostgreSQL ends one of the two."""

    def handle(self, **options: Any) -> None:
        for tried in range(1, TRIES + 1):
            try:
                super().handle(**options)
            except CommandError as error:
                if tried == TRIES or not is_outage(error.__cause__):
                    raise
                time.sleep(0.1 * tried)
            else:
                return
