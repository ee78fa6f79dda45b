"""A writer that holds the lock of SQLite, and a disk that is full: reading goes on, writing is refused."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone

from config.databases import LOCK_TIMEOUT_MS, build_database_settings, build_web_options, keep_sqlite_open
from rbac.models import ApiKey, Scope, User
from rbac.operations.api_keys import create_api_key
from tests.api.sample_project import make_world
from tests.fixtures.row_copies import complete
from tests.routes import addresses
from web.http.outages import DISK_FULL_MESSAGE, OutageLogFilter

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("sqlite", reason="one lock for all writers is SQLite's"),
]
# A look at this has to be written down: the secret of an enrolment.
WRITING = {"second-factor"}


@contextmanager
def block_writer() -> Iterator[None]:
    """Hold the write lock in another process; this one waits for a tenth of a second."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 100")
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
            connection.close()


@contextmanager
def full_disk() -> Iterator[None]:
    """The database may not grow by a single page."""
    with connection.cursor() as cursor:
        # Pages that earlier tests gave back would be room.
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA page_count")
        cursor.execute(f"PRAGMA max_page_count = {cursor.fetchone()[0]}")
        cursor.execute("PRAGMA freelist_count")
        assert cursor.fetchone()[0] < 100
    try:
        yield
    finally:
        connection.close()


def age_activity(client: Client) -> None:
    """The next request of this browser has to note that its person is there again."""
    session = client.session
    session["seen_at"] = (timezone.now() - timedelta(minutes=10)).isoformat()
    session.save()


def test_every_page_is_read_while_somebody_else_writes(project: Scope, admin: User) -> None:
    world = make_world(project, admin, admin)
    complete(world)
    client = Client(raise_request_exception=False)
    client.force_login(admin)
    client.get("/")
    tested = list(addresses(world))
    statuses = {}
    with block_writer():
        for address in tested:
            statuses[address.name] = client.get(address.path).status_code
    expected = {address.name: 503 if address.name in WRITING else address.status for address in tested}
    assert {name: status for name, status in statuses.items() if status != expected[name]} == {}


def test_who_comes_back_and_programs_read_while_somebody_else_writes(project: Scope, admin: User) -> None:
    _, token = create_api_key(actor=admin, user=admin, name="reader")
    client, program = Client(), Client(headers={"x-api-key": token})
    client.force_login(admin)
    client.get("/")
    age_activity(client)
    with block_writer():
        assert client.get("/deployments/?scope=account").status_code == 200
        assert program.get("/api/v1/orgs").status_code == 200
    assert ApiKey.objects.get().last_used_at is None
    assert client.get("/deployments/").status_code == program.get("/api/v1/orgs").status_code == 200
    assert ApiKey.objects.get().last_used_at is not None


def test_a_write_is_refused_in_words_while_somebody_else_writes(project: Scope, admin: User) -> None:
    client = Client(headers={"x-api-key": create_api_key(actor=admin, user=admin, name="writer")[1]})
    with block_writer():
        answer = client.post("/api/v1/orgs", {"identifier": "new", "name": "New"}, "application/json")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer.json()["detail"].startswith("The database or the broker does not respond.")
    retry = client.post("/api/v1/orgs", {"identifier": "new", "name": "New"}, "application/json")
    assert retry.status_code == 201


def test_nobody_waits_for_the_lock_longer_than_for_postgresql() -> None:
    assert (
        build_web_options(settings.DATABASES["default"], 1)
        == {"timeout": LOCK_TIMEOUT_MS / 1000}
        == {"timeout": 5}
    )


def test_a_session_that_has_to_be_kept_is_refused_in_words(project: Scope, admin: User) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(admin)
    with block_writer():
        answer = client.get("/account/two-factor/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")


def test_a_full_disk_is_told_and_what_is_stored_is_read(
    project: Scope, admin: User, caplog: pytest.LogCaptureFixture
) -> None:
    token = create_api_key(actor=admin, user=admin, name="writer")[1]
    client, program = Client(), Client(headers={"x-api-key": token})
    client.force_login(admin)
    client.get("/")
    age_activity(client)
    caplog.handler.addFilter(limit := OutageLogFilter())
    with full_disk():
        answers = [program.post("/api/v1/orgs", new(number), "application/json") for number in range(100)]
        assert client.get("/deployments/").status_code == 200
        assert program.get("/api/v1/orgs").status_code == 200
    caplog.handler.removeFilter(limit)
    refused = [answer for answer in answers if answer.status_code != 201]
    assert len(refused) > 10
    assert {answer.status_code for answer in refused} == {503}
    assert {answer.json()["detail"] for answer in refused} == {DISK_FULL_MESSAGE}
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len([record for record in warnings if "answered 503" in record.message]) == 1
    assert [record.message for record in warnings if record.exc_info or "Unavailable" in record.message] == []


def new(number: int) -> dict[str, str]:
    return {"identifier": f"new_{number}", "name": "N" * 100}


def test_the_files_that_readers_need_are_held_open(tmp_path: Path) -> None:
    file = tmp_path / "slipway.sqlite3"
    database = build_database_settings(f"sqlite:///{file}", tmp_path)
    assert keep_sqlite_open(database) is None
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE one (number)")
        connection = keep_sqlite_open(database)
    assert connection is not None
    with closing(connection):
        assert file.with_name(f"{file.name}-shm").exists()
    assert not file.with_name(f"{file.name}-shm").exists()
