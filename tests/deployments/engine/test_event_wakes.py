"""Events of AWS bring the checks of waiting executions forward, and make the others rare."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from aws.apis.ecs_types import EcsService
from connectors.models import Connector, EventQueue
from delegates.event_queues.coverage import CoveredReads, QueueCoverage, record_silence
from delegates.event_queues.events import AlarmEvent, ServiceEvent
from deployments.engine import event_wakes
from deployments.engine.alarm_wakes import record_alarms
from deployments.engine.dispatch import claim_due_batches
from deployments.engine.event_wakes import build_covered_reads
from deployments.engine.lease import wake_for_answer
from deployments.engine.service_waits import NO_EVENTS, EventTimes
from deployments.journal.runtime import LIVE_RUNTIME
from deployments.models import ActionRun, Execution, StageExecution, StepExecution
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
        # Until the end of this test, it is read and receives events about other services.
        read_at=now + 10 * MINUTE,
        last_event_at=now + 10 * MINUTE,
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
        batch_key=f"built-in:{world.connector.pk}:2|{REGION}|{CLUSTER}",
    )
    return Execution.objects.get(pk=world.execution.pk)


def record_events(events: Sequence[ServiceEvent], now: datetime) -> bool:
    """Record events of the only queue."""
    queue = EventQueue.objects.select_related("connector__scope").get()
    return event_wakes.record_events(QueueCoverage.of(queue), events, now)


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


@pytest.mark.parametrize("changes", [{"region": "eu-west-1"}, {"cluster": "x"}, {"service": "x"}])
def test_an_event_about_something_else_wakes_nothing(
    execution: Execution, now: datetime, changes: dict[str, str]
) -> None:
    assert not record_events([build_event(now, is_decisive=True, **changes)], now)
    execution.refresh_from_db()
    assert (execution.event_at, execution.woken_at) == (None, None)


def list_check_times(execution: Execution, now: datetime, end: datetime) -> list[datetime]:
    """Return the times until `end` at which the dispatcher has the execution checked."""
    checks = []
    while now < end:
        if claim_due_batches(replace(LIVE_RUNTIME, now=lambda now=now: now)):
            checks.append(now)
        execution.refresh_from_db()
        assert execution.dispatch_backoff_until is not None
        # Each look finds out whether the queue still counts.
        assert execution.dispatch_backoff_until - now <= timedelta(seconds=13)
        now = execution.dispatch_backoff_until
    return checks


@pytest.mark.parametrize(("minutes", "seconds"), [(0, 90), (11, 300)])
def test_checks_are_rare_while_events_arrive(
    execution: Execution, now: datetime, minutes: int, seconds: int
) -> None:
    now += minutes * MINUTE
    EventQueue.objects.update(read_at=now + 60 * MINUTE, last_event_at=now + 60 * MINUTE)
    since = now - minutes * MINUTE
    Execution.objects.update(
        waiting_since=since, recheck_at=now + 60 * MINUTE, dispatch_backoff_until=now + timedelta(seconds=4)
    )
    assert not record_events([build_event(now)], now)
    checks = list_check_times(
        execution, now + timedelta(seconds=4), now + timedelta(seconds=3 * seconds + 60)
    )
    assert len(checks) == 3
    assert checks[1] - checks[0] == checks[2] - checks[1] == timedelta(seconds=seconds)


def test_a_queue_without_any_event_has_young_waits_checked_soon(execution: Execution, now: datetime) -> None:
    """Its rule may be gone, and the rollout over."""
    EventQueue.objects.update(last_event_at=now)
    Execution.objects.update(waiting_since=now, recheck_at=now + 10 * MINUTE, dispatch_backoff_until=now)
    record_events([build_event(now)], now)
    checks = list_check_times(execution, now, now + 2 * MINUTE)
    assert timedelta(seconds=24) <= checks[0] - now <= timedelta(seconds=29)
    assert max(after - before for before, after in pairwise(checks)) <= timedelta(seconds=29)
    # One each 24 seconds, and the one of each 90.
    assert 4 <= len(checks) <= 6
    # A wait of hours would make calls for nothing.
    Execution.objects.update(waiting_since=now - 11 * MINUTE)
    look = execution.dispatch_backoff_until
    assert look is not None
    assert list_check_times(execution, look, look + MINUTE) == []


def test_a_check_after_a_late_look_is_not_skipped(execution: Execution, now: datetime) -> None:
    Execution.objects.update(
        waiting_since=now, recheck_at=now + 10 * MINUTE, dispatch_backoff_until=now + timedelta(seconds=80)
    )
    record_events([build_event(now)], now)
    late = now + timedelta(seconds=105)
    assert claim_due_batches(replace(LIVE_RUNTIME, now=lambda: late))


def test_a_check_that_waits_for_more_than_a_change_is_not_skipped(
    execution: Execution, now: datetime
) -> None:
    Execution.objects.update(observed_state="", waiting_since=now, dispatch_backoff_until=now)
    record_events([build_event(now)], now)
    assert claim_due_batches(replace(LIVE_RUNTIME, now=lambda: now))


def test_a_queue_that_is_no_longer_read_returns_the_wait_to_polling(
    execution: Execution, now: datetime
) -> None:
    Execution.objects.update(waiting_since=now, dispatch_backoff_until=now)
    record_events([build_event(now)], now)
    assert list_check_times(execution, now, now + MINUTE / 2) == []
    EventQueue.objects.update(read_at=now - MINUTE)
    execution.refresh_from_db()
    look = execution.dispatch_backoff_until
    assert look is not None
    assert look - now <= timedelta(seconds=60)
    assert len(list_check_times(execution, look, look + timedelta(seconds=20))) >= 3


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
    events, since = EventTimes(event_at=now - MINUTE), now - 2 * MINUTE

    def find(changed_at: datetime, **changes: Any) -> datetime | None:
        return events.find_unannounced_change(build_service(changed_at), now, **{"since": since} | changes)

    changed_at = now - MINUTE / 2
    assert find(changed_at) == changed_at
    # Its event is that one, or may still come.
    assert find(now - MINUTE) is find(now - MINUTE / 10) is None
    # Nobody relied on events.
    assert find(changed_at, since=changed_at) is None
    assert NO_EVENTS.find_unannounced_change(build_service(changed_at), now, since=since) is None
    # Events about others came since, or the queue was not read.
    for columns in ({"last_event_at": now}, {"last_event_at": now - MINUTE, "read_at": changed_at}):
        EventQueue.objects.update(**columns)
        record_silence(get_reads(execution), now, changed_at=changed_at)
        assert EventQueue.objects.get().silent_since is None
    EventQueue.objects.update(read_at=now)
    record_silence(get_reads(execution), now, changed_at=changed_at)
    assert EventQueue.objects.get().get_state(now) == EventQueue.State.SILENT


def build_service(changed_at: datetime) -> EcsService:
    """Return a service whose deployment was changed by AWS at a time."""
    return EcsService.from_aws({"serviceName": SERVICE, "deployments": [{"updatedAt": changed_at}]})


def get_reads(execution: Execution) -> CoveredReads:
    return build_covered_reads(execution.batch_key, execution.rate_limit_key, execution.scope.path)


def move_queue(scope: Scope, **spec: str) -> EventQueue:
    """Give the queue to another connector of the same account."""
    spec = {"credentials": "DefaultChain"} | spec
    connector = Connector.objects.create(scope=scope, identifier="other", name="Other", spec=spec)
    EventQueue.objects.update(connector=connector)
    return EventQueue.objects.select_related("connector__scope").get()


def test_a_queue_counts_for_other_connectors_of_its_account_in_its_scope(
    execution: Execution, world: World, now: datetime
) -> None:
    Connector.objects.filter(pk=world.connector.pk).update(spec={"credentials": "DefaultChain"})
    for scope in (world.scope, Scope.objects.account()):
        queue = move_queue(scope)
        assert record_events([build_event(now, is_decisive=True)], now), scope
        Execution.objects.update(woken_at=None)
        # By polling, five.
        assert len(list_check_times(execution, now, now + timedelta(seconds=25))) <= 1, scope
        queue.connector.delete()
        EventQueue.objects.create(
            connector=world.connector,
            region=REGION,
            queue_url="https://example",
            account=ACCOUNT,
            read_at=now + 10 * MINUTE,
            last_event_at=now + 10 * MINUTE,
        )


@pytest.mark.parametrize("stranger", ["queue", "execution", "scope", "account"])
def test_a_queue_counts_for_no_one_whom_its_owner_may_not_affect(
    execution: Execution, world: World, now: datetime, stranger: str
) -> None:
    """An endpoint can claim any account, and so could whoever has keys of it in another project."""
    if stranger != "execution":
        Connector.objects.filter(pk=world.connector.pk).update(spec={"credentials": "DefaultChain"})
    spec = {"endpoint_url": "http://localhost:9"} if stranger == "queue" else {}
    move_queue(create_sibling(world.scope) if stranger == "scope" else world.scope, **spec)
    if stranger == "account":
        EventQueue.objects.update(account="999999999999")
    assert not record_events([build_event(now, is_decisive=True)], now)
    execution.refresh_from_db()
    assert (execution.event_at, execution.woken_at) == (None, None)
    # Not even after an event from elsewhere.
    Execution.objects.update(event_at=now)
    assert claim_next_check(execution, now) - now <= timedelta(seconds=7)
    record_silence(get_reads(execution), now)
    assert EventQueue.objects.get().silent_since is None


def test_a_queue_counts_after_a_read_with_its_present_connector(execution: Execution, now: datetime) -> None:
    record_events([build_event(now)], now)
    EventQueue.objects.update(read_at=now)
    Connector.objects.update(updated_at=now + timedelta(seconds=1))
    assert claim_next_check(execution, now) - now <= timedelta(seconds=7)


def create_sibling(project: Scope) -> Scope:
    return Scope.objects.create(
        kind=Scope.Kind.PROJECT, parent=project.parent, identifier=f"{project.identifier}2", name="Other"
    )


@pytest.mark.parametrize(
    ("alarm", "region", "is_due"),
    [("errors", REGION, True), ("other", REGION, False), ("errors", "x", False)],
)
def test_an_alarm_makes_the_check_of_an_action_due_that_watches_it(
    world: World, now: datetime, alarm: str, region: str, is_due: bool
) -> None:
    later = now + MINUTE
    Execution.objects.filter(pk=world.execution.pk).update(
        status="RUNNING", due_at=later, dispatch_backoff_until=later
    )
    stage = StageExecution.objects.filter(execution=world.execution).earliest("position")
    StageExecution.objects.filter(pk=stage.pk).update(connector=world.connector, region=REGION)
    step = StepExecution.objects.filter(stage=stage).earliest("pk")
    ActionRun.objects.create(
        step=step,
        position=99,
        unit="Verify",
        name="WatchAlarms",
        parameters={"alarms": ["errors"]},
        state="STARTED",
    )
    queue = EventQueue(pk=1, connector=world.connector, region=region)
    assert record_alarms(QueueCoverage.of(queue), [AlarmEvent(region, alarm)], now) is is_due
    execution = Execution.objects.get(pk=world.execution.pk)
    due = (now, None) if is_due else (later, later)
    assert (execution.due_at, execution.dispatch_backoff_until) == due


def test_executions_whose_queue_stops_are_checked_at_once(execution: Execution, now: datetime) -> None:
    record_events([build_event(now)], now)
    Execution.objects.update(due_at=now + MINUTE / 2, dispatch_backoff_until=now + MINUTE / 2)
    queue = EventQueue.objects.select_related("connector__scope").get()
    EventQueue.objects.update(problem="AccessDenied")
    assert claim_due_batches(LIVE_RUNTIME) == []
    assert event_wakes.end_coverage(QueueCoverage.of(queue), now)
    assert [batch.execution_ids for batch in claim_due_batches(LIVE_RUNTIME)] == [(execution.pk,)]


def test_a_queue_that_stops_wakes_no_execution_that_it_does_not_cover(
    execution: Execution, now: datetime
) -> None:
    record_events([build_event(now)], now)
    Execution.objects.update(due_at=now + MINUTE / 2)
    queue = EventQueue.objects.select_related("connector__scope").get()
    queue.region = "eu-west-1"
    assert not event_wakes.end_coverage(QueueCoverage.of(queue), now)
    queue.region = REGION
    Execution.objects.update(lease_expires_at=now + MINUTE)
    assert not event_wakes.end_coverage(QueueCoverage.of(queue), now), "a pass sets its next check itself"


def test_an_event_counts_while_a_delegate_reads_the_service(execution: Execution, now: datetime) -> None:
    Execution.objects.update(
        observed_state="", batch_key=execution.batch_key.replace("built-in", "delegate"), due_at=now + MINUTE
    )
    assert record_events([build_event(now, is_decisive=True)], now)
    wake_for_answer(execution.pk, now)
    execution.refresh_from_db()
    assert (execution.waits_for_service, execution.woken_at) == (SERVICE, now)
    # Its answer may be older than the event, so that the check after it is near.
    assert claim_next_check(execution, now) - now <= timedelta(seconds=4)
