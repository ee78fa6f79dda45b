"""Sync scan of one cluster: the calls that read what runs there, and the rows that they fill."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Self

from django.db import transaction
from django.db.models import QuerySet

from aws.errors import AwsError, NotFound, Throttled, Unanswered, Unauthenticated, Undelivered
from delegates.access.aws_access import open_aws_access
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync import denied_reads, pauses
from inventory.sync.cursor import (
    ACTIVITIES,
    HEALTH,
    MACHINES,
    OPTIONAL_PHASES,
    RUNNING,
    SCALING,
    SERVICES,
    STOPPED,
    USAGE,
    ReadCall,
    SyncCursor,
)
from inventory.sync.ecs_payloads import list_arns, parse_account_id
from inventory.sync.follow_ups import create_cursor, get_recent_services
from inventory.sync.live import publish_clusters_changed
from inventory.sync.scans import runner
from inventory.sync.scans.cluster_scan import ClusterScan
from inventory.sync.upserts.container_instances import (
    list_used_container_instances,
    upsert_container_instances,
)
from inventory.sync.upserts.ecs_services import upsert_services
from inventory.sync.upserts.ecs_tasks import filter_known_stopped, upsert_tasks
from inventory.sync.upserts.scale_attribution import attribute_scaling
from inventory.sync.upserts.scaling import (
    insert_scaling_activities,
    list_due_activities,
    list_due_targets,
    upsert_scalable_targets,
)
from inventory.sync.upserts.target_health import list_due_target_groups, update_target_health
from inventory.sync.upserts.usage import list_due_usages, update_usage
from web.clock import get_database_time


def end_missing_rows(cluster: SyncedCluster, began: datetime, now: datetime) -> None:
    """End what a whole sync has not seen: it stopped more than an hour ago, or its service is gone."""
    EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None, seen_at__lt=began).update(
        gone_at=now, status="INACTIVE", desired=0, running=0, pending=0
    )
    ServiceInstance.objects.filter(cluster=cluster, stopped_at=None, seen_at__lt=began).update(
        stopped_at=now, last_status="STOPPED", desired_status="STOPPED",
        stopped_reason="It was gone when Slipway looked; AWS tells no reason any more.",
    )  # fmt: skip


SYNC_INTERVAL: Final = timedelta(seconds=60)
CLUSTER_NOT_FOUND_ADVICE: Final = (
    "Create the cluster, or name the right one in the infrastructure: region and account count too."
)
# What each phase asks for that no list tells.
_PHASE_TARGETS: Final[Mapping[str, Callable[[SyncedCluster, datetime], list[str]]]] = {
    SCALING: list_due_targets,
    MACHINES: list_used_container_instances,
    ACTIVITIES: list_due_activities,
    HEALTH: list_due_target_groups,
    USAGE: list_due_usages,
}


@dataclass
class SyncScan(ClusterScan):
    """The sync of one cluster; its row is that of the cluster."""

    OWNER: ClassVar[str] = "sync"

    row: SyncedCluster
    reading: SyncCursor

    @classmethod
    def rows(cls) -> "QuerySet[SyncedCluster]":
        return SyncedCluster.objects.select_related("connector__scope", "connector__secret")

    @classmethod
    def of_row(cls, row: SyncedCluster) -> Self:
        kept = row.reading
        return cls(row, SyncCursor.from_row(kept) if kept else create_cursor(row, get_database_time()))

    @property
    def cluster(self) -> SyncedCluster:
        return self.row

    @property
    def began(self) -> datetime:
        return datetime.fromisoformat(self.reading.began)

    def use_recent_reads(self) -> None:
        """Take over services that the engine described since their last change. Raises `ScanLeaseLost`."""
        now, pending = get_database_time(), self.reading.pending
        if not pending or self.reading.phase != SERVICES:
            return
        answers = get_recent_services(self.cluster, pending, now)
        if not answers:
            return
        with transaction.atomic():
            upsert_services(self.cluster, {"services": list(answers.values())}, now)
            self.reading = self.reading.without(answers.keys())
            self._fill(now)

    def take(self, question: ReadCall, answer: Mapping[str, Any]) -> None:
        """Keep an answer and say where it goes on, in one commit.

        Raises `ScanLeaseLost`, `InvalidAwsResponse`.
        """
        now = get_database_time()
        is_first = not self.reading.calls
        with transaction.atomic():
            self.reading = self._listed(answer) if question.lists else self._described(question, answer, now)
            self._fill(now)
            if is_first:
                pauses.lift_sync_pause(self.cluster, now)

    def update(self, **fields: Any) -> None:
        """Write columns of the cluster, and let pages hear of it. Raises `ScanLeaseLost`."""
        super().update(**fields)
        publish_clusters_changed(self.cluster.pk)

    def skips(self, error: AwsError) -> bool:
        """Whether the picture is one without what this call would have told."""
        is_general = isinstance(error, Unauthenticated | Undelivered | Unanswered)
        return self.reading.phase in OPTIONAL_PHASES and not is_general

    def skip(self, error: AwsError) -> None:
        """Go on without what AWS keeps back, noting which part that is. Raises `ScanLeaseLost`."""
        now, question = get_database_time(), self.question()
        if self.reading.phase == HEALTH and isinstance(error, NotFound):
            # Only this target group is gone.
            self._leave_group(question, now)
            return
        if not isinstance(error, Throttled):
            self.cluster.lacking = denied_reads.add_denied_read(self.cluster.lacking, question, error, now)
        with transaction.atomic():
            self.reading = self.reading.skipped()
            self._fill(now)

    def note_refusal(self, error: AwsError) -> str:
        """Where there is no cluster, nothing runs."""
        if not isinstance(error, NotFound):
            return super().note_refusal(error)
        now = get_database_time()
        end_missing_rows(self.cluster, now, now)
        return CLUSTER_NOT_FOUND_ADVICE

    def close(self) -> None:
        """Close what is gone, and say when the next sync is due. Raises `ScanLeaseLost`."""
        now = get_database_time()
        with transaction.atomic():
            end_missing_rows(self.cluster, self.began, now)
            attribute_scaling(self.cluster, now)
            seconds = (now - self.began).total_seconds()
            listed = {} if self.reading.is_follow_up else {"listed_at": self.began}
            self.end(now, SYNC_INTERVAL, synced_at=now, seconds=seconds, follows_at=None, **listed)
            pauses.lift_sync_pause(self.cluster, now)

    def _leave_group(self, question: ReadCall, now: datetime) -> None:
        with transaction.atomic():
            update_target_health(self.cluster, question.params["TargetGroupArn"], None, now)
            self.reading = self.reading.described()
            self._fill(now)

    def _listed(self, answer: Mapping[str, Any]) -> SyncCursor:
        known: set[str] = set()
        if self.reading.phase == STOPPED:
            known = filter_known_stopped(self.cluster, list_arns(answer, "taskArns"))
        if self.reading.phase == SERVICES and not self.cluster.account:
            self.cluster.account = parse_account_id(next(iter(list_arns(answer, "serviceArns")), ""))
        return self.reading.listed(answer, known=known, ended=self._ended(answer))

    def _ended(self, answer: Mapping[str, Any]) -> list[str]:
        """The tasks of a follow-up that were known, and that no page of what runs has named."""
        is_last = not answer.get("nextToken")
        if not (is_last and self.reading.is_follow_up and self.reading.phase == RUNNING):
            return []
        named = {*self.reading.pending, *list_arns(answer, "taskArns")}
        rows = ServiceInstance.objects.filter(
            cluster=self.cluster, stopped_at=None, seen_at__lt=self.began
        ).order_by("pk")
        return [arn for arn in rows.values_list("arn", flat=True) if arn not in named]

    def _described(self, question: ReadCall, answer: Mapping[str, Any], now: datetime) -> SyncCursor:
        phase, cluster = self.reading.phase, self.cluster
        cluster.lacking = denied_reads.remove_denied_read(cluster.lacking, question)
        if phase == SERVICES:
            upsert_services(cluster, answer, now)
        elif phase == SCALING:
            upsert_scalable_targets(cluster, question.params["ResourceIds"], answer, now)
            cluster.scaling_read_at = now
        elif phase == MACHINES:
            upsert_container_instances(cluster, answer, now)
        elif phase == HEALTH:
            update_target_health(cluster, question.params["TargetGroupArn"], answer, now)
        elif phase == USAGE:
            update_usage(cluster, question.params, answer, now)
            return self.reading.turned(answer)
        elif phase == ACTIVITIES:
            wants_older = insert_scaling_activities(cluster, answer, now)
            return self.reading.turned(answer) if wants_older else self.reading.described()
        else:
            upsert_tasks(cluster, answer, now)
        return self.reading.described()

    def _fill(self, now: datetime) -> None:
        """Fill in what the next phase asks for, and write how far it is."""
        while self.reading.wants_filling:
            is_kept_back = denied_reads.is_phase_denied(self.cluster.lacking, self.reading.phase, now)
            wanted = [] if is_kept_back else _PHASE_TARGETS[self.reading.phase](self.cluster, now)
            if not (wanted or is_kept_back):
                self.cluster.lacking = denied_reads.remove_phase(self.cluster.lacking, self.reading.phase)
            self.reading = self.reading.filled(wanted)
        known = {
            "account": self.cluster.account,
            "lacking": self.cluster.lacking,
            "scaling_read_at": self.cluster.scaling_read_at,
        }
        self.go_on(now, **known)


def run_sync(pk: int, open_way: runner.OpenConnector = open_aws_access) -> None:
    """Sync a cluster for a while, from here; through a delegate its next call is only asked for."""
    runner.run_scan(SyncScan, pk, open_way)
