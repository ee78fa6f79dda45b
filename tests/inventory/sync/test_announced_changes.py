"""Events of AWS announce what sync reads; everything else is read rarely while they arrive."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from pytest_django import Settings

from catalog.models import Infrastructure
from connectors.models import Connector, EventQueue
from deployments.models import Execution, StageExecution
from inventory.models import AnnouncedChange
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync.watched_services import record_view
from rbac.models import Scope, User
from tests.api.sample_project import make_world
from tests.inventory.sync.changing_cluster import ACCOUNT, REGION, ChangingCluster, SimulatedSync
from web import clock
from web.clock import get_database_time

SERVICES = 12
# ListServices, two of DescribeServices, DescribeScalableTargets, ListTasks twice and DescribeTasks.
WHOLE = 7
# Without scalable targets.
USUAL = 6
# ListServices and ListTasks twice.
LISTED = 3


@pytest.fixture
def connector(project: Scope, settings: Settings) -> Connector:
    settings.AWS_QUOTA_SHARE = 1000.0
    return Connector.objects.create(
        scope=project, identifier="events", name="AWS", spec={"credentials": "DefaultChain"}
    )


def start(connector: Connector, moved_clock: time_machine.Traveller, services: int) -> SimulatedSync:
    """Return a sync that has read everything, of a cluster whose events arrive."""
    now = get_database_time()
    Connector.objects.update(updated_at=now - timedelta(days=1))
    EventQueue.objects.create(
        connector=connector,
        region=REGION,
        queue_url="https://sqs/events",
        account=ACCOUNT,
        read_at=now,
        last_event_at=now,
    )
    SyncedCluster.objects.create(
        connector=connector, region=REGION, cluster="large", last_used_at=now, due_at=now
    )
    sync = SimulatedSync(ChangingCluster(services, 1, began=now - timedelta(days=1)), moved_clock)
    sync.pass_seconds(5)
    return sync


@pytest.fixture
def moved_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[time_machine.Traveller]:
    # The traveller moves this machine's clock, which PostgreSQL does not follow.
    monkeypatch.setattr(clock, "connection", SimpleNamespace(vendor="sqlite"))
    with time_machine.travel(datetime(2026, 11, 27, 12, 0, tzinfo=UTC), tick=False) as traveller:
        yield traveller


@pytest.fixture
def sync(connector: Connector, moved_clock: time_machine.Traveller) -> SimulatedSync:
    return start(connector, moved_clock, SERVICES)


def test_while_events_arrive_only_lists_are_read_every_five_minutes(sync: SimulatedSync) -> None:
    assert sync.aws.calls.total() == WHOLE
    sync.tick_seconds = 30
    assert sync.count(14 * 60) == 2 * LISTED
    assert sync.count(2 * 60) == WHOLE
    assert not EcsServiceRecord.objects.exclude(gone_at=None).exists()
    assert ServiceInstance.objects.filter(stopped_at=None).count() == SERVICES


@pytest.mark.parametrize("end", ["unread", "failing", "silent"])
def test_the_usual_interval_returns_within_30_seconds_after_the_end_of_events(
    sync: SimulatedSync, end: str
) -> None:
    sync.pass_seconds(100)
    columns = {"failing": {"problem": "denied"}, "silent": {"silent_since": get_database_time()}}
    EventQueue.objects.update(**columns.get(end, {}))
    sync.is_read = end != "unread"
    assert sync.count(30) == USUAL
    assert sync.count(120) == 2 * USUAL


def test_an_event_leads_to_a_read_of_this_service_and_task(sync: SimulatedSync) -> None:
    sync.pass_seconds(60)
    arn = sync.aws.replace_task(3, get_database_time())
    before = sync.aws.calls.copy()
    sync.send([sync.aws.build_event(3, get_database_time(), version=2)])
    assert sync.aws.calls - before == {"DescribeServices": 1, "DescribeTasks": 1}
    task = ServiceInstance.objects.get(arn=arn)
    assert (task.version, task.ecs_service and task.ecs_service.name) == (2, "s3")
    assert not AnnouncedChange.objects.exists()
    assert sync.row.synced_at == get_database_time()


def test_a_service_that_was_deleted_is_gone_with_the_read_that_says_so(sync: SimulatedSync) -> None:
    class WithDeletedService(ChangingCluster):
        def _service(self, arn: str) -> dict[str, Any]:
            service = super()._service(arn)
            is_deleted = service["serviceName"] == "s3"
            return {**service, "status": "INACTIVE", "desiredCount": 0} if is_deleted else service

    sync.pass_seconds(60)
    sync.aws = WithDeletedService(SERVICES, 1, began=sync.aws.began)
    sync.send([sync.aws.build_event(3, get_database_time())])
    gone = EcsServiceRecord.objects.exclude(gone_at=None)
    assert list(gone.values_list("name", "gone_at")) == [("s3", get_database_time())]


def test_many_events_of_one_moment_share_a_read(sync: SimulatedSync) -> None:
    sync.pass_seconds(60)
    now = get_database_time()
    before = sync.aws.calls.total()
    sync.send([sync.aws.build_event(number, now, version=2) for number in range(6)])
    sync.send([sync.aws.build_event(number, now, version=3) for number in range(6)])
    sync.pass_seconds(30)
    assert sync.aws.calls.total() - before == 4
    assert set(ServiceInstance.objects.values_list("version", flat=True)) == {1, 3}


def test_repeated_late_and_reordered_events_change_nothing(sync: SimulatedSync) -> None:
    sync.pass_seconds(60)
    now = get_database_time()
    events = [sync.aws.build_event(0, now, version=version) for version in (4, 2, 3)]
    sync.aws.versions[sync.aws.get_arn(0)] = 4
    sync.send(events)
    sync.pass_seconds(60)
    stored = list(ServiceInstance.objects.order_by("pk").values())
    before = sync.aws.calls.total()
    sync.send([*reversed(events), sync.aws.build_event(0, now - timedelta(hours=1))])
    sync.pass_seconds(60)
    assert sync.aws.calls.total() == before
    assert list(ServiceInstance.objects.order_by("pk").values()) == stored


def test_a_read_that_is_older_than_the_event_is_repeated(sync: SimulatedSync) -> None:
    sync.pass_seconds(60)
    event = sync.aws.build_event(0, get_database_time(), version=2)
    sync.aws.versions[event.task] = 1
    sync.send([event])
    assert AnnouncedChange.objects.count() == 1
    sync.aws.versions[event.task] = 2
    sync.pass_seconds(30)
    assert ServiceInstance.objects.get(arn=event.task).version == 2
    assert not AnnouncedChange.objects.exists()


def test_an_event_during_a_sync_is_read_after_it(sync: SimulatedSync) -> None:
    sync.pass_seconds(60)
    now = get_database_time()
    event = sync.aws.build_event(0, now, version=2)
    describe = sync.aws._DescribeTasks

    def describe_after_event(params: dict[str, list[str]]) -> dict[str, object]:
        response = describe(params)
        sync.aws._DescribeTasks = describe  # type: ignore[method-assign]
        sync.send([sync.aws.build_event(0, now, version=3)])
        return response

    sync.aws._DescribeTasks = describe_after_event  # type: ignore[method-assign,assignment]
    sync.send([event])
    assert ServiceInstance.objects.get(arn=event.task).version == 2
    sync.pass_seconds(30)
    assert ServiceInstance.objects.get(arn=event.task).version == 3


def test_a_task_that_no_event_announced_ends_the_trust_in_events(sync: SimulatedSync) -> None:
    sync.pass_seconds(60)
    arn = sync.aws.replace_task(0, get_database_time())
    sync.tick_seconds = 30
    sync.pass_seconds(5 * 60)
    assert ServiceInstance.objects.get(arn=arn).stopped_at is None
    assert EventQueue.objects.get().silent_since is not None
    assert sync.count(60) == USUAL


def test_a_watched_service_is_read_each_minute(sync: SimulatedSync) -> None:
    sync.pass_seconds(60)
    record_view(EcsServiceRecord.objects.filter(name="s1"), get_database_time())
    before = sync.aws.calls["DescribeServices"]
    sync.tick_seconds = 20
    sync.pass_seconds(4 * 60)
    assert sync.aws.calls["DescribeServices"] - before == 4


def test_after_a_deployment_only_its_service_is_read(
    sync: SimulatedSync, connector: Connector, project: Scope, admin: User
) -> None:
    sync.pass_seconds(60)
    stage = StageExecution.objects.get(execution=make_world(project, admin, admin).execution)
    SyncedCluster.objects.exclude(connector=connector).update(due_at=None)
    columns = {"connector": connector, "region": REGION, "cluster": "large", "ecs_service": "s3"}
    StageExecution.objects.filter(pk=stage.pk).update(**columns)
    Infrastructure.objects.update(connector=connector, region=REGION, cluster="large")
    Execution.objects.filter(pk=stage.execution_id).update(ended_at=get_database_time(), status="SUCCESS")
    before = sync.aws.calls.copy()
    sync.pass_seconds(60)
    assert sync.aws.calls - before == {"DescribeServices": 1}


def test_a_flood_of_events_becomes_a_whole_sync(sync: SimulatedSync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inventory.sync.announced_changes.MOST_CHANGES", 3)
    now = get_database_time()
    SyncedCluster.objects.update(due_at=now + timedelta(minutes=5), synced_at=now)
    for number in range(6):
        sync.send([sync.aws.build_event(number, get_database_time(), version=2)])
    assert AnnouncedChange.objects.count() < 6
    before = sync.aws.calls.copy()
    sync.pass_seconds(30)
    assert (sync.aws.calls - before)["ListServices"] == 1


def test_a_few_changes_a_minute_cost_few_calls(
    connector: Connector, moved_clock: time_machine.Traveller
) -> None:
    """Each change replaces a task: three events of the task, and one of the service."""
    services, minutes = 500, 30
    sync = start(connector, moved_clock, services)
    before = sync.aws.calls.total()
    for number in range(3 * minutes):
        service = number * 7 % services
        sync.aws.replace_task(service, get_database_time())
        for version in (1, 2, 3):
            sync.send([sync.aws.build_event(service, get_database_time(), version=version)])
            sync.pass_seconds(5)
        sync.send([sync.aws.build_event(service, get_database_time())])
        sync.pass_seconds(5)
    calls_per_second = (sync.aws.calls.total() - before) / (60 * minutes)
    print(f"\n{services} services, 3 changes a minute: {calls_per_second:.3f} calls a second")
    assert calls_per_second <= 0.2
    running = ServiceInstance.objects.filter(stopped_at=None)
    current = {sync.aws.get_arn(number) for number in range(services)}
    assert current <= set(running.values_list("arn", flat=True))
