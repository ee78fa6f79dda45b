"""A backup of a database in use, and its restore while the world has moved on."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from celery import signals
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.utils import timezone

from delegates.models import DelegateTask
from deployments.execution.operations import decide_step
from deployments.models import Execution, StepExecution
from notifications.models import Notification, NotificationRule
from ops.backups.dumps import require_loadable
from ops.backups.manifests import MANIFEST_NAME, BackupError, list_key_names
from ops.backups.restores import create_backup, restore_backup
from ops.backups.unfinished import UnfinishedRestoreError, find_unfinished_restore, refuse_unfinished_restore
from ops.models import ServerProcess
from ops.processes import LifeSigns, WebLifeSigns
from ops.tasks import tick
from rbac.models import AuditEntry, Scope
from tests.fixtures.engine_driver import Drive
from tests.ops.backups.conftest import Killed

KillAt = Callable[[str], None]


def store_open_work() -> None:
    """Store what a running installation has under way beside its executions."""
    now, scope = timezone.now(), Scope.objects.account()
    rule = NotificationRule.objects.create(
        scope=scope, identifier="chat", name="Chat", url="https://a.example", host="a"
    )
    Notification.objects.create(
        rule=rule, event="test", text="", body="{}", created_at=now, due_at=now, deadline_at=now
    )
    for status in ("QUEUED", "STARTED"):
        DelegateTask.objects.create(
            scope=scope, kind="check", title=status, status=status, queued_at=now, deadline=now, payload="{}"
        )
    Session.objects.create(session_key="a", session_data="b", expire_date=now)


def start_web_server() -> str:
    """Start the lifespan of a web process, and return the message with which it fails."""
    sent: list[dict[str, str]] = []

    async def receive() -> dict[str, str]:
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, str]) -> None:
        sent.append(message)

    async_to_sync(WebLifeSigns())({"type": "lifespan"}, receive, send)
    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]
    return sent[0]["message"]


def is_ended_by_its_signs_of_life() -> bool:
    """Return whether a process that started while the database was away is told to end."""
    signals_received: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, _: signals_received.append(number))
    try:
        LifeSigns(ServerProcess.Role.WORKER).renew()
    finally:
        signal.signal(signal.SIGTERM, former)
    return signals_received == [signal.SIGTERM]


def test_a_deployment_that_ended_after_the_backup_waits_for_a_person_after_the_restore(
    drive: Drive, tmp_path: Path
) -> None:
    drive.run("1.0")
    execution = drive.start("2.0")
    drive.pass_time(20)
    store_open_work()
    manifest = create_backup(tmp_path / "backup")
    assert drive.until_over(execution).status == "SUCCESS"
    later = drive.run("3.0")

    state = restore_backup(tmp_path / "backup", replaces=True)

    assert (state.executions, state.delegate_tasks, state.notifications, state.sessions) == (1, 2, 1, 1)
    assert not Execution.objects.filter(pk=later.pk).exists()
    assert not DelegateTask.objects.filter(status__in=DelegateTask.OPEN).exists()
    assert Notification.objects.get().reason.startswith("Not sent: the database was restored")
    assert AuditEntry.objects.get(action="installation.restore").after["id"] == manifest.id
    assert not find_unfinished_restore()

    mark = drive.mark()
    drive.pass_time(120, step=10)
    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING"
    assert drive.effects(mark) == []
    step = StepExecution.objects.exclude(intervention=None).get()
    decide_step(actor=drive.deployer, execution=execution, step=step.identifier, decision="GO_ON")
    # Version 3.0 replaced its deployment meanwhile, and it does not overwrite that.
    assert drive.until_over(execution).outcome == "SUPERSEDED"


@pytest.mark.parametrize("place", ["restore.settled", "restore.migrated", "restore.loaded"])
def test_a_restore_that_died_leaves_a_database_on_which_nothing_starts(
    drive: Drive, tmp_path: Path, kill_at: KillAt, place: str
) -> None:
    execution = drive.start("2.0")
    drive.pass_time(4)
    create_backup(tmp_path / "backup")
    kill_at(place)
    with pytest.raises(Killed):
        restore_backup(tmp_path / "backup", replaces=True)

    with pytest.raises(UnfinishedRestoreError, match="did not finish. Run manage restore again"):
        refuse_unfinished_restore()
    with pytest.raises(UnfinishedRestoreError):
        call_command("migrate")
    with pytest.raises(UnfinishedRestoreError):
        signals.worker_init.send(sender=None)
    with pytest.raises(UnfinishedRestoreError):
        signals.beat_init.send(sender=None)
    assert "did not finish" in start_web_server()
    with pytest.raises(BackupError, match="did not finish"):
        create_backup(tmp_path / "another")
    execution.refresh_from_db()
    before = execution.due_at
    tick()
    execution.refresh_from_db()
    assert execution.due_at == before
    assert is_ended_by_its_signs_of_life()

    kill_at("")
    now = timezone.now()
    process = ServerProcess.objects.create(
        role="WORKER", hostname="ip-10-0-0-9", pid=7, version="0.1.0", started_at=now, seen_at=now
    )
    with pytest.raises(BackupError, match="worker process 7 on ip-10-0-0-9 gives signs of life"):
        restore_backup(tmp_path / "backup", replaces=False)
    process.delete()
    assert restore_backup(tmp_path / "backup", replaces=False).executions == 1
    refuse_unfinished_restore()


def test_a_database_in_use_is_not_replaced(drive: Drive, tmp_path: Path) -> None:
    create_backup(tmp_path / "backup")
    with pytest.raises(BackupError, match="not empty"):
        restore_backup(tmp_path / "backup", replaces=False)
    now = timezone.now()
    ServerProcess.objects.create(
        role="WORKER", hostname="ip-10-0-0-9", pid=7, version="0.1.0", started_at=now, seen_at=now
    )
    with pytest.raises(BackupError, match="worker process 7 on ip-10-0-0-9 gives signs of life"):
        restore_backup(tmp_path / "backup", replaces=True)
    with pytest.raises(BackupError, match="exists already"):
        create_backup(tmp_path / "backup")


HEADER, SCHEMA = (0, 100), (100, 3000)


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("place", [HEADER, SCHEMA])
def test_a_damaged_file_is_replaced_unless_a_process_has_it_open(
    drive: Drive, tmp_path: Path, place: tuple[int, int]
) -> None:
    execution = drive.start("2.0")
    drive.pass_time(4)
    create_backup(tmp_path / "backup")
    database, (start, length) = Path(str(connection.settings_dict["NAME"])), place
    with hold_open(database):
        with connection.cursor() as cursor:
            # Else the log beside the file still has what is overwritten here.
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connections.close_all()
        with database.open("r+b") as file:
            file.seek(start)
            file.write(b"\xff" * length)
        with pytest.raises(CommandError, match="is damaged .* Replace its content with --replace"):
            call_command("restore", tmp_path / "backup")
        with pytest.raises(CommandError, match="is in use. Stop all processes of Slipway first"):
            call_command("restore", tmp_path / "backup", replace=True)
        assert database.with_name(f"{database.name}-wal").exists()
    call_command("restore", tmp_path / "backup", replace=True)
    execution.refresh_from_db()
    assert execution.restored_at


@contextmanager
def hold_open(database: Path) -> Iterator[None]:
    """Let another process read the database, and keep its connection until it is killed."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        "c.execute('SELECT 1 FROM sqlite_master').fetchone(); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            # It cannot merge its log at its end.
            process.kill()


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("product", "other", "is not a backup of Slipway"),
        ("format", 3, "has format 3"),
        (
            "migrations",
            ["deployments.0001_initial", "deployments.0999_later"],
            "does not know deployments.0999",
        ),
        ("migrations", ["payroll.0001_initial"], "does not know payroll.0001_initial"),
        ("migrations", [], "was made of an empty database"),
        ("schema", {"deployments": "0123abcd"}, "make other tables here than in the backup"),
        ("keys", ["0123abcd"], "needs the encryption key 0123abcd"),
        ("database", "oracle", "The backup is of oracle"),
        ("checksum", "0", "missing or damaged"),
        ("created_at", "yesterday", "damaged"),
    ],
)
def test_a_foreign_newer_or_damaged_backup_is_refused(
    drive: Drive, tmp_path: Path, field: str, value: object, reason: str
) -> None:
    create_backup(tmp_path / "backup")
    manifest = tmp_path / "backup" / MANIFEST_NAME
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), field: value}))
    with pytest.raises(CommandError, match=reason):
        call_command("restore", tmp_path / "backup", check=True)
    assert drive.pipeline.identifier


def test_a_backup_has_the_names_of_its_keys_and_no_key(
    drive: Drive, tmp_path: Path, settings: object, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("backup", tmp_path / "backup")
    told = capsys.readouterr().out
    assert list_key_names()[0] in told
    keys = [key.encode() for key in settings.FIELD_ENCRYPTION_KEYS]  # type: ignore[attr-defined]
    for file in (tmp_path / "backup").iterdir():
        assert file.stat().st_mode & 0o077 == 0 or file.name == MANIFEST_NAME
        assert not any(key in file.read_bytes() for key in keys)
    call_command("restore", tmp_path / "backup", check=True)
    assert "can be restored" in capsys.readouterr().out


def test_a_database_without_tables_of_slipway_is_neither_backed_up_nor_settled(
    drive: Drive, tmp_path: Path
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_migrations RENAME TO elsewhere")
        try:
            with pytest.raises(BackupError, match="nothing to back up. Check DATABASE_URL"):
                create_backup(tmp_path / "backup")
            with pytest.raises(CommandError, match="no snapshot was restored into it. Check DATABASE_URL"):
                call_command("restore", snapshot_of=timezone.now())
        finally:
            cursor.execute("ALTER TABLE elsewhere RENAME TO django_migrations")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.only_on("sqlite")
def test_a_database_that_is_being_restored_is_private_from_its_first_byte(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_backup(tmp_path / "backup")
    modes: list[int] = []
    copy = shutil.copyfile

    def copy_with_a_look(source: Path, target: Path) -> None:
        copy(source, target)
        modes.append(target.stat().st_mode & 0o777)

    monkeypatch.setattr("ops.backups.dumps.shutil.copyfile", copy_with_a_look)
    former = os.umask(0o022)
    try:
        restore_backup(tmp_path / "backup", replaces=True)
    finally:
        os.umask(former)
    assert modes == [0o600]


@pytest.mark.only_on("sqlite")
def test_a_damaged_database_is_not_backed_up_as_if_it_were_sound(drive: Drive, tmp_path: Path) -> None:
    create_backup(tmp_path / "sound")
    database = Path(str(connection.settings_dict["NAME"]))
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.execute("SELECT rootpage FROM sqlite_master WHERE name = %s", [AuditEntry._meta.db_table])
        ((page,),) = cursor.fetchall()
        cursor.execute("PRAGMA page_size")
        ((size,),) = cursor.fetchall()
    connections.close_all()
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)

    with pytest.raises(BackupError, match="database is damaged"):
        create_backup(tmp_path / "damaged")
    assert [folder.name for folder in tmp_path.iterdir()] == ["sound"]
    with pytest.raises(BackupError, match="copy of a damaged database"):
        require_loadable(database)
    restore_backup(tmp_path / "sound", replaces=True)


def test_a_backup_that_fails_leaves_nothing_and_can_be_made_again(drive: Drive, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(BackupError):
            create_backup(tmp_path / "backup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
    create_backup(tmp_path / "backup")


def test_a_backup_is_on_the_disk_before_it_has_its_name(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    create_backup(tmp_path / "backup")
    assert synced == ["database.dump", "manifest.json", "backup.partial", tmp_path.name]


def test_a_database_from_a_snapshot_is_settled_alone(drive: Drive) -> None:
    execution = drive.start("2.0")
    drive.pass_time(4)
    with pytest.raises(CommandError, match="with its zone"):
        call_command("restore", snapshot_of=timezone.now().replace(tzinfo=None))
    with pytest.raises(CommandError, match="is in the future"):
        call_command("restore", snapshot_of=timezone.now() + timedelta(hours=1))
    with pytest.raises(CommandError, match="Name the folder"):
        call_command("restore")
    call_command("restore", snapshot_of=timezone.now())
    execution.refresh_from_db()
    assert execution.restored_at
    assert AuditEntry.objects.filter(action="installation.restore").exists()
