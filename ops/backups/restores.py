"""Restore of a backup: checks, load, migration, and the state in which nothing continues by itself."""

import logging
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.core.management import call_command
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import DatabaseError, transaction

from accounts.authentication.sessions import end_every_session
from connectors.key_rotation import list_rotatable_columns
from connectors.operations.event_queue_setups import end_restored_setups
from delegates.operations.delegates import wait_for_heartbeats
from delegates.operations.tasks import end_open_tasks
from deployments.execution.restored_executions import pause_open_executions
from deployments.journal.runtime import failpoint
from deployments.models import PreviewRequest, Pulse
from gitsync.proposals.passes import hold_waiting_proposals
from notifications.operations import hold_waiting_notifications
from ops.acceptance.runs import end_restored_runs
from ops.backups.dumps import (
    dump_database,
    is_damaged,
    is_database_empty,
    load_dump,
    require_loadable,
    sync_to_disk,
)
from ops.backups.manifests import (
    DUMP_NAME,
    MANIFEST_NAME,
    BackupError,
    BackupManifest,
    build_manifest,
    read_manifest,
    require_migrated_database,
    require_restorable,
    write_manifest,
)
from ops.backups.restore_locks import hold_restore_lock
from ops.backups.unfinished import (
    MARK_TABLE,
    find_unfinished_restore,
    get_mark_condition,
    list_tables,
    remove_mark,
    require_finished_restore,
)
from ops.models import ServerProcess
from ops.processes import list_processes
from pipelines.triggers.clock import skip_missed_times
from pipelines.triggers.firings import hold_waiting_firings
from pipelines.triggers.watches import restart_watches
from rbac.audit import record_audit_entry
from rbac.encryption import get_token_key_name
from rbac.models import Scope
from web.clock import get_database_time
from web.epochs import begin_history, check_epoch, get_epoch, is_database_behind
from web.models import InstallationEpoch

HELD_REASON = "Not sent: the database was restored from a backup. Send it again if it is still needed."
UNPUSHED_REASON = (
    "The database was restored from a backup. Look at the branch, and save the change again if needed."
)
UNHANDLED_REASON = "The database was restored from a backup. Redeliver it if it is still needed."
# The clock of another machine tells the time of a snapshot.
CLOCK_TOLERANCE = timedelta(minutes=1)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RestoredState:
    """Counts of what a restored database does not continue by itself."""

    executions: int
    delegate_tasks: int
    acceptance_runs: int
    event_setups: int
    notifications: int
    trigger_firings: int
    git_edits: int
    skipped_schedules: int
    sessions: int


def create_backup(folder: Path) -> BackupManifest:
    """Write a backup into a new folder. Raises `BackupError`.

    The folder gets its name last, once all of it is on the disk. After an error, nothing is left.
    """
    if folder.exists():
        raise BackupError(f"{folder} exists already. Name a new folder.")
    if reason := find_unfinished_restore():
        raise BackupError(reason)
    require_migrated_database("there is nothing to back up")
    partial = folder.with_name(f"{folder.name}.partial")
    try:
        partial.mkdir(mode=0o700, parents=True)
    except FileExistsError as exc:
        raise BackupError(f"{partial} is left of a backup that did not finish. Delete it.") from exc
    except OSError as exc:
        raise BackupError(f"{partial} cannot be created: {exc.strerror}.") from exc
    try:
        manifest = _fill_backup(partial)
        partial.rename(folder)
        sync_to_disk(folder.parent)
    except OSError as exc:
        raise BackupError(f"{folder} could not be written: {exc.strerror}.") from exc
    finally:
        # After the rename there is none.
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _fill_backup(folder: Path) -> BackupManifest:
    taken_at = get_database_time()
    dump = folder / DUMP_NAME
    dump_database(dump)
    dump.chmod(0o600)
    manifest = build_manifest(dump, taken_at)
    write_manifest(folder, manifest)
    sync_to_disk(dump, folder / MANIFEST_NAME, folder)
    return manifest


def check_backup(folder: Path) -> BackupManifest:
    """Return the manifest of a backup that could be restored here. Raises `BackupError`."""
    manifest = read_manifest(folder)
    require_restorable(folder, manifest)
    require_loadable(folder / DUMP_NAME)
    return manifest


def restore_backup(
    folder: Path, *, replaces: bool, report: Callable[[str], None] = lambda _: None
) -> RestoredState:
    """Restore a backup into the database of this installation. Raises `BackupError`.

    A database with tables is replaced only with `replaces`, or after a restore that did not finish. `report`
    gets a sentence before each part. From the first change to the end the database is marked, so that no
    process starts on it.
    """
    manifest = check_backup(folder)
    with hold_restore_lock():
        _require_replaceable(replaces=replaces)
        report(f"Loading the backup of {manifest.created_at}")
        load_dump(folder / DUMP_NAME, str(folder), get_database_time().isoformat(timespec="seconds"))
        failpoint("restore.loaded")
        report("Applying migrations")
        call_command(DjangoMigrate(), interactive=False, verbosity=0)
        failpoint("restore.migrated")
        report("Pausing what was under way")
        _require_readable_secrets()
        audited = asdict(manifest) | {"migrations": len(manifest.migrations)}
        return settle_restored_state(manifest.taken_at, audited)


def settle_snapshot(taken_at: datetime) -> RestoredState:
    """Migrate and settle a database that was restored by other means. Raises `BackupError`."""
    if taken_at > get_database_time() + CLOCK_TOLERANCE:
        raise BackupError(f"{taken_at.isoformat()} is in the future. Name the time that the snapshot has.")
    with hold_restore_lock():
        # Else the migrations would fill it, and the snapshot elsewhere would continue.
        require_migrated_database("no snapshot was restored into it")
        require_no_processes()
        call_command(DjangoMigrate(), interactive=False, verbosity=0)
        return settle_restored_state(taken_at, {"snapshot_of": taken_at.isoformat()})


def require_settled_database() -> None:
    """Settle a restore that nobody reported; one query in a database that was not restored.

    Raises `DatabaseNotUsable` while a reported restore is unfinished.
    """
    try:
        check = check_epoch(get_mark_condition())
    except DatabaseError:
        # While a backup is loaded, tables are missing.
        require_finished_restore()
        raise
    if check is None or check.holds:
        require_finished_restore()
    elif check.may_be_behind:
        _settle_detected_restore()


def _settle_detected_restore() -> None:
    """Pause, end and hold what is under way if the database is older than what Valkey remembers."""
    with transaction.atomic():
        # Of several processes, one settles.
        list(InstallationEpoch.objects.select_for_update())
        epoch = get_epoch()
        if epoch is None or not is_database_behind():
            return
        logger.critical(
            "The database is in its state of %s, and Valkey remembers a later one: it was restored. "
            "Executions that were under way wait for a person.",
            epoch.advanced_at.isoformat(timespec="seconds"),
        )
        audited: dict[str, object] = {"detected": True, "state_of": epoch.advanced_at.isoformat()}
        settle_restored_state(epoch.advanced_at, audited, was_detected=True)


@transaction.atomic
def settle_restored_state(
    taken_at: datetime, audited: dict[str, object], *, was_detected: bool = False
) -> RestoredState:
    """Pause, end and hold everything that the old state would continue, and remove the mark.

    `audited` describes the backup in the audit trail. `was_detected`: nobody reported the restore.
    """
    now = get_database_time()
    # Executions first, tasks second (rule 1). Ending tasks wakes executions, which are paused by then.
    executions = pause_open_executions(taken_at=taken_at, now=now)
    state = RestoredState(
        executions=executions,
        delegate_tasks=end_open_tasks(now),
        acceptance_runs=end_restored_runs(taken_at=taken_at, now=now),
        event_setups=end_restored_setups(now),
        notifications=hold_waiting_notifications(HELD_REASON, now),
        trigger_firings=hold_waiting_firings(UNHANDLED_REASON, now),
        git_edits=hold_waiting_proposals(UNPUSHED_REASON, now),
        skipped_schedules=skip_missed_times(now),
        sessions=end_every_session(),
    )
    restart_watches(now)
    wait_for_heartbeats(taken_at=taken_at, now=now)
    begin_history(restored_from=taken_at, now=now, was_detected=was_detected)
    PreviewRequest.objects.all().delete()
    # Processes and background parts of the past.
    ServerProcess.objects.all().delete()
    Pulse.objects.all().delete()
    record_audit_entry(
        actor=None,
        action="installation.restore",
        thing=Scope.objects.account(),
        after={**audited, **asdict(state)},
        source="" if was_detected else "command",
    )
    if MARK_TABLE in list_tables():
        remove_mark()
    failpoint("restore.settled")
    return state


def _require_replaceable(*, replaces: bool) -> None:
    try:
        if not (replaces or find_unfinished_restore() or is_database_empty()):
            raise BackupError(
                "The database is not empty. Restore into an empty one, or replace its content with --replace."
            )
        require_no_processes()
    except DatabaseError as exc:
        if not is_damaged(exc):
            raise
        # Its processes cannot be read. `load_dump` refuses a file that another process has open.
        if not replaces:
            raise BackupError(
                f"The database is damaged ({exc}). Replace its content with --replace."
            ) from exc


def require_no_processes() -> None:
    """Raise `BackupError` while web or worker processes run on this database."""
    if ServerProcess._meta.db_table not in list_tables():
        return
    if alive := [str(state.process) for state in list_processes(get_database_time()) if not state.is_silent]:
        raise BackupError(
            f"Stop all processes first, and wait 40 seconds after a kill: the {', the '.join(alive)} gives "
            "signs of life."
        )


def _require_readable_secrets() -> None:
    """Raise `BackupError` if the keys do not open the first value of each encrypted column."""
    for column in list_rotatable_columns():
        for value in next(column.batches(1), []):
            if get_token_key_name(value.token, value.binding) is None:
                raise BackupError(
                    f"The encryption keys do not open {column}. Add the key of the backup to "
                    "FIELD_ENCRYPTION_KEY and restore again."
                )
