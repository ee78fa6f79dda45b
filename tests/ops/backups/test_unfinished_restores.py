"""A database whose restore is unfinished: no task, no person and no agent changes it."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from accounts.tasks import send_password_reset
from deployments.models import Pulse
from deployments.tasks import dispatch
from guards.log_lines import replace_log_fields
from ops.backups.manifests import BackupError
from ops.backups.restore_locks import hold_restore_lock
from ops.backups.restores import settle_snapshot
from ops.backups.unfinished import build_mark_statements, remove_mark
from ops.tasks import tick
from rbac.models import User

pytestmark = pytest.mark.django_db(transaction=True)
REASON = "The restore of /backups/1 into this database began at noon and did not finish."


@pytest.fixture(autouse=True)
def _no_fields() -> Iterator[None]:
    """Remove the log fields of tasks that run here; a worker replaces them with those of the next task."""
    yield
    replace_log_fields({})


@pytest.fixture
def mark(transactional_db: None) -> Iterator[None]:
    """Mark the database, as a restore does before its first change."""
    with connection.cursor() as cursor:
        for statement, values in build_mark_statements("/backups/1", "noon"):
            cursor.execute(statement.replace("?", "%s"), values)
    yield
    remove_mark()


@pytest.mark.usefixtures("mark")
def test_no_task_runs_however_it_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    tick()
    dispatch.apply(kwargs={"token": "of-before"})
    send_password_reset.apply(kwargs={"email": "a@example.com"})
    assert not Pulse.objects.exists()
    assert caplog.text.count("was not run: The restore of /backups/1") == 3


@pytest.mark.usefixtures("mark")
def test_no_task_runs_while_the_tables_of_the_backup_are_missing(caplog: pytest.LogCaptureFixture) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE web_installationepoch RENAME TO loading")
        try:
            tick()
        finally:
            cursor.execute("ALTER TABLE loading RENAME TO web_installationepoch")
    assert "was not run: The restore of /backups/1" in caplog.text


@pytest.mark.usefixtures("mark")
def test_requests_that_write_are_answered_503_with_the_reason(client: Client, admin: User) -> None:
    api = APIClient()
    api.force_authenticate(admin)
    answer = api.post("/api/v1/orgs", {"identifier": "acme", "name": "Acme"}, format="json")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer.json()["detail"].startswith(REASON)
    assert api.get("/api/v1/orgs").status_code == 200

    page = client.post("/sign-in/", {"login": "admin", "password": "wrong"})
    assert page.status_code == 503
    assert REASON in page.content.decode()
    assert client.get("/sign-in/").status_code == 200


def test_the_lock_of_a_restore_ends_with_it_where_connections_are_pooled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if connection.vendor == "postgresql":
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", {"min_size": 1, "max_size": 2})
    with hold_restore_lock():
        pass
    if connection.vendor == "postgresql":
        monkeypatch.undo()
    # In another session, which a lock that was left would refuse.
    with hold_restore_lock():
        pass


def test_one_restore_at_a_time_works_on_a_database() -> None:
    refusal = "Another restore into this database is running"
    with hold_restore_lock(), pytest.raises(BackupError, match=refusal):
        settle_snapshot(timezone.now())
    with hold_restore_lock():
        pass
