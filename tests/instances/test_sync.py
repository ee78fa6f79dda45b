"""Sync shows what runs: services and tasks as AWS has them, who started them and why they stopped."""

from datetime import timedelta

from aws.ecs import Ecs
from delegates.clock import database_now
from delegates.doors import call_here
from deployments.engine import quota
from deployments.models import Execution, Infrastructure
from instances.clusters import due, enter_new, follow_deployments
from instances.models import SeenEvent, SeenService, ServiceInstance, SyncedCluster
from instances.syncing import go_on
from tests.deployments.driving import Drive


def sync() -> SyncedCluster:
    """One whole sync of the only cluster."""
    # The story's clock is ahead: what it drew from AWS's quota is in the future of this one.
    quota.forget()
    enter_new(database_now())
    SyncedCluster.objects.update(due_at=database_now())
    (pk,) = due(database_now(), 10)
    go_on(pk)
    return SyncedCluster.objects.get(pk=pk)


def test_what_an_execution_deployed_is_shown_with_its_images_and_who_started_it(drive: Drive) -> None:
    execution = drive.run("1.27")
    cluster = sync()
    assert (cluster.failure, cluster.failures, cluster.reading) == ("", 0, None)
    infrastructure = Infrastructure.objects.get()
    seen = SeenService.objects.get()
    assert (seen.service, seen.infrastructure, seen.status) == (
        execution.stages.get().service,
        infrastructure,
        "ACTIVE",
    )
    instances = list(ServiceInstance.objects.all())
    assert len(instances) == seen.desired == seen.running > 0
    assert {(one.origin, one.execution) for one in instances} == {("EXECUTION", execution)}
    assert {one.last_status for one in instances} == {"RUNNING"}
    assert all(one.image.endswith(":1.27") and one.digest.startswith("sha256:") for one in instances)
    assert SeenEvent.objects.filter(seen=seen, message__contains="has reached a steady state").exists()


def test_a_task_that_stopped_is_kept_with_its_reason_and_its_successor_is_no_deployment(drive: Drive) -> None:
    execution = drive.run("1.27")
    sync()
    lost = ServiceInstance.objects.order_by("pk").first()
    assert lost is not None
    drive.pass_time(120, step=10)
    aws = Ecs(call_here(lost.cluster.connector, lost.cluster.region))
    aws.stop_task(lost.cluster.cluster, lost.arn, "tried out")
    drive.pass_time(120, step=10)
    sync()
    lost.refresh_from_db()
    assert (lost.last_status, lost.stop_code) == ("STOPPED", "UserInitiated")
    assert "tried out" in lost.stopped_reason
    assert lost.stopped_at is not None
    assert [one["exit_code"] for one in lost.containers] != [None]
    successor = ServiceInstance.objects.latest("created_at")
    assert (successor.origin, successor.execution) == ("REPLACED", execution)


def test_a_sync_asks_no_more_than_the_sizes_of_pages_need(drive: Drive) -> None:
    drive.run("1.27")
    assert sync().calls == 5, "services listed and described, tasks listed and described, stopped ones listed"


def test_the_end_of_a_deployment_has_the_cluster_looked_at_at_once(drive: Drive) -> None:
    drive.run("1.27")
    cluster = sync()
    # The story's clock is ahead of the one that a sync goes by: the deployment has just ended.
    ended = Execution.objects.latest("created_at").ended_at
    assert ended is not None
    SyncedCluster.objects.update(due_at=ended + timedelta(minutes=1))
    assert follow_deployments(ended) == 1, "it ended after that sync"
    SyncedCluster.objects.update(
        due_at=ended + timedelta(minutes=1), synced_at=ended + timedelta(seconds=9), seconds=1
    )
    assert follow_deployments(ended + timedelta(seconds=10)) == 0, "a sync has begun since"
    cluster.delete()
    assert follow_deployments(ended + timedelta(seconds=10)) == 1, "no infrastructure names it yet"
    assert due(ended + timedelta(seconds=10), 1)
