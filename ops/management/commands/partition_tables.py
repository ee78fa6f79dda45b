"""`manage.py partition_tables`: divides logs, AWS calls and AWS events into months, on PostgreSQL."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from deployments.partitions import (
    PARTITIONED_TABLES,
    PartitionsUnsupported,
    convert_tables,
    count_rows,
    plan_conversion,
)
from web.clock import get_database_time


class Command(BaseCommand):
    """Command that shows or does the conversion; it can be run again at any time."""

    help = (
        "Divide the tables of logs, AWS calls and AWS events into monthly partitions on PostgreSQL. Without "
        "--apply, print the statements. A killed conversion goes on with the next --apply."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument("--plan", action="store_true", help="print the statements; the default")
        mode.add_argument("--apply", action="store_true", help="convert the tables")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._apply() if options["apply"] else self._print_plan()
        except PartitionsUnsupported as exc:
            raise CommandError(str(exc)) from exc
        except OperationalError as exc:
            raise CommandError(
                f"A step of the conversion was not done: {exc}Nothing of it is left behind. Run "
                "--apply again; it goes on with this step."
            ) from exc

    def _apply(self) -> None:
        for title in convert_tables(get_database_time().date()):
            self.stdout.write(title)
        for table in PARTITIONED_TABLES:
            for name, rows in count_rows(table).items():
                self.stdout.write(f"  {name}: about {rows:,} rows")

    def _print_plan(self) -> None:
        steps = list(plan_conversion(get_database_time().date()))
        for title, statements in steps:
            self.stdout.write(f"-- {title}\nBEGIN;")
            for statement in statements:
                self.stdout.write(f"{statement};")
            self.stdout.write("COMMIT;\n")
        if not steps:
            self.stdout.write("The tables are partitioned, and the months ahead exist.")
