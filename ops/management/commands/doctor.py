"""`manage.py doctor`: checks an installation and says the fix of what is wrong."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from guards.examinations import Result
from ops.doctor import examine_installation

WIDTH = 17


class Command(BaseCommand):
    """Command that exits with 1 if a check failed; warnings leave it at 0."""

    help = (
        "Check settings, database, migrations, encryption keys, administrators, broker, processes, clocks, "
        "storage, e-mail, AWS and versions, and say how to fix what is wrong. Nothing is changed, and no "
        "e-mail is sent."
    )
    # Django would end the command at the first failed check.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object a line")

    def handle(self, *args: Any, **options: Any) -> None:
        failed = warnings = 0
        for name, finding in examine_installation():
            failed += finding.result is Result.FAILED
            warnings += finding.result is Result.WARNING
            if options["json"]:
                row = {
                    "check": name,
                    "result": finding.result,
                    "message": finding.message,
                    "fix": finding.fix,
                }
                self.stdout.write(json.dumps(row))
                continue
            self.stdout.write(f"{finding.result:<8} {name:<{WIDTH}}{finding.message}")
            if finding.fix:
                self.stdout.write(f"{'':<{9 + WIDTH}}Fix: {finding.fix}")
        if not options["json"]:
            self.stdout.write(f"{failed} failed, {warnings} with a warning.")
        if failed:
            sys.exit(1)
