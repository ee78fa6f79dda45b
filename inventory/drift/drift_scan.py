"""Drift scan of one cluster: the calls that read what sync has not read, then the comparison."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Self

from django.db import transaction
from django.db.models import QuerySet

from aws.apis.scaling import build_resource_id
from aws.errors import AwsError
from delegates.access.aws_access import open_aws_access
from inventory.adoption.live import publish_pending_adoptions_changed
from inventory.adoption.proposals import update_pending_adoptions
from inventory.drift.clusters import DRIFT_OWNER, lift_drift_pause
from inventory.drift.cursor import REVISIONS, TARGETS, DriftCursor
from inventory.drift.findings import update_comparisons
from inventory.drift.read_plan import create_cursor
from inventory.models.drift import ClusterDriftScan, TaskDefinitionRevision
from inventory.models.instances import SyncedCluster
from inventory.sync.cursor import ReadCall
from inventory.sync.ecs_payloads import AwsPayload
from inventory.sync.follow_ups import get_recent_targets
from inventory.sync.pauses import ScanFailure
from inventory.sync.scans import runner
from inventory.sync.scans.cluster_scan import ClusterScan
from web.clock import get_database_time

SCAN_INTERVAL: Final = timedelta(minutes=2)
# Sync has seen something new while a look was under way.
RESCAN_DELAY: Final = timedelta(seconds=5)


@dataclass
class DriftScan(ClusterScan):
    """The look for drift in one cluster."""

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
        kept = row.cursor
        return cls(
            row, DriftCursor.from_row(kept) if kept else create_cursor(row.cluster, get_database_time())
        )

    @property
    def cluster(self) -> SyncedCluster:
        return self.row.cluster

    def use_recent_reads(self) -> None:
        """Take over what was read of scaling since its last change. Raises `ScanLeaseLost`."""
        # Who asked for a look at once wants it from AWS.
        if self.cursor.phase != TARGETS or self.cursor.token or self.row.compared_at is None:
            return
        cluster = self.cluster
        ids = {build_resource_id(cluster.cluster, name): name for name in self.cursor.services}
        targets = get_recent_targets(cluster, ids, get_database_time())
        if targets:
            self.cursor = self.cursor.with_targets({ids[key]: one for key, one in targets.items()})
            self.save_cursor(get_database_time())

    def apply_response(self, question: ReadCall, answer: Mapping[str, Any]) -> None:
        """Keep an answer and say where it goes on, in one commit.

        Raises `ScanLeaseLost`, `InvalidAwsResponse`.
        """
        now = get_database_time()
        with transaction.atomic():
            if self.cursor.phase == REVISIONS:
                _store_revision(question.params["taskDefinition"], answer, now)
            self.cursor = self.cursor.after_response(self.cluster.cluster, answer)
            self.save_cursor(now)

    def finish(self) -> None:
        """Compare, now that all is read, and say when it is done again. Raises `ScanLeaseLost`."""
        now, row = get_database_time(), self.row
        with transaction.atomic():
            self.complete(
                now, SCAN_INTERVAL, compared_at=now, scaling_read_error=self.cursor.scaling_read_error
            )
            left = update_comparisons(row.cluster, self.cursor, now)
            is_read = update_pending_adoptions(row.cluster, self.cursor, now)
            if left.has_unread_revisions or not is_read:
                self.update(due_at=now + RESCAN_DELAY, compared_at=None)
            elif left.is_settling:
                # It is looked at once sync has seen something newer, and no sooner.
                self.update(due_at=now + RESCAN_DELAY)
            if self.cursor.calls:
                lift_drift_pause(row, now)

    def fail(self, failure: ScanFailure, *, shared: str = "") -> None:
        """As every chain does; pages that wait for what it would have read are told.

        Raises `ScanLeaseLost`.
        """
        with transaction.atomic():
            super().fail(failure, shared=shared)
            publish_pending_adoptions_changed(self.cluster.pk)

    def can_skip(self, error: AwsError) -> bool:
        """Whether all else is compared without what this call would have told."""
        return self.cursor.after_error(error) is not None

    def skip(self, error: AwsError) -> None:
        """Go on without what AWS keeps back. Raises `ScanLeaseLost`."""
        self.cursor = self.cursor.after_error(error) or self.cursor
        self.save_cursor(get_database_time())


def _store_revision(arn: str, answer: Mapping[str, Any], now: datetime) -> None:
    """Keep a revision under the ARN that it was asked for by."""
    found = answer.get("taskDefinition")
    if not isinstance(found, Mapping) or not found:
        return
    told = AwsPayload(found)
    # Its contents never change; whether it may still be used does.
    TaskDefinitionRevision.objects.update_or_create(
        arn=arn[:512],
        defaults={
            "content": json.dumps(dict(found), default=str),
            "registered_at": told.moment("registeredAt"),
            "registered_by": told.text("registeredBy"),
            "used_at": now,
        },
    )


def run_drift_scan(pk: int, open_way: runner.OpenConnector = open_aws_access) -> None:
    """Look at a cluster for a while, from here; through a delegate its next call is only asked for."""
    runner.run_scan(DriftScan, pk, open_way)
