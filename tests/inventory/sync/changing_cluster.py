"""A large cluster whose tasks are replaced, with the events of ECS, on a clock that the test moves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import time_machine

from connectors.models import EventQueue
from delegates.event_queues.coverage import QueueCoverage
from delegates.event_queues.events import ServiceEvent
from inventory.models.instances import SyncedCluster
from inventory.sync.announced_changes import record_events
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan
from tests.inventory.sync.large_cluster import PREFIX, LargeCluster, _build_page
from web.clock import get_database_time

ACCOUNT, REGION = "123456789012", "us-east-1"
TICK_SECONDS = 5


@dataclass
class ChangingCluster(LargeCluster):
    """Each service has one task, numbered by how often it was replaced."""

    generations: dict[str, int] = field(default_factory=dict)
    replaced_at: dict[str, datetime] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "GetMetricData":
            self.calls[operation] += 1
            return {"MetricDataResults": []}
        return super().call(service, operation, params)

    def replace_task(self, number: int, now: datetime) -> str:
        """Replace the task of a service, and return its ARN."""
        name = f"s{number}"
        self.generations[name] = self.generations.get(name, 0) + 1
        self.replaced_at[name] = now
        return self.get_arn(number)

    def get_arn(self, number: int) -> str:
        name = f"s{number}"
        return f"{PREFIX}:task/large/{name}t{self.generations.get(name, 0)}"

    def build_event(self, number: int, at: datetime, *, version: int = 0) -> ServiceEvent:
        """Return an event of the task of a service, or without a version of the service."""
        arn = self.get_arn(number) if version else ""
        if version:
            self.versions[arn] = version
        return ServiceEvent(ACCOUNT, REGION, "large", f"s{number}", at, False, arn, version)

    def _ListTasks(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params["desiredStatus"] == "STOPPED":
            return {"taskArns": []}
        return _build_page([self.get_arn(number) for number in range(self.services)], "taskArns", params)

    def _service(self, arn: str) -> dict[str, Any]:
        # Reads of changes name services without their ARN.
        return super()._service(arn if "/" in arn else f"{PREFIX}:service/large/{arn}")

    def _task(self, arn: str) -> dict[str, Any]:
        task = super()._task(arn)
        name = task["group"].removeprefix("service:")
        created_at = self.replaced_at.get(name, self.began).isoformat()
        version = self.versions.get(arn, 1)
        return {**task, "createdAt": created_at, "startedAt": created_at, "version": version}


@dataclass
class SimulatedSync:
    """Sync of one cluster, ticked as often as beat does, beside a reader of its event queue."""

    aws: ChangingCluster
    clock: time_machine.Traveller
    is_read: bool = True
    tick_seconds: int = TICK_SECONDS

    def pass_seconds(self, seconds: int) -> None:
        """Let time pass; the reader polls, and due syncs run."""
        for _ in range(0, seconds, self.tick_seconds):
            self.clock.shift(timedelta(seconds=self.tick_seconds))
            now = get_database_time()
            if self.is_read:
                EventQueue.objects.update(read_at=now)
            SyncScan.schedule(now)
            for pk in SyncScan.list_due_clusters(now, 10):
                self.sync(pk)

    def sync(self, pk: int) -> None:
        run_scan(SyncScan, pk, lambda *_: self.aws)

    def send(self, events: Sequence[ServiceEvent]) -> None:
        """Deliver events as a reader does; the syncs that are due for them run."""
        now = get_database_time()
        EventQueue.objects.update(read_at=now, last_event_at=now, silent_since=None)
        coverage = QueueCoverage.of(EventQueue.objects.select_related("connector__scope").get())
        for pk in record_events(coverage, events, now):
            self.sync(pk)

    def count(self, seconds: int) -> int:
        """Return the calls while time passes."""
        before = self.aws.calls.total()
        self.pass_seconds(seconds)
        return self.aws.calls.total() - before

    @property
    def row(self) -> SyncedCluster:
        return SyncedCluster.objects.get()
