"""Upserts of container instances that tasks of launch type EC2 run on."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef

from inventory.models.instances import ContainerInstance, ServiceInstance, SyncedCluster
from inventory.sync.column_values import build_row
from inventory.sync.ecs_payloads import AwsPayload, list_payloads

_CONTAINER_INSTANCE_FIELDS: Final = (
    "ec2_instance", "instance_type", "zone", "status", "agent_connected", "agent_version", "cpu", "memory",
    "cpu_left", "memory_left", "running", "pending", "registered_at", "seen_at", "gone_at",
)  # fmt: skip
_ZONE, _TYPE = "ecs.availability-zone", "ecs.instance-type"


def create_container_instances(cluster: SyncedCluster, arns: Iterable[str], now: datetime) -> dict[str, int]:
    """The keys of these machines by ARN, with a row for each that is new; what they are is asked later."""
    wanted = sorted({arn for arn in arns if arn})
    rows = ContainerInstance.objects.filter(cluster=cluster, arn__in=wanted)
    known = dict(rows.values_list("arn", "pk"))
    if new := [arn for arn in wanted if arn not in known]:
        ContainerInstance.objects.bulk_create(
            [ContainerInstance(cluster=cluster, arn=arn, seen_at=now) for arn in new], ignore_conflicts=True
        )
        known = dict(rows.all().values_list("arn", "pk"))
    return known


def list_used_container_instances(cluster: SyncedCluster, _: datetime) -> list[str]:
    """The ARNs of the machines that a task runs on now."""
    tasks = ServiceInstance.objects.filter(container_instance=OuterRef("pk"), stopped_at=None)
    rows = ContainerInstance.objects.filter(Exists(tasks), cluster=cluster)
    return list(rows.order_by("pk").values_list("arn", flat=True))


def upsert_container_instances(cluster: SyncedCluster, answer: object, now: datetime) -> None:
    """Insert or change the rows of the machines in an answer; those that AWS does not know are gone."""
    found = {
        arn: one
        for one in list_payloads(answer, "containerInstances")
        if (arn := one.text("containerInstanceArn"))
    }
    ContainerInstance.objects.bulk_create(
        [_build_container_instance_row(cluster, arn, one, now) for arn, one in found.items()],
        update_conflicts=True,
        unique_fields=["cluster", "arn"],
        update_fields=_CONTAINER_INSTANCE_FIELDS,
    )
    missing = [
        one.text("arn") for one in list_payloads(answer, "failures") if one.text("reason") == "MISSING"
    ]
    ContainerInstance.objects.filter(cluster=cluster, arn__in=missing, gone_at=None).update(gone_at=now)


def _build_container_instance_row(
    cluster: SyncedCluster, arn: str, machine: AwsPayload, now: datetime
) -> ContainerInstance:
    attributes = {one.text("name"): one.text("value") for one in machine.rows("attributes")}
    has, left = (
        _read_resources(machine, "registeredResources"),
        _read_resources(machine, "remainingResources"),
    )
    version = machine.raw.get("versionInfo")
    return build_row(
        ContainerInstance,
        cluster=cluster,
        arn=arn,
        ec2_instance=machine.text("ec2InstanceId"),
        instance_type=attributes.get(_TYPE, ""),
        zone=attributes.get(_ZONE, ""),
        status=machine.text("status"),
        agent_connected=machine.raw.get("agentConnected"),
        agent_version=AwsPayload(version).text("agentVersion") if isinstance(version, dict) else "",
        cpu=has.get("CPU"),
        memory=has.get("MEMORY"),
        cpu_left=left.get("CPU"),
        memory_left=left.get("MEMORY"),
        running=machine.number("runningTasksCount"),
        pending=machine.number("pendingTasksCount"),
        registered_at=machine.moment("registeredAt"),
        seen_at=now,
        gone_at=None,
    )


def _read_resources(machine: AwsPayload, name: str) -> dict[str, int | None]:
    return {one.text("name"): one.number("integerValue") for one in machine.rows(name)}
