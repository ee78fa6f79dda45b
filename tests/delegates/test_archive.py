"""Delegates that were away for long leave the lists, and come back."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from delegates.models import Delegate, DelegateEvent, DelegateToken
from delegates.protocol.liveness import archive_absent_delegates
from delegates.task_queue import route_waiting_tasks
from rbac.models import AuditEntry, Scope, User
from tests.delegates.protocol.fake_agents import register_agent
from tests.fixtures.delegates import make_delegate, make_instance, make_task, make_token
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db

Browse = Callable[[User], Client]


@pytest.fixture
def token(project: Scope) -> DelegateToken:
    return make_token(project)


def archive_old(project: Scope, name: str = "old") -> Delegate:
    """Return a delegate that was archived after a month of absence."""
    now = timezone.now()
    delegate = make_delegate(project, name, away_since=now - timedelta(days=31), tags=["only-old"])
    assert archive_absent_delegates(now) == 1
    delegate.refresh_from_db()
    assert delegate.archived_at is not None
    return delegate


def test_only_who_was_away_for_the_period_is_archived(project: Scope, settings: Settings) -> None:
    settings.ARCHIVE_DELEGATES_AFTER = timedelta(days=10)
    now = timezone.now()
    make_delegate(project, "recent", away_since=now - timedelta(days=9))
    make_instance(make_delegate(project, "connected", away_since=None))
    make_delegate(project, "old", away_since=now - timedelta(days=11))
    assert archive_absent_delegates(now) == 1
    assert archive_absent_delegates(now) == 0
    assert [*Delegate.objects.exclude(archived_at=None).values_list("name", flat=True)] == ["old"]
    assert DelegateEvent.objects.get(name="old").text == "Archived: it was not heard for 10 days."
    assert Delegate.objects.get(is_built_in=True).archived_at is None


def test_the_lists_show_an_archived_one_where_somebody_asks_for_it(
    project: Scope, admin: User, browse: Browse
) -> None:
    archive_old(project)
    client = browse(admin)
    shown = {
        query: [row.name for row in client.get(f"/delegates/{query}").context["delegates"]]
        for query in ("", "?status=ARCHIVED")
    }
    assert "old" not in shown[""]
    assert shown["?status=ARCHIVED"] == ["old"]
    names = {
        query: [row["name"] for row in client.get(f"/api/v1/delegates{query}").json()["results"]]
        for query in ("", "?status=ARCHIVED")
    }
    assert "old" not in names[""]
    assert names["?status=ARCHIVED"] == ["old"]


def test_a_task_for_its_tags_fails_at_once(project: Scope) -> None:
    archive_old(project)
    task = make_task(project, selectors=["only-old"])
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert (task.status, "No registered delegate" in task.reason) == ("FAILED", True)


def test_registering_brings_it_back(project: Scope, token: DelegateToken) -> None:
    delegate = archive_old(project)
    register_agent(token, "old")
    delegate.refresh_from_db()
    assert (delegate.archived_at, delegate.away_since) == (None, None)


def test_a_person_restores_it_and_it_stays_for_another_period(
    project: Scope, admin: User, browse: Browse
) -> None:
    delegate, client = archive_old(project), browse(admin)
    assert "Restore" in client.get(f"/delegates/{delegate.pk}/").content.decode()
    assert client.post(f"/delegates/{delegate.pk}/restore/").status_code == 302
    assert archive_absent_delegates(timezone.now()) == 0
    delegate.refresh_from_db()
    assert delegate.archived_at is None
    assert AuditEntry.objects.filter(action="delegate.restore").count() == 1
    address = f"/api/v1/delegates/{delegate.pk}/restore"
    assert client.post(address, {}, content_type="application/json").status_code == 409


def test_one_that_never_connected_leads_to_its_setup(project: Scope, admin: User, browse: Browse) -> None:
    delegate = make_delegate(project, "new")
    for address in ("/delegates/", f"/delegates/{delegate.pk}/"):
        page = browse(admin).get(address).content.decode()
        assert f'href="/delegates/{delegate.pk}/install/">Finish setup</a>' in page
        page = browse(make_person(f"viewer{len(address)}", "viewer", project)).get(address).content.decode()
        assert "new" in page
        assert "Finish setup" not in page
