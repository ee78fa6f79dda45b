"""Upserts of the daemons of managed instances, with the revision that runs and the last deployment.

ListDaemons is the only call that a cluster without daemons costs. A sync describes few of them, the oldest
read first; deployments and revisions that cannot change are not read again.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F, Q, QuerySet

from aws.apis.ecs import DAEMON_ARNS_PER_CALL
from guards.limits import SYNC_DAEMONS
from inventory.models.daemons import FINAL_DEPLOYMENT_STATUSES, EcsDaemon
from inventory.models.instances import ServiceInstance, SyncedCluster
from inventory.sync.column_values import build_row
from inventory.sync.ecs_payloads import AwsPayload, list_payloads

DAEMONS_READ_INTERVAL: Final = timedelta(minutes=5)
MANAGED_INSTANCES: Final = "MANAGED_INSTANCES"
_LISTED_FIELDS: Final = ("name", "status", "created_at", "updated_at", "seen_at", "gone_at")
_MAX_ENTRIES: Final = 100
# AWS rejects calls for anything else.
_MEMBER_ARN_PATTERN: Final = re.compile(
    r"(arn:[a-z-]+:ecs:[a-z0-9-]+:\d{12}):(?:task|daemon)/([\w-]{1,255})/.+"
)
_DAEMON_ARN_PATTERN: Final = re.compile(r"arn:[a-z-]+:ecs:[a-z0-9-]+:\d{12}:daemon[a-z-]*/[\w/-]{1,400}")


def list_due_daemon_clusters(cluster: SyncedCluster, now: datetime) -> list[str]:
    """Return the ARN of the cluster if its daemons are to be listed, otherwise nothing.

    Daemons start no instances, so a cluster without a task on managed instances runs none.
    """
    daemons = _filter_current(cluster)
    is_deploying = daemons.exclude(deployment_status__in=["", *FINAL_DEPLOYMENT_STATUSES]).exists()
    read_at = cluster.daemons_read_at
    is_recent = read_at is not None and (
        cluster.follow_up_due_at is not None or read_at > now - DAEMONS_READ_INTERVAL
    )
    if is_recent and not is_deploying:
        return []
    tasks = ServiceInstance.objects.filter(cluster=cluster, stopped_at=None, launch_type=MANAGED_INSTANCES)
    match = _MEMBER_ARN_PATTERN.fullmatch(_get_any_arn(daemons) or _get_any_arn(tasks))
    return [f"{match[1]}:cluster/{match[2]}"] if match else []


def _get_any_arn(rows: QuerySet[EcsDaemon] | QuerySet[ServiceInstance]) -> str:
    # Without an order, the database need not walk all tasks of all clusters by their keys.
    return next(iter(rows.order_by().values_list("arn", flat=True)[:1]), "")


def list_due_daemons(cluster: SyncedCluster, _: datetime) -> list[str]:
    """Return the ARNs of some daemons that were not described since the last list."""
    if cluster.daemons_read_at is None:
        return []
    unread = Q(described_at=None) | Q(described_at__lt=cluster.daemons_read_at)
    rows = _filter_current(cluster).filter(unread)
    rows = rows.order_by(F("described_at").asc(nulls_first=True), "pk")
    return _select_arns(rows[: int(SYNC_DAEMONS)].values_list("arn", flat=True))


def list_due_deployments(cluster: SyncedCluster, _: datetime) -> list[str]:
    """Return the ARNs of last deployments that have changed, or may have, since they were read."""
    unread = Q(deployment_read_at=None) | Q(deployment_read_at__lt=F("described_at"))
    rows = _filter_current(cluster).filter(unread).exclude(deployment_status__in=FINAL_DEPLOYMENT_STATUSES)
    return _select_arns(rows.order_by("pk").values_list("deployment", flat=True)[:DAEMON_ARNS_PER_CALL])


def list_due_revisions(cluster: SyncedCluster, _: datetime) -> list[str]:
    """Return the ARNs of running revisions that were never read."""
    rows = _filter_current(cluster).filter(task_definition="").exclude(revision="").order_by("pk")
    return _select_arns(rows.values_list("revision", flat=True)[:DAEMON_ARNS_PER_CALL])


def _filter_current(cluster: SyncedCluster) -> QuerySet[EcsDaemon]:
    return EcsDaemon.objects.filter(cluster=cluster, gone_at=None)


def _select_arns(values: QuerySet[EcsDaemon, Any]) -> list[str]:
    return [arn for arn in dict.fromkeys(values) if _DAEMON_ARN_PATTERN.fullmatch(arn)]


def upsert_daemons(cluster: SyncedCluster, response: object, now: datetime) -> None:
    """Insert or update the daemons in a page of ListDaemons."""
    by_arn = {
        arn: payload
        for payload in list_payloads(response, "daemonSummariesList")
        if (arn := payload.text("daemonArn"))
    }
    rows = [
        build_row(
            EcsDaemon,
            cluster_id=cluster.pk,
            name=arn.rpartition("/")[2],
            arn=arn,
            status=payload.text("status"),
            created_at=payload.moment("createdAt"),
            updated_at=payload.moment("updatedAt"),
            first_seen_at=now,
            seen_at=now,
            gone_at=None,
        )
        for arn, payload in by_arn.items()
    ]
    EcsDaemon.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["cluster", "arn"], update_fields=_LISTED_FIELDS
    )


def end_missing_daemons(cluster: SyncedCluster, listed_since: datetime, now: datetime) -> None:
    """End the daemons that no page since this moment contained."""
    _filter_current(cluster).filter(seen_at__lt=listed_since).update(gone_at=now)


def end_daemon(cluster: SyncedCluster, arn: str, now: datetime) -> None:
    """End a daemon that AWS does not find."""
    _filter_current(cluster).filter(arn=arn).update(gone_at=now)


def update_daemon(cluster: SyncedCluster, response: Mapping[str, Any], now: datetime) -> None:
    """Store the counts, revision and deployment of a daemon that DescribeDaemon returned."""
    raw = response.get("daemon")
    daemon = AwsPayload(raw if isinstance(raw, Mapping) else {})
    row = _filter_current(cluster).filter(arn=daemon.text("daemonArn")).first()
    if row is None:
        return
    revisions = daemon.rows("currentRevisions")
    columns: dict[str, Any] = {
        "status": daemon.text("status") or row.status,
        "running": sum(revision.number("totalRunningCount") or 0 for revision in revisions),
        "without_daemon": sum(revision.number("totalWithoutDaemonCount") or 0 for revision in revisions),
        "capacity_providers": _build_capacity_providers(revisions),
        "described_at": now,
    }
    # The reads of another revision and deployment follow.
    revision, deployment = _find_newest_revision(revisions), daemon.text("deploymentArn")
    if revision != row.revision:
        columns |= {"revision": revision, "task_definition": "", "containers": [], "is_critical": None}
    if deployment != row.deployment:
        columns |= {"deployment": deployment, "deployment_status": "", "deployment_reason": ""}
        columns |= {"deployment_read_at": None}
    _save(row, columns)


def _find_newest_revision(revisions: list[AwsPayload]) -> str:
    """Return the ARN of the last described revision; during a deployment there are several."""
    return revisions[-1].text("arn") if revisions else ""


def _build_capacity_providers(revisions: list[AwsPayload]) -> list[dict[str, Any]]:
    """Return the counts by capacity provider, of all revisions together."""
    counts: dict[str, dict[str, Any]] = {}
    for provider in (entry for revision in revisions for entry in revision.rows("capacityProviders")):
        name = provider.text("arn").rpartition("/")[2]
        entry = counts.setdefault(name, {"name": name, "running": 0, "without_daemon": 0})
        entry["running"] += provider.number("runningCount") or 0
        entry["without_daemon"] += provider.number("withoutDaemonCount") or 0
    return list(counts.values())[:_MAX_ENTRIES]


def update_daemon_deployments(cluster: SyncedCluster, response: object, now: datetime) -> None:
    """Store the statuses of the deployments that DescribeDaemonDeployments returned."""
    by_arn = {
        payload.text("daemonDeploymentArn"): payload
        for payload in list_payloads(response, "daemonDeployments")
    }
    for row in _filter_current(cluster).filter(deployment__in=list(by_arn)):
        deployment = by_arn[row.deployment]
        _save(
            row,
            {
                "deployment_status": deployment.text("status"),
                "deployment_reason": deployment.text("statusReason", 4000),
                "deployment_read_at": now,
            },
        )


def update_daemon_revisions(cluster: SyncedCluster, response: object, _: datetime) -> None:
    """Store the task definitions and images of the revisions that DescribeDaemonRevisions returned."""
    by_arn = {
        payload.text("daemonRevisionArn"): payload for payload in list_payloads(response, "daemonRevisions")
    }
    for row in _filter_current(cluster).filter(revision__in=list(by_arn)):
        revision = by_arn[row.revision]
        containers = [
            {
                "name": container.text("containerName", 255),
                "image": container.text("image"),
                "digest": container.text("imageDigest", 128),
            }
            for container in revision.rows("containerImages")[:_MAX_ENTRIES]
        ]
        _save(
            row,
            {
                "task_definition": revision.text("daemonTaskDefinitionArn"),
                "containers": containers,
                "is_critical": revision.raw.get("critical"),
            },
        )


def _save(row: EcsDaemon, columns: Mapping[str, Any]) -> None:
    """Store values of columns, each converted for its column."""
    converted = build_row(EcsDaemon, **columns)
    for name in columns:
        setattr(row, name, getattr(converted, name))
    row.save(update_fields=list(columns))
