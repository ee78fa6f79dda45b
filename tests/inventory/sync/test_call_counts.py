"""One rollout with sync and drift on: the calls that all of them make together."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import time_machine

from deployments.engine.dispatch import claim_due_batches, reconcile_batch
from deployments.engine.service_waits import get_batch_key
from deployments.journal import rate_limits, recent_reads
from deployments.journal.aws_access import open_engine_access
from deployments.journal.runtime import EngineRuntime
from deployments.models import AwsCall, Execution
from inventory.drift import clusters as drift_clusters
from inventory.drift import drift_scan
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync import clusters, sync_scan
from inventory.sync.scans.runner import run_scan
from steps.states import CallState
from tests.fixtures.engine_driver import Drive
from web import clock
from web.clock import get_database_time

# Seconds between ticks, as beat has them.
ENGINE, SYNC, DRIFT = 1, 5, 10
# What a rollout of one task takes in the sandbox, in its own seconds, and what it is to take here.
NATURAL, ROLLOUT = 71.0, 63.0
MOST_CALLS = 24
LONGEST = 300


@dataclass
class Installation:
    """Engine, sync and drift, each ticked as often as beat does, on one clock that the test moves."""

    drive: Drive
    traveller: time_machine.Traveller
    seconds: int = 0
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def runtime(self) -> EngineRuntime:
        return EngineRuntime(
            open_aws_access=open_engine_access, now=get_database_time, monotonic=lambda: float(self.seconds)
        )

    def pass_second(self, seconds: float = NATURAL / ROLLOUT) -> None:
        self.seconds += 1
        self.traveller.shift(timedelta(seconds=0.99))
        self.drive.sandbox.advance(seconds)
        self._count("engine", self._tick_engine, ENGINE)
        # No sync begins at the very moment at which an execution has ended.
        self.traveller.shift(timedelta(seconds=0.01))
        self._count("sync", self._tick_sync, SYNC)
        self._count("drift", self._tick_drift, DRIFT)

    def _count(self, caller: str, run_tick: Callable[[], None], interval: int) -> None:
        if self.seconds % interval:
            return
        mark = self.drive.mark()
        run_tick()
        self.calls[caller] += len(self.drive.sandbox.journal(mark))

    def _tick_engine(self) -> None:
        for group in claim_due_batches(self.runtime):
            reconcile_batch(group, runtime=self.runtime)

    def _tick_sync(self) -> None:
        now = get_database_time()
        clusters.create_clusters(now)
        clusters.schedule_follow_ups(now)
        for pk in clusters.list_due_clusters(now, 10):
            run_scan(sync_scan.SyncScan, pk)

    def _tick_drift(self) -> None:
        now = get_database_time()
        drift_clusters.create_cluster_scans(now)
        drift_clusters.schedule_follow_ups(now)
        for pk in drift_clusters.list_due_clusters(now, 10):
            run_scan(drift_scan.DriftScan, pk)

    def roll_out(self, tag: str) -> Execution:
        """Deploy, and let ten seconds more go by: sync and drift follow the end."""
        execution = self.drive.start(tag)
        for _ in range(LONGEST):
            self.pass_second()
            execution.refresh_from_db()
            if execution.is_over:
                break
        assert execution.is_over, self.drive.log(execution)[-5:]
        for _ in range(DRIFT):
            self.pass_second()
        return execution


@pytest.fixture
def installation(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    # The traveller moves this machine's clock, which PostgreSQL does not follow.
    monkeypatch.setattr(clock, "connection", SimpleNamespace(vendor="sqlite"))
    with time_machine.travel(datetime.now(UTC) + timedelta(seconds=30), tick=False) as moved_clock:
        rate_limits.reset_buckets()
        yield Installation(drive, moved_clock)


@pytest.mark.parametrize("idle_seconds", [0, 31, 59, 100, 200])
def test_a_rollout_of_63_s_costs_at_most_24_calls_with_sync_and_drift(
    installation: Installation, idle_seconds: int
) -> None:
    installation.roll_out("1.27")
    for _ in range(idle_seconds):
        installation.pass_second()
    installation.calls.clear()
    start_seconds = installation.seconds
    execution = installation.roll_out("1.28")
    assert execution.status == "SUCCESS"
    assert installation.seconds - start_seconds > ROLLOUT
    assert installation.calls.total() <= MOST_CALLS, installation.calls
    cluster, record = SyncedCluster.objects.get(), EcsServiceRecord.objects.get()
    (task,) = ServiceInstance.objects.filter(stopped_at=None)
    assert (task.execution, record.running) == (execution, 1)
    assert ServiceInstance.objects.exclude(stopped_at=None).exists()
    assert record.task_definition == task.task_definition
    assert cluster.synced_at is not None
    assert execution.ended_at is not None
    assert cluster.synced_at > execution.ended_at


def publish_read(cluster: SyncedCluster) -> None:
    """Publish a recent description of the service with a count that AWS does not have."""
    description = {**EcsServiceRecord.objects.get().description, "desiredCount": 77, "events": []}
    recent_reads.publish_reads(
        recent_reads.SERVICES, get_batch_key(cluster), {"myapp": description}, started_at=get_database_time()
    )


def sync_count(clock: time_machine.Traveller) -> int:
    clock.shift(timedelta(seconds=1))
    SyncedCluster.objects.update(due_at=get_database_time())
    run_scan(sync_scan.SyncScan, SyncedCluster.objects.get().pk)
    return EcsServiceRecord.objects.get().desired


def test_sync_uses_a_read_only_after_the_last_write_of_any_execution(installation: Installation) -> None:
    execution = installation.roll_out("1.27")
    cluster, clock = SyncedCluster.objects.get(), installation.traveller
    publish_read(cluster)
    assert sync_count(clock) == 77
    publish_read(cluster)
    write = AwsCall.objects.filter(execution=execution, operation="CreateService")
    clock.shift(timedelta(seconds=1))
    write.update(answered_at=get_database_time())
    assert sync_count(clock) == 1, "written after the read"
    publish_read(cluster)
    write.update(answered_at=None, state=CallState.UNKNOWN)
    assert sync_count(clock) == 1, "a write without an answer may come at any moment"


def test_who_asks_for_a_sync_gets_what_aws_shows_then(installation: Installation) -> None:
    installation.roll_out("1.27")
    cluster = SyncedCluster.objects.get()
    publish_read(cluster)
    installation.traveller.shift(timedelta(seconds=1))
    clusters.advance_due_date(cluster, get_database_time())
    assert sync_count(installation.traveller) == 1


def test_a_sync_waits_for_executions_two_minutes_at_most(installation: Installation) -> None:
    installation.roll_out("1.27")
    installation.drive.start("1.28")
    for _ in range(5):
        installation.pass_second(seconds=0)
    now = get_database_time()
    SyncedCluster.objects.update(due_at=now)
    assert clusters.list_due_clusters(now, 10) == []
    assert clusters.list_due_clusters(now + clusters.MAX_DEFERRAL, 10) != []
