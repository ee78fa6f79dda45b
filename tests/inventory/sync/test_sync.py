"""Sync shows what runs: services and tasks as AWS has them, who started them and why they stopped."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws.apis.ecs import EcsClient
from aws.caller import Caller
from aws.errors import Denied
from catalog.models import Infrastructure
from delegates.access.aws_access import get_local_caller
from deployments.journal import rate_limits
from deployments.models import Execution
from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync.clusters import create_clusters, list_due_clusters, schedule_follow_ups
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan, end_missing_rows
from tests.fixtures.engine_driver import Drive
from web.clock import get_database_time


def sync() -> SyncedCluster:
    """Run one whole sync of the only cluster."""
    # The story's clock is ahead: what it drew from AWS's quota is in the future of this one.
    rate_limits.reset_buckets()
    create_clusters(get_database_time())
    SyncedCluster.objects.update(due_at=get_database_time())
    (pk,) = list_due_clusters(get_database_time(), 10)
    run_scan(SyncScan, pk)
    return SyncedCluster.objects.get(pk=pk)


def test_what_an_execution_deployed_is_shown_with_its_images_and_who_started_it(drive: Drive) -> None:
    execution = drive.run("1.27")
    cluster = sync()
    assert (cluster.failure, cluster.failures, cluster.cursor) == ("", 0, None)
    infrastructure = Infrastructure.objects.get()
    record = EcsServiceRecord.objects.get()
    assert (record.service, record.infrastructure, record.status) == (
        execution.stages.get().service,
        infrastructure,
        "ACTIVE",
    )
    instances = list(ServiceInstance.objects.all())
    assert len(instances) == record.desired == record.running > 0
    assert {(instance.origin, instance.execution) for instance in instances} == {("EXECUTION", execution)}
    assert {instance.last_status for instance in instances} == {"RUNNING"}
    assert all(
        instance.image.endswith(":1.27") and instance.digest.startswith("sha256:") for instance in instances
    )
    assert EcsServiceEvent.objects.filter(
        ecs_service=record, message__contains="has reached a steady state"
    ).exists()


def test_tasks_that_come_back_with_their_cluster_run_again(drive: Drive) -> None:
    execution = drive.run("1.27")
    cluster = sync()
    count = ServiceInstance.objects.filter(stopped_at=None).count()
    later = get_database_time() + timedelta(seconds=1)
    end_missing_rows(cluster, later, later)
    assert not ServiceInstance.objects.filter(stopped_at=None).exists()
    sync()
    instances = ServiceInstance.objects.filter(stopped_at=None, last_status="RUNNING", stopped_reason="")
    assert instances.count() == count > 0
    assert {instance.execution for instance in instances} == {execution}


def test_a_task_that_stopped_is_kept_with_its_reason_and_its_successor_is_no_deployment(drive: Drive) -> None:
    execution = drive.run("1.27")
    sync()
    stopped_instance = ServiceInstance.objects.order_by("pk").first()
    assert stopped_instance is not None
    drive.pass_time(120, step=10)
    aws = EcsClient(get_local_caller(stopped_instance.cluster.connector, stopped_instance.cluster.region))
    aws.stop_task(stopped_instance.cluster.cluster, stopped_instance.arn, "tried out")
    drive.pass_time(120, step=10)
    sync()
    stopped_instance.refresh_from_db()
    assert (stopped_instance.last_status, stopped_instance.stop_code) == ("STOPPED", "UserInitiated")
    assert "tried out" in stopped_instance.stopped_reason
    assert stopped_instance.stopped_at is not None
    assert [container["exit_code"] for container in stopped_instance.containers] != [None]
    successor = ServiceInstance.objects.latest("created_at")
    assert (successor.origin, successor.execution) == ("REPLACED", execution)


def test_what_a_rollback_brought_back_was_started_by_its_execution(drive: Drive) -> None:
    drive.run("1.27")
    failed_execution = drive.run("crash")
    assert failed_execution.outcome == "ROLLED_BACK", drive.log(failed_execution)
    drive.pass_time(60, step=10)
    sync()
    running_instances = ServiceInstance.objects.filter(stopped_at=None)
    assert {(instance.origin, instance.execution) for instance in running_instances} == {
        ("EXECUTION", failed_execution)
    }
    assert all(instance.image.endswith(":1.27") for instance in running_instances)


def test_a_sync_asks_no_more_than_the_sizes_of_pages_need(drive: Drive) -> None:
    drive.run("1.27")
    assert sync().calls == 6, (
        "services: list, describe, what scales; tasks: list, describe; stopped ones: list"
    )
    assert sync().calls == 5, "what scales is known for some minutes"


def test_tasks_that_auto_scaling_started_are_told_from_those_that_replace_others(drive: Drive) -> None:
    execution = drive.run("1.27")
    sync()
    drive.pass_time(180, step=10)
    scaling_target = {"ServiceNamespace": "ecs", "ResourceId": "service/demo/myapp"}
    scaling_target["ScalableDimension"] = "ecs:service:DesiredCount"
    scaling = "application-autoscaling"
    drive.call(scaling, "RegisterScalableTarget", {**scaling_target, "MinCapacity": 4, "MaxCapacity": 9})
    drive.pass_time(120, step=10)
    cluster = sync()
    record = EcsServiceRecord.objects.get()
    assert record.scaling == {"min": 4, "max": 9, "suspended": []}
    scaled_instances = ServiceInstance.objects.filter(origin="AUTO_SCALED")
    before = ServiceInstance.objects.filter(origin="EXECUTION").count()
    assert (scaled_instances.count(), before + scaled_instances.count()) == (4 - before, 4)
    assert {instance.execution for instance in scaled_instances} == {execution}, (
        "what they run is what it deployed"
    )
    event = EcsServiceEvent.objects.get(kind=EcsServiceEvent.Kind.SCALING)
    assert (event.count, event.message) == (4, "Setting desired count to 4. minimum capacity was set to 4")
    aws = EcsClient(get_local_caller(cluster.connector, cluster.region))
    aws.stop_task("demo", ServiceInstance.objects.earliest("created_at").arn, "tried out")
    drive.pass_time(120, step=10)
    sync()
    assert ServiceInstance.objects.latest("created_at").origin == "REPLACED"
    assert scaled_instances.count() == 4 - before


def test_a_task_on_a_machine_of_ones_own_tells_which_and_what_is_left_there(drive: Drive) -> None:
    container = {"name": "app", "image": "nginx:1.27", "memory": 128, "cpu": 64, "essential": True}
    family = {"family": "own", "requiresCompatibilities": ["EC2"], "containerDefinitions": [container]}
    drive.call("ecs", "RegisterTaskDefinition", {**family, "networkMode": "bridge"})
    service_fields = {"cluster": "demo", "serviceName": "own", "taskDefinition": "own", "launchType": "EC2"}
    drive.call("ecs", "CreateService", {**service_fields, "desiredCount": 3})
    drive.pass_time(60, step=10)
    sync()
    tasks = ServiceInstance.objects.select_related("container_instance").filter(launch_type="EC2")
    machines = {task.container_instance for task in tasks}
    assert tasks.count() == 3
    for machine in machines:
        assert machine is not None
        assert (machine.ec2_instance[:2], machine.agent_connected, machine.status) == ("i-", True, "ACTIVE")
        assert machine.zone.startswith("us-east-1")
        assert None not in (machine.cpu, machine.cpu_left, machine.memory, machine.memory_left)
        assert (machine.cpu or 0) - (machine.cpu_left or 0) == 64 * machine.running > 0
    params = {"cluster": "demo", "containerInstance": next(iter(machines)).arn, "force": True}  # type: ignore[union-attr]
    drive.call("ecs", "DeregisterContainerInstance", params)
    drive.pass_time(60, step=10)
    sync()
    assert ServiceInstance.objects.filter(stop_code="TerminationNotice").exists()


def test_what_a_policy_keeps_back_leaves_the_rest_of_the_picture_whole(drive: Drive) -> None:
    drive.run("1.27")
    denied_operation = "DescribeScalableTargets"
    rate_limits.reset_buckets()
    create_clusters(get_database_time())
    (pk,) = list_due_clusters(get_database_time(), 10)
    operations = []

    class Denying:
        def __init__(self, inner_caller: Caller) -> None:
            self.caller = inner_caller

        def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
            operations.append(operation)
            if operation == denied_operation:
                message = f"User: arn:aws:iam::1:user/a is not authorized to perform: {service}:{operation}"
                raise Denied("AccessDeniedException", message, service, operation)
            return self.caller.call(service, operation, params)

    for _ in range(2):
        SyncedCluster.objects.update(due_at=get_database_time(), scaling_read_at=None)
        run_scan(SyncScan, pk, lambda connector, region: Denying(get_local_caller(connector, region)))
    cluster = SyncedCluster.objects.get()
    assert (cluster.failure, ServiceInstance.objects.count() > 0) == ("", True)
    assert [denied_read["action"] for denied_read in cluster.denied_reads] == [
        f"application-autoscaling:{denied_operation}"
    ]
    assert operations.count(denied_operation) == 1, "it is asked again in an hour"
    SyncedCluster.objects.update(
        denied_reads=[{**cluster.denied_reads[0], "until": "2020-01-01T00:00:00+00:00"}]
    )
    assert sync().denied_reads == [], "allowed since"


def test_the_end_of_a_deployment_has_the_cluster_looked_at_at_once(drive: Drive) -> None:
    drive.run("1.27")
    cluster = sync()
    # The story's clock is ahead of the one that a sync goes by: the deployment has just ended.
    ended_at = Execution.objects.latest("created_at").ended_at
    assert ended_at is not None
    SyncedCluster.objects.update(due_at=ended_at + timedelta(minutes=1))
    assert schedule_follow_ups(ended_at) == 1, "it ended after that sync"
    SyncedCluster.objects.update(
        due_at=ended_at + timedelta(minutes=1), synced_at=ended_at + timedelta(seconds=9), seconds=1
    )
    assert schedule_follow_ups(ended_at + timedelta(seconds=10)) == 0, "a sync has begun since"
    cluster.delete()
    assert schedule_follow_ups(ended_at + timedelta(seconds=10)) == 1, "no infrastructure names it yet"
    assert list_due_clusters(ended_at + timedelta(seconds=10), 1)
