"""Events of AWS bring the checks of waiting executions forward, and make the others rare."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from connectors.models import EventQueue
from delegates.event_queues.events import ServiceEvent
from deployments.engine.dispatch import WaitingExecution, claim_due_batches
from deployments.engine.event_wakes import record_events, record_unannounced_change
from deployments.journal.runtime import LIVE_RUNTIME
from deployments.models import Execution
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from web.clock import get_database_time

pytestmark = pytest.mark.django_db

ACCOUNT, REGION, CLUSTER, SERVICE = "123456789012", "eu-central-1", "demo", "web"
MINUTE = timedelta(minutes=1)


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def now() -> datetime:
    return get_database_time()


@pytest.fixture
def execution(world: World, now: datetime) -> Execution:
    """An execution that has waited for a minute and was just checked, in an account whose events arrive."""
    EventQueue.objects.all().delete()
    EventQueue.objects.create(
        connector=world.connector,
        region=REGION,
        queue_url=f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/events",
        account=ACCOUNT,
        # Read until the end of this test.
        read_at=now + 10 * MINUTE,
        last_event_at=now,
    )
    Execution.objects.update(due_at=None, status="SUCCESS")
    Execution.objects.filter(pk=world.execution.pk).update(
        status="RUNNING",
        due_at=now - MINUTE,
        dispatch_backoff_until=now + MINUTE,
        waits_for_service=SERVICE,
        waiting_since=now - MINUTE,
        observed_state="in progress",
        recheck_at=now + MINUTE,
        rate_limit_key=f"{ACCOUNT}/{REGION}",
        batch_key=f"built-in:1:2|{REGION}|{CLUSTER}",
    )
    return Execution.objects.get(pk=world.execution.pk)


def build_event(at: datetime, *, is_decisive: bool = False, **changes: str) -> ServiceEvent:
    where = {"account": ACCOUNT, "region": REGION, "cluster": CLUSTER, "service": SERVICE} | changes
    return ServiceEvent(**where, at=at, is_decisive=is_decisive)


def claim_next_check(execution: Execution, now: datetime) -> datetime:
    """Claim the check that is due, and return the time of the next one."""
    runtime = replace(LIVE_RUNTIME, now=lambda: now)
    Execution.objects.filter(pk=execution.pk).update(dispatch_backoff_until=None)
    assert [batch.execution_ids for batch in claim_due_batches(runtime)] == [(execution.pk,)]
    execution.refresh_from_db()
    assert execution.dispatch_backoff_until is not None
    return execution.dispatch_backoff_until


def test_a_decisive_event_makes_the_check_due_and_the_next_ones_frequent(
    execution: Execution, now: datetime
) -> None:
    assert claim_due_batches(LIVE_RUNTIME) == []
    assert record_events([build_event(now, is_decisive=True)], now)
    assert [batch.execution_ids for batch in claim_due_batches(LIVE_RUNTIME)] == [(execution.pk,)]
    # A read may be older than the event.
    execution.refresh_from_db()
    assert execution.dispatch_backoff_until is not None
    assert execution.dispatch_backoff_until - now < timedelta(seconds=4)


@pytest.mark.parametrize(
    "changes", [{"account": "999999999999"}, {"region": "eu-west-1"}, {"cluster": "x"}, {"service": "x"}]
)
def test_an_event_about_something_else_wakes_nothing(
    execution: Execution, now: datetime, changes: dict[str, str]
) -> None:
    assert not record_events([build_event(now, is_decisive=True, **changes)], now)
    execution.refresh_from_db()
    assert (execution.event_at, execution.woken_at) == (None, None)


@pytest.mark.parametrize(("minutes", "seconds"), [(1, 30), (11, 300)])
def test_checks_are_rare_while_events_arrive(
    execution: Execution, now: datetime, minutes: int, seconds: int
) -> None:
    Execution.objects.update(waiting_since=now - minutes * MINUTE)
    assert not record_events([build_event(now)], now)
    second = claim_next_check(execution, first := claim_next_check(execution, now))
    assert second - first == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "columns",
    [
        {"problem": "AccessDenied"},
        {"read_at": None},
        {"last_event_at": None},
        {"silent_since": "2026-01-01T00:00:00Z"},
    ],
)
def test_polling_goes_on_where_no_events_arrive(
    execution: Execution, now: datetime, columns: dict[str, str | None]
) -> None:
    record_events([build_event(now)], now)
    EventQueue.objects.update(**columns)
    assert claim_next_check(execution, now) - now <= timedelta(seconds=7)


def test_late_and_repeated_events_change_nothing(execution: Execution, now: datetime) -> None:
    record_events([build_event(now - 2 * MINUTE)], now)
    assert claim_next_check(execution, now) - now <= timedelta(seconds=7)
    record_events([build_event(now), build_event(now - MINUTE)], now)
    record_events([build_event(now - MINUTE)], now)
    execution.refresh_from_db()
    assert execution.event_at == now


def test_a_pass_that_may_have_read_before_the_event_is_repeated(execution: Execution, now: datetime) -> None:
    Execution.objects.update(lease_expires_at=now + MINUTE, due_at=now + MINUTE)
    record_events([build_event(now, is_decisive=True)], now)
    execution.refresh_from_db()
    assert execution.due_at == now


def test_a_change_that_no_event_announced_returns_to_polling(execution: Execution, now: datetime) -> None:
    waiting = WaitingExecution(execution.pk, SERVICE, "before", None, "", now - MINUTE, now - MINUTE / 4)
    assert not waiting.is_change_unannounced("before", now + MINUTE)
    assert not waiting.is_change_unannounced("after", now)
    assert waiting.is_change_unannounced("after", now + MINUTE)
    record_unannounced_change(execution.rate_limit_key, now)
    assert EventQueue.objects.get().get_state(now) == EventQueue.State.SILENT
