"""The page Retention shows what is stored, how long, and what the next prune deletes."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from delegates.models import DelegateEvent
from ops import table_sizes
from ops.retention_report import KindReport, build_retention_report, format_period
from ops.table_sizes import measure_tables
from ops.tasks import prune
from rbac.models import AuditEntry, Scope, User
from web.retention import list_retention_groups

pytestmark = pytest.mark.django_db
NOW = timezone.now()
# Tables whose rows follow from the number of services and clusters, not from time.
SMALL = {
    "Contents of Terraform plans",
    "Previews",
    "Unused clusters",
    "Deleted ECS services",
    "Deleted daemons",
    "Container instances",
    "Pauses of instance sync",
    "Task definition revisions",
    "Unconfirmed adoptions",
    "Form drafts",
    "Delegate lookups",
    "Delegate instances that are gone",
    "Delegate instances that were never approved",
    "Delegate allowlist entries",
    "Delegate blocklist entries",
    "Devices of ended sessions",
}


def report(title: str) -> KindReport:
    return next(kind for kind in build_retention_report(NOW) if kind.title == title)


def store_events(*ages: int) -> None:
    """Store delegate events of so many days ago."""
    scope = Scope.objects.account()
    DelegateEvent.objects.bulk_create(
        DelegateEvent(scope=scope, name="east", at=NOW - timedelta(days=days), kind="CONNECTED", text="")
        for days in ages
    )


def test_a_kind_shows_its_rows_oldest_row_period_and_next_prune(settings: Settings) -> None:
    store_events(40, 31, 2)
    kind = report("Delegate events")

    assert kind.row_count == "3"
    assert kind.oldest == NOW - timedelta(days=40)
    assert (kind.kept_for, kind.setting) == ("30 days", "SLIPWAY_KEEP_DELEGATE_EVENTS_DAYS")
    assert kind.expired_count == "2 rows"
    assert kind.size.bytes
    settings.RETENTION_DAYS = {**settings.RETENTION_DAYS, "SLIPWAY_KEEP_DELEGATE_EVENTS_DAYS": 35}
    assert report("Delegate events").expired_count == "1 row"


def test_the_next_prune_follows_the_last_one_and_a_missing_one_is_overdue() -> None:
    prune(group="delegates")
    kind = next(kind for kind in build_retention_report(timezone.now()) if kind.title == "Delegate events")
    assert kind.next_at
    assert timedelta(minutes=9) < kind.next_at - timezone.now() <= timedelta(minutes=10)
    assert not kind.is_overdue
    late = build_retention_report(timezone.now() + timedelta(minutes=16))
    assert next(kind for kind in late if kind.title == "Delegate events").is_overdue


def test_audit_entries_are_kept_forever() -> None:
    kind = report("Audit entries")
    assert kind.kept_for == "Forever"
    assert kind.next_at is None
    assert AuditEntry.objects.exists() == (kind.row_count != "0")


def test_large_tables_are_estimated_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_sizes, "COUNTED_ROWS", 2)
    store_events(1, 2, 3, 4)
    size = measure_tables({"delegates_delegateevent"})["delegates_delegateevent"]
    assert size.is_estimate
    assert size.rows >= 3


def test_a_report_of_many_rows_takes_as_many_queries_as_of_few() -> None:
    store_events(40)
    Session.objects.create(session_key="old", expire_date=NOW - timedelta(days=3))
    with CaptureQueriesContext(connection) as of_few:
        build_retention_report(NOW)
    store_events(*range(31, 80))
    with CaptureQueriesContext(connection) as of_many:
        build_retention_report(NOW)
    assert len(of_many) == len(of_few) < 70


def test_a_prune_finds_the_rows_of_growing_tables_by_an_index() -> None:
    rules = [rule for rules in list_retention_groups().values() for rule in rules]
    without = {rule.title for rule in rules if not _has_index(rule.rows.model, rule.column)}
    assert without == SMALL


def _has_index(model: type, column: str) -> bool:
    meta = model._meta  # type: ignore[attr-defined]
    leading = {index.fields[0].lstrip("-") for index in meta.indexes if index.fields}
    return bool(column) and (column in leading or meta.get_field(column).db_index)


@pytest.mark.parametrize(
    ("period", "words"),
    [
        (timedelta(days=1), "1 day"),
        (timedelta(hours=25), "25 hours"),
        (timedelta(minutes=10), "10 minutes"),
        (timedelta(0), "Until it expires"),
    ],
)
def test_periods_are_written_in_the_largest_unit(period: timedelta, words: str) -> None:
    assert format_period(period) == words


def test_only_account_administrators_see_it(admin: User, deployer: User) -> None:
    client = Client()
    client.force_login(deployer)
    assert client.get("/system/retention/").status_code in (403, 404)
    client.force_login(admin)
    page = client.get("/system/retention/").content.decode()
    assert "Logs, AWS calls and AWS events of executions" in page
    assert "SLIPWAY_KEEP_EXECUTIONS_DAYS" in page
