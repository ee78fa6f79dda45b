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
    """Return the keys of these container instances by ARN; new ones get a row that a later phase fills."""
    used = sorted({arn for arn in arns if arn})
    rows = ContainerInstance.objects.filter(cluster=cluster, arn__in=used)
    keys = dict(rows.values_list("arn", "pk"))
    if new := [arn for arn in used if arn not in keys]:
        ContainerInstance.objects.bulk_create(
            [ContainerInstance(cluster=cluster, arn=arn, seen_at=now) for arn in new], ignore_conflicts=True
        )
        keys = dict(rows.all().values_list("arn", "pk"))
    return keys


def list_used_container_instances(cluster: SyncedCluster, _: datetime) -> list[str]:
    """Return the ARNs of the container instances that run tasks."""
    tasks = ServiceInstance.objects.filter(container_instance=OuterRef("pk"), stopped_at=None)
    rows = ContainerInstance.objects.filter(Exists(tasks), cluster=cluster)
    return list(rows.order_by("pk").values_list("arn", flat=True))


def upsert_container_instances(cluster: SyncedCluster, response: object, now: datetime) -> None:
    """Insert or update the container instances in a response, and end missing ones."""
    by_arn = {
        arn: payload
        for payload in list_payloads(response, "containerInstances")
        if (arn := payload.text("containerInstanceArn"))
    }
    ContainerInstance.objects.bulk_create(
        [_build_container_instance_row(cluster, arn, payload, now) for arn, payload in by_arn.items()],
        update_conflicts=True,
        unique_fields=["cluster", "arn"],
        update_fields=_CONTAINER_INSTANCE_FIELDS,
    )
    missing = [
        payload.text("arn")
        for payload in list_payloads(response, "failures")
        if payload.text("reason") == "MISSING"
    ]
    ContainerInstance.objects.filter(cluster=cluster, arn__in=missing, gone_at=None).update(gone_at=now)


def _build_container_instance_row(
    cluster: SyncedCluster, arn: str, payload: AwsPayload, now: datetime
) -> ContainerInstance:
    attributes = {attribute.text("name"): attribute.text("value") for attribute in payload.rows("attributes")}
    registered, remaining = (
        _read_resources(payload, "registeredResources"),
        _read_resources(payload, "remainingResources"),
    )
    version = payload.raw.get("versionInfo")
    return build_row(
        ContainerInstance,
        cluster=cluster,
        arn=arn,
        ec2_instance=payload.text("ec2InstanceId"),
        instance_type=attributes.get(_TYPE, ""),
        zone=attributes.get(_ZONE, ""),
        status=payload.text("status"),
        agent_connected=payload.raw.get("agentConnected"),
        agent_version=AwsPayload(version).text("agentVersion") if isinstance(version, dict) else "",
        cpu=registered.get("CPU"),
        memory=registered.get("MEMORY"),
        cpu_left=remaining.get("CPU"),
        memory_left=remaining.get("MEMORY"),
        running=payload.number("runningTasksCount"),
        pending=payload.number("pendingTasksCount"),
        registered_at=payload.moment("registeredAt"),
        seen_at=now,
        gone_at=None,
    )


def _read_resources(payload: AwsPayload, name: str) -> dict[str, int | None]:
    return {resource.text("name"): resource.number("integerValue") for resource in payload.rows(name)}
