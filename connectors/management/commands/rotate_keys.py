"""Command that re-encrypts all values with the first key of FIELD_ENCRYPTION_KEY."""

import time
from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from connectors.key_rotation import (
    UNKNOWN_KEY,
    RotatableColumn,
    count_keys,
    get_first_key_name,
    list_rotatable_columns,
    rotate_column,
)

SECONDS_BETWEEN_LINES = 5.0


class Command(BaseCommand):
    """Command that rotates the keys of a running installation; an interrupted run can be repeated."""

    help = (
        "Re-encrypt all encrypted values with the first key of FIELD_ENCRYPTION_KEY. First put the new "
        "key in front of the old keys for every process. Remove the old keys when the command has "
        "finished."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--check",
            action="store_true",
            help="only report the keys in use; fails unless all values use the first key",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            self._check()
        else:
            self._rotate()

    def _check(self) -> None:
        used: Counter[str] = Counter()
        for column in list_rotatable_columns():
            key_counts = count_keys(column)
            used += key_counts
            counts = [f"{count:,} under {name}" for name, count in sorted(key_counts.items())]
            self.stdout.write(f"{column}: {', '.join(counts) or 'no values'}")
        if used[UNKNOWN_KEY]:
            raise CommandError(_describe_unreadable(used[UNKNOWN_KEY]))
        if older := used.total() - used[get_first_key_name()]:
            raise CommandError(f"{older:,} values use an older key or format. Run manage rotate_keys.")
        self.stdout.write(f"All values use {get_first_key_name()}, the first key. Other keys can be removed.")

    def _rotate(self) -> None:
        unreadable = 0
        for column in list_rotatable_columns():
            done = rotate_column(column, report_progress=_Progress(self, column))
            unreadable += done.unreadable
            self.stdout.write(f"{column}: {done.rotated:,} of {done.values:,} values re-encrypted")
        if unreadable:
            raise CommandError(_describe_unreadable(unreadable))
        self.stdout.write(f"All values use {get_first_key_name()}, the first key.")


class _Progress:
    """Progress output for large tables."""

    def __init__(self, command: Command, column: RotatableColumn) -> None:
        self._command, self._column = command, column
        self._reported_at = time.monotonic()

    def __call__(self, values: int) -> None:
        if time.monotonic() - self._reported_at >= SECONDS_BETWEEN_LINES:
            self._reported_at = time.monotonic()
            self._command.stdout.write(f"{self._column}: {values:,} values so far")


def _describe_unreadable(count: int) -> str:
    return (
        f"{count:,} values could not be decrypted: FIELD_ENCRYPTION_KEY lacks their key, or they were "
        "changed in the database. Add the missing key after the first one, and run the command again."
    )
