"""Drift scan of one cluster: reads in addition to sync, then the comparison."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Self

from django.db import transaction
from django.db.models import QuerySet

from aws.apis.scaling import build_resource_id
from aws.errors import AwsError
from inventory.adoption.live import publish_pending_adoptions_changed
from inventory.adoption.proposals import update_pending_adoptions
from inventory.drift import clusters
from inventory.drift.clusters import DRIFT_OWNER, lift_drift_pause
from inventory.drift.cursor import REVISIONS, TARGETS, DriftCursor, create_cursor
from inventory.drift.findings import update_comparisons
from inventory.models.drift import ClusterDriftScan, TaskDefinitionRevision
from inventory.models.instances import SyncedCluster
from inventory.sync.cursor import ReadCall
from inventory.sync.ecs_payloads import AwsPayload
from inventory.sync.follow_ups import get_recent_targets
from inventory.sync.pauses import ScanFailure
from inventory.sync.scans.cluster_scan import ClusterScan
from web.clock import get_database_time

SCAN_INTERVAL: Final = timedelta(minutes=2)
# Sync has read something new during the scan.
RESCAN_DELAY: Final = timedelta(seconds=5)


@dataclass
class DriftScan(ClusterScan):
    """The drift scan of one cluster."""

    OWNER: ClassVar[str] = DRIFT_OWNER

    row: ClusterDriftScan
    cursor: DriftCursor

    @classmethod
    def rows(cls) -> "QuerySet[ClusterDriftScan]":
        return ClusterDriftScan.objects.select_related(
            "cluster__connector__scope", "cluster__connector__secret"
        )

    @classmethod
    def of_row(cls, row: ClusterDriftScan) -> Self:
        stored = row.cursor
        return cls(
            row, DriftCursor.from_row(stored) if stored else create_cursor(row.cluster, get_database_time())
        )

    @classmethod
    def schedule(cls, now: datetime) -> None:
        clusters.create_cluster_scans(now)
        clusters.schedule_follow_ups(now)

    @classmethod
    def list_due_clusters(cls, now: datetime, limit: int) -> list[int]:
        return clusters.list_due_clusters(now, limit)

    @property
    def cluster(self) -> SyncedCluster:
        return self.row.cluster

    def use_recent_reads(self) -> None:
        """Reuse scalable targets that were read after their last change. Raises `ScanLeaseLost`."""
        # A requested scan must read from AWS.
        if self.cursor.phase != TARGETS or self.cursor.token or self.row.compared_at is None:
            return
        cluster = self.cluster
        ids = {build_resource_id(cluster.cluster, name): name for name in self.cursor.services}
        targets = get_recent_targets(cluster, ids, get_database_time())
        if targets:
            self.cursor = self.cursor.with_targets({ids[key]: target for key, target in targets.items()})
            self.save_cursor(get_database_time())

    def apply_response(self, call: ReadCall, response: Mapping[str, Any]) -> None:
        """Store a response and the new cursor in one transaction.

        Raises `ScanLeaseLost`, `InvalidAwsResponse`.
        """
        now = get_database_time()
        with transaction.atomic():
            if self.cursor.phase == REVISIONS:
                _store_revision(call.params["taskDefinition"], response, now)
            self.cursor = self.cursor.after_response(self.cluster.cluster, response)
            self.save_cursor(now)

    def finish(self) -> None:
        """Compare the services, and schedule the next scan. Raises `ScanLeaseLost`."""
        now, row = get_database_time(), self.row
        with transaction.atomic():
            self.complete(
                now, SCAN_INTERVAL, compared_at=now, scaling_read_error=self.cursor.scaling_read_error
            )
            incomplete = update_comparisons(row.cluster, self.cursor, now)
            is_read = update_pending_adoptions(row.cluster, self.cursor, now)
            if incomplete.has_unread_revisions or not is_read:
                self.update(due_at=now + RESCAN_DELAY, compared_at=None)
            elif incomplete.is_settling:
                # The scan waits until sync has read something newer.
                self.update(due_at=now + RESCAN_DELAY)
            if self.cursor.calls:
                lift_drift_pause(row, now)

    def fail(self, failure: ScanFailure, *, pause_key: str = "") -> None:
        """Record the failure, and notify pages that wait for this scan.

        Raises `ScanLeaseLost`.
        """
        with transaction.atomic():
            super().fail(failure, pause_key=pause_key)
            publish_pending_adoptions_changed(self.cluster.pk)

    def can_skip(self, error: AwsError) -> bool:
        """Return whether the scan can continue without this call."""
        return self.cursor.after_error(error) is not None

    def skip(self, error: AwsError) -> None:
        """Continue without the denied read. Raises `ScanLeaseLost`."""
        self.cursor = self.cursor.after_error(error) or self.cursor
        self.save_cursor(get_database_time())


def _store_revision(arn: str, response: Mapping[str, Any], now: datetime) -> None:
    """Store a revision under the ARN it was requested by."""
    definition = response.get("taskDefinition")
    if not isinstance(definition, Mapping) or not definition:
        return
    payload = AwsPayload(definition)
    # The content never changes, but its status may.
    TaskDefinitionRevision.objects.update_or_create(
        arn=arn[:512],
        defaults={
            "content": json.dumps(dict(definition), default=str),
            "registered_at": payload.moment("registeredAt"),
            "registered_by": payload.text("registeredBy"),
            "used_at": now,
        },
    )
