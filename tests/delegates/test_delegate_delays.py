"""A delegate says on its page why tasks in its scope wait."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from delegates.models import Delegate, DelegateTask
from delegates.queries.delays import list_delegate_delays
from rbac.models import Scope, User
from tests.fixtures.delegates import make_task
from tests.fixtures.people import make_person
from tests.ops.test_health import beat_once

pytestmark = pytest.mark.django_db


@pytest.fixture
def delegate(project: Scope, live_broker: str) -> Delegate:
    beat_once()
    return Delegate.objects.create(scope=project, name="prod-eu")


def make_unfit_task(scope: Scope, *, seconds_ago: float) -> DelegateTask:
    queued_at = timezone.now() - timedelta(seconds=seconds_ago)
    return make_task(scope, queued_at=queued_at, reason="No delegate has the tag gpu.")


def test_tasks_that_fit_no_delegate_are_counted_with_the_longest_wait(
    delegate: Delegate, admin: User, django_assert_num_queries: Callable[[int], object]
) -> None:
    assert list_delegate_delays(admin, delegate, timezone.now()) == []
    make_unfit_task(delegate.scope, seconds_ago=40)
    make_unfit_task(delegate.scope, seconds_ago=5)
    make_task(delegate.scope, reason="")

    (delay,) = list_delegate_delays(admin, delegate, timezone.now())
    assert delay.text == "2 tasks wait for a delegate that fits, the oldest for 40 s."
    client = Client()
    client.force_login(admin)
    for path in ("", "delays/"):
        page = client.get(f"/delegates/{delegate.pk}/{path}").content.decode()
        assert "2 tasks wait for a delegate that fits" in page
        assert 'href="/delegates/tasks/?status=queued"' in page
        assert f'data-delays="/delegates/{delegate.pk}/delays/"' in page
    document = client.get(f"/api/v1/delegates/{delegate.pk}/delays").json()
    (row,) = document["delays"]
    assert row["code"] == "NO_MATCHING_DELEGATE"
    # The oldest waits on meanwhile.
    assert re.sub(r"\d+ s\.", "40 s.", row["text"]) == delay.text


def test_tasks_of_other_scopes_are_not_counted(delegate: Delegate, admin: User) -> None:
    make_unfit_task(Scope.objects.account(), seconds_ago=40)
    assert list_delegate_delays(admin, delegate, timezone.now()) == []


def test_a_delegate_says_that_no_worker_answers(delegate: Delegate, admin: User) -> None:
    beat_once(seconds_ago=40)
    (delay,) = list_delegate_delays(admin, delegate, timezone.now())
    assert "has answered for 40 s." in delay.text


def test_somebody_without_access_is_not_told(delegate: Delegate) -> None:
    make_unfit_task(delegate.scope, seconds_ago=40)
    client = Client()
    client.force_login(make_person("bea"))
    assert client.get(f"/delegates/{delegate.pk}/delays/").status_code == 404
