"""`manage.py restore`: a backup into the database, with everything paused that was under way."""

from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ops.backups.manifests import BackupError
from ops.backups.restores import RestoredState, check_backup, restore_backup, settle_snapshot


class Command(BaseCommand):
    """Command that restores a backup, checks one, or settles a database that was restored by other means."""

    help = (
        "Restore a backup. Executions that were under way wait for a person, and nothing that was queued is "
        "sent. Stop web, worker and beat first."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, nargs="?", help="the folder of the backup")
        parser.add_argument("--replace", action="store_true", help="replace a database that is not empty")
        parser.add_argument("--check", action="store_true", help="only check whether it could be restored")
        parser.add_argument(
            "--snapshot-of",
            type=datetime.fromisoformat,
            metavar="TIME",
            help="the database was restored from a snapshot of this time: only pause what was under way",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder, taken_at = options["folder"], options["snapshot_of"]
        if (folder is None) == (taken_at is None):
            raise CommandError("Name the folder of a backup, or the time of a snapshot with --snapshot-of.")
        if taken_at is not None and taken_at.tzinfo is None:
            raise CommandError("Name the time with its zone, such as 2026-11-26T10:00:00+00:00.")
        try:
            if taken_at is not None:
                self._report(settle_snapshot(taken_at))
            elif options["check"]:
                check_backup(folder)
                self.stdout.write("The backup can be restored here.")
            else:
                self._report(restore_backup(folder, replaces=options["replace"], report=self._report_part))
        except BackupError as problem:
            raise CommandError(str(problem)) from problem

    def _report_part(self, text: str) -> None:
        self.stdout.write(f"{text} …")
        self.stdout.flush()

    def _report(self, state: RestoredState) -> None:
        self.stdout.write(
            f"Restored. Waiting for a person: {state.executions} executions. Ended: {state.delegate_tasks} "
            f"delegate tasks, {state.acceptance_runs} acceptance runs, {state.event_setups} set-ups of "
            f"events, {state.sessions} sessions. Held back: {state.notifications} notifications, "
            f"{state.trigger_firings} firings of triggers, {state.git_edits} edits in Git, "
            f"{state.skipped_schedules} schedules."
        )
