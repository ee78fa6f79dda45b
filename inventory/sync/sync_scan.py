"""Sync scan of one cluster: the calls that read services and tasks, and the rows that they fill."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Self

from django.db import transaction
from django.db.models import Q, QuerySet

from aws.errors import AwsError, NotFound, Throttled, Unanswered, Unauthenticated, Undelivered
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync import announced_changes, clusters, denied_reads, pauses
from inventory.sync.clusters import SYNC_INTERVAL
from inventory.sync.cursor import (
    ACTIVITIES,
    CHANGES,
    DAEMON_DEPLOYMENTS,
    DAEMON_DETAILS,
    DAEMON_REVISIONS,
    DAEMONS,
    HEALTH,
    LISTS,
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
from inventory.sync.follow_ups import NET_INTERVAL, create_cursor, get_recent_services
from inventory.sync.live import publish_clusters_changed
from inventory.sync.scans.cluster_scan import ClusterScan
from inventory.sync.upserts.container_instances import (
    list_used_container_instances,
    upsert_container_instances,
)
from inventory.sync.upserts.daemons import (
    end_daemon,
    end_missing_daemons,
    list_due_daemon_clusters,
    list_due_daemons,
    list_due_deployments,
    list_due_revisions,
    update_daemon,
    update_daemon_deployments,
    update_daemon_revisions,
    upsert_daemons,
)
from inventory.sync.upserts.ecs_services import upsert_services
from inventory.sync.upserts.ecs_tasks import filter_stored_stopped, upsert_tasks
from inventory.sync.upserts.scale_attribution import attribute_scaling
from inventory.sync.upserts.scaling import (
    insert_scaling_activities,
    list_due_activities,
    list_due_targets,
    list_unknown_targets,
    mark_activities_unread,
    upsert_scalable_targets,
)
from inventory.sync.upserts.target_health import (
    list_due_target_groups,
    list_outdated_target_groups,
    update_target_health,
)
from inventory.sync.upserts.usage import list_due_usages, update_usage
from web.clock import get_database_time


def end_missing_rows(cluster: SyncedCluster, started_at: datetime, now: datetime) -> None:
    """End the services and tasks that a whole sync has not seen; those that return are stored anew."""
    services = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None, seen_at__lt=started_at)
    services.filter(Q(listed_at=None) | Q(listed_at__lt=started_at)).update(
        gone_at=now, status="INACTIVE", desired=0, running=0, pending=0
    )
    ServiceInstance.objects.filter(cluster=cluster, stopped_at=None, seen_at__lt=started_at).update(
        stopped_at=now, last_status="STOPPED", desired_status="STOPPED", fingerprint="",
        stopped_reason="The task disappeared between two syncs. AWS no longer reports a reason.",
    )  # fmt: skip


CLUSTER_NOT_FOUND_ADVICE: Final = (
    "Create the cluster, or correct the cluster, region or connector of the infrastructure."
)
# The names to describe in phases without a list operation.
_PHASE_TARGETS: Final[Mapping[str, Callable[[SyncedCluster, datetime], list[str]]]] = {
    SCALING: list_due_targets,
    MACHINES: list_used_container_instances,
    DAEMONS: list_due_daemon_clusters,
    DAEMON_DETAILS: list_due_daemons,
    DAEMON_DEPLOYMENTS: list_due_deployments,
    DAEMON_REVISIONS: list_due_revisions,
    ACTIVITIES: list_due_activities,
    HEALTH: list_due_target_groups,
    USAGE: list_due_usages,
}


# The upserts of phases whose response is all that they need.
# Those of syncs that do not read everything.
_LIST_TARGETS: Final = {**_PHASE_TARGETS, SCALING: list_unknown_targets}
_CHANGE_TARGETS: Final = {
    **_LIST_TARGETS,
    RUNNING: announced_changes.list_changed_tasks,
    HEALTH: list_outdated_target_groups,
}
_TARGETS_OF: Final = {LISTS: _LIST_TARGETS, CHANGES: _CHANGE_TARGETS}
_UPSERTS: Final[Mapping[str, Callable[[SyncedCluster, Mapping[str, Any], datetime], None]]] = {
    SERVICES: upsert_services,
    RUNNING: upsert_tasks,
    STOPPED: upsert_tasks,
    MACHINES: upsert_container_instances,
    DAEMON_DETAILS: update_daemon,
    DAEMON_DEPLOYMENTS: update_daemon_deployments,
    DAEMON_REVISIONS: update_daemon_revisions,
}


@dataclass
class SyncScan(ClusterScan):
    """The sync of one cluster; its row is the cluster's."""

    OWNER: ClassVar[str] = "sync"

    row: SyncedCluster
    cursor: SyncCursor

    @classmethod
    def rows(cls) -> "QuerySet[SyncedCluster]":
        return SyncedCluster.objects.select_related("connector__scope", "connector__secret")

    @classmethod
    def of_row(cls, row: SyncedCluster) -> Self:
        stored = row.cursor
        return cls(row, SyncCursor.from_row(stored) if stored else create_cursor(row, get_database_time()))

    @classmethod
    def schedule(cls, now: datetime) -> None:
        clusters.create_clusters(now)
        clusters.schedule_follow_ups(now)
        clusters.schedule_usual_syncs(now)

    @classmethod
    def list_due_clusters(cls, now: datetime, limit: int) -> list[int]:
        return clusters.list_due_clusters(now, limit)

    @property
    def cluster(self) -> SyncedCluster:
        return self.row

    @property
    def started_at(self) -> datetime:
        return datetime.fromisoformat(self.cursor.started_at)

    def use_recent_reads(self) -> None:
        """Reuse services that the engine described after their last change. Raises `ScanLeaseLost`."""
        now, pending = get_database_time(), self.cursor.pending
        if not pending or self.cursor.phase != SERVICES:
            return
        descriptions = get_recent_services(self.cluster, pending, now)
        if not descriptions:
            return
        with transaction.atomic():
            upsert_services(self.cluster, {"services": list(descriptions.values())}, now)
            self.cursor = self.cursor.without(descriptions.keys())
            self._fill_phase(now)

    def apply_response(self, call: ReadCall, response: Mapping[str, Any]) -> None:
        """Store a response and the new cursor in one transaction.

        Raises `ScanLeaseLost`, `InvalidAwsResponse`.
        """
        now = get_database_time()
        is_first = not self.cursor.calls
        with transaction.atomic():
            self.cursor = (
                self._apply_list_page(response)
                if call.lists
                else self._apply_descriptions(call, response, now)
            )
            self._fill_phase(now)
            if is_first:
                pauses.lift_sync_pause(self.cluster, now)

    def update(self, **fields: Any) -> None:
        """Update columns of the cluster, and publish the change. Raises `ScanLeaseLost`."""
        super().update(**fields)
        publish_clusters_changed(self.cluster.pk)

    def can_skip(self, error: AwsError) -> bool:
        """Return whether the sync can continue without this call."""
        is_general = isinstance(error, Unauthenticated | Undelivered | Unanswered)
        return self.cursor.phase in OPTIONAL_PHASES and not is_general

    def skip(self, error: AwsError) -> None:
        """Continue without the denied read, and record it. Raises `ScanLeaseLost`."""
        now, call = get_database_time(), self.build_call()
        if self.cursor.phase in (HEALTH, DAEMON_DETAILS) and isinstance(error, NotFound):
            # Only this target group or daemon was deleted.
            self._remove_target(call, now)
            return
        if not isinstance(error, Throttled):
            self.cluster.denied_reads = denied_reads.add_denied_read(
                self.cluster.denied_reads, call, error, now
            )
        with transaction.atomic():
            if self.cursor.phase == ACTIVITIES and isinstance(error, Throttled):
                mark_activities_unread(self.cluster, self.cursor.pending)
            self.cursor = self.cursor.skip_phase()
            self._fill_phase(now)

    def record_denial(self, error: AwsError) -> str:
        """End the rows of a cluster that does not exist, and return the advice."""
        if not isinstance(error, NotFound):
            return super().record_denial(error)
        now = get_database_time()
        end_missing_rows(self.cluster, now, now)
        end_missing_daemons(self.cluster, now, now)
        return CLUSTER_NOT_FOUND_ADVICE

    def finish(self) -> None:
        """End the rows of missing services and tasks, and schedule the next sync. Raises `ScanLeaseLost`."""
        now = get_database_time()
        with transaction.atomic():
            if self.cursor.extent != CHANGES:
                end_missing_rows(self.cluster, self.started_at, now)
            attribute_scaling(self.cluster, now)
            seconds = (now - self.started_at).total_seconds()
            columns = self._build_read_columns()
            interval, is_event_driven = self._choose_interval(columns.get("listed_at"), now)
            self.complete(
                now,
                interval,
                synced_at=now,
                seconds=seconds,
                follow_up_due_at=None,
                is_event_driven=is_event_driven,
                **columns,
            )
            pauses.lift_sync_pause(self.cluster, now)

    def _build_read_columns(self) -> dict[str, Any]:
        """Return the times of the last list and of the last read of everything."""
        if self.cursor.is_follow_up or self.cursor.extent == CHANGES:
            return {}
        times = {"listed_at": self.started_at}
        return times if self.cursor.extent == LISTS else {**times, "described_at": self.started_at}

    def _choose_interval(self, listed_at: datetime | None, now: datetime) -> tuple[timedelta, bool]:
        """Return the time to the next sync, and whether events announce what it would find."""
        has_changes = announced_changes.end_changes(self.cluster, self.started_at, now)
        last_list = listed_at or self.cluster.listed_at
        if last_list is None or not announced_changes.list_covered_clusters([self.cluster], now):
            return SYNC_INTERVAL, False
        interval = max(last_list + NET_INTERVAL - now, timedelta(0))
        if has_changes:
            interval = min(interval, announced_changes.compute_spacing(self.cursor.calls))
        return interval, True

    def _remove_target(self, call: ReadCall, now: datetime) -> None:
        with transaction.atomic():
            if self.cursor.phase == HEALTH:
                update_target_health(self.cluster, call.params["TargetGroupArn"], None, now)
            else:
                end_daemon(self.cluster, call.params["daemonArn"], now)
            self.cursor = self.cursor.after_describe()
            self._fill_phase(now)

    def _apply_list_page(self, response: Mapping[str, Any]) -> SyncCursor:
        stored_arns: set[str] = set()
        if self.cursor.extent == LISTS:
            stored_arns = self._record_listed(response)
        if self.cursor.phase == STOPPED:
            stored_arns = filter_stored_stopped(self.cluster, list_arns(response, "taskArns"))
        if self.cursor.phase == SERVICES and (arns := list_arns(response, "serviceArns")):
            # The connector may have a role of another account by now.
            self.cluster.account = parse_account_id(arns[0])
        return self.cursor.after_list_page(
            response, stored=stored_arns, ended=self._find_ended_tasks(response)
        )

    def _record_listed(self, response: Mapping[str, Any]) -> set[str]:
        """Record that listed services and tasks exist, and return those that need no read."""
        now = get_database_time()
        if self.cursor.phase == SERVICES:
            arns = list_arns(response, "serviceArns")
            services = EcsServiceRecord.objects.filter(cluster=self.cluster, arn__in=arns, gone_at=None)
            services.update(listed_at=now)
            return set(services.values_list("arn", flat=True))
        arns = list_arns(response, "taskArns")
        tasks = ServiceInstance.objects.filter(cluster=self.cluster, arn__in=arns, stopped_at=None)
        tasks.update(seen_at=now)
        return set(tasks.values_list("arn", flat=True))

    def _find_ended_tasks(self, response: Mapping[str, Any]) -> list[str]:
        """Return the stored tasks that no page of running tasks contained, in a follow-up."""
        is_last = not response.get("nextToken")
        if not (is_last and self.cursor.is_follow_up and self.cursor.phase == RUNNING):
            return []
        running = {*self.cursor.pending, *list_arns(response, "taskArns")}
        rows = ServiceInstance.objects.filter(
            cluster=self.cluster, stopped_at=None, seen_at__lt=self.started_at
        ).order_by("pk")
        return [arn for arn in rows.values_list("arn", flat=True) if arn not in running]

    def _apply_descriptions(self, call: ReadCall, response: Mapping[str, Any], now: datetime) -> SyncCursor:
        phase, cluster = self.cursor.phase, self.cluster
        cluster.denied_reads = denied_reads.remove_denied_read(cluster.denied_reads, call)
        if phase == RUNNING and self.cursor.extent != CHANGES:
            announced_changes.record_unannounced_tasks(cluster, response, now)
        if phase in _UPSERTS:
            _UPSERTS[phase](cluster, response, now)
        elif phase == SCALING:
            upsert_scalable_targets(cluster, call.params["ResourceIds"], response, now)
            cluster.scaling_read_at = now
        elif phase == DAEMONS:
            return self._apply_daemon_page(response, now)
        elif phase == HEALTH:
            update_target_health(cluster, call.params["TargetGroupArn"], response, now)
        elif phase == USAGE:
            update_usage(cluster, call.params, response, now)
            return self.cursor.after_describe_page(response)
        elif insert_scaling_activities(cluster, response, now):
            return self.cursor.after_describe_page(response)
        return self.cursor.after_describe()

    def _apply_daemon_page(self, response: Mapping[str, Any], now: datetime) -> SyncCursor:
        upsert_daemons(self.cluster, response, now)
        cursor = self.cursor.after_describe_page(response)
        if cursor.phase != DAEMONS:
            end_missing_daemons(self.cluster, self.started_at, now)
            self.cluster.daemons_read_at = now
        return cursor

    def _fill_phase(self, now: datetime) -> None:
        """Set the names that the next phase describes, and store the cursor."""
        while self.cursor.needs_targets:
            is_denied = denied_reads.is_phase_denied(self.cluster.denied_reads, self.cursor.phase, now)
            targets = _TARGETS_OF.get(self.cursor.extent, _PHASE_TARGETS)
            names = [] if is_denied else targets[self.cursor.phase](self.cluster, now)
            if not (names or is_denied):
                self.cluster.denied_reads = denied_reads.remove_phase(
                    self.cluster.denied_reads, self.cursor.phase
                )
            self.cursor = self.cursor.with_targets(names)
        columns = {
            "account": self.cluster.account,
            "denied_reads": self.cluster.denied_reads,
            "scaling_read_at": self.cluster.scaling_read_at,
            "daemons_read_at": self.cluster.daemons_read_at,
        }
        self.save_cursor(now, **columns)
