"""What is kept, and for how long."""

from datetime import timedelta

from connectors.models import Connector
from delegates.models import DelegateTask
from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.retention import INSTANCE_RETENTION
from rbac.models import Scope
from web.clock import get_database_time
from web.retention import prune_rows


def test_what_stopped_long_ago_goes_and_what_runs_stays(project: Scope) -> None:
    now = get_database_time()
    connector = Connector.objects.create(scope=project, identifier="aws", name="AWS", spec={})
    cluster = SyncedCluster.objects.create(
        connector=connector,
        region="us-east-1",
        cluster="old",
        last_used_at=now - timedelta(days=99),
        due_at=now,
    )
    record = EcsServiceRecord.objects.create(
        cluster=cluster, name="s", arn="arn", status="ACTIVE", first_seen_at=now, seen_at=now
    )
    for days, stopped_days in ((99, 98), (40, 31), (40, 29), (99, None)):
        ServiceInstance.objects.create(
            cluster=cluster,
            ecs_service=record,
            arn=f"{days} {stopped_days}",
            task_id="t",
            task_definition="t",
            last_status="RUNNING" if stopped_days is None else "STOPPED",
            desired_status="RUNNING",
            created_at=now - timedelta(days=days),
            stopped_at=None if stopped_days is None else now - timedelta(days=stopped_days),
            fingerprint="a",
            seen_at=now,
        )
    for days in (89, 91):
        EcsServiceEvent.objects.create(
            ecs_service=record, event=str(days), at=now - timedelta(days=days), message="a"
        )
    for minutes, owner in ((16, "sync"), (14, "sync"), (16, "preview")):
        DelegateTask.objects.create(
            scope=project,
            kind=DelegateTask.Kind.AWS,
            title=f"{owner} {minutes}",
            owner=owner,
            status=DelegateTask.Status.SUCCEEDED,
            queued_at=now,
            deadline=now,
            finished_at=now - timedelta(minutes=minutes),
        )
    assert prune_rows(INSTANCE_RETENTION, now) == 4
    assert set(ServiceInstance.objects.values_list("arn", flat=True)) == {"40 29", "99 None"}
    assert list(EcsServiceEvent.objects.values_list("event", flat=True)) == ["89"]
    assert set(DelegateTask.objects.values_list("title", flat=True)) == {"sync 14", "preview 16"}
    cluster.refresh_from_db()
    assert cluster.due_at is not None, "a task still runs there"


def test_a_cluster_that_nobody_names_is_let_go_two_weeks_after_its_last_task(project: Scope) -> None:
    now = get_database_time()
    connector = Connector.objects.create(scope=project, identifier="aws", name="AWS", spec={})
    for days in (13, 15):
        SyncedCluster.objects.create(
            connector=connector,
            region="us-east-1",
            cluster=str(days),
            last_used_at=now - timedelta(days=days),
            due_at=now,
        )
    prune_rows(INSTANCE_RETENTION, now)
    assert list(SyncedCluster.objects.exclude(due_at=None).values_list("cluster", flat=True)) == ["13"]
