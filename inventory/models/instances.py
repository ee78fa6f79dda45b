"""Synced clusters with their ECS services, ECS tasks, container instances and events."""

from datetime import datetime
from typing import ClassVar

from django.db import models

from catalog.models import Infrastructure, Service
from connectors.models import Connector
from delegates.models import DelegateTask
from deployments.models import Execution
from steps.actions.ecs_service.express_services import is_express


class SyncedCluster(models.Model):
    """A cluster as seen through one connector, and the state of its sync.

    `cursor` is the position of a sync in progress. Only sync writes the columns from `due_at` on; pages
    may bring `due_at` forward.
    """

    connector = models.ForeignKey(Connector, on_delete=models.CASCADE, related_name="+")
    region = models.CharField(max_length=64)
    cluster = models.CharField(max_length=255)
    # The account of the rate limit; known after the first ARN.
    account = models.CharField(max_length=32, blank=True, default="")
    last_used_at = models.DateTimeField()

    due_at = models.DateTimeField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    fence = models.PositiveBigIntegerField(default=0)
    task = models.ForeignKey(DelegateTask, null=True, on_delete=models.SET_NULL, related_name="+")
    cursor = models.JSONField(null=True)
    synced_at = models.DateTimeField(null=True)
    seconds = models.FloatField(null=True)
    calls = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)
    failure = models.TextField(blank=True, default="")
    # The error code, and the next step for the reader.
    failure_code = models.CharField(max_length=128, blank=True, default="")
    failure_step = models.TextField(blank=True, default="")
    # The last time a person requested a sync.
    sync_requested_at = models.DateTimeField(null=True)
    # The start of the last sync that listed all services; since when a follow-up of a deployment is due.
    listed_at = models.DateTimeField(null=True)
    follow_up_due_at = models.DateTimeField(null=True)
    # The last read of scalable targets, and the reads that IAM denies.
    scaling_read_at = models.DateTimeField(null=True)
    # The last list of daemons; null without managed instances.
    daemons_read_at = models.DateTimeField(null=True)
    denied_reads = models.JSONField(default=list)
    # The start of the last sync that read all services; others list them and read what is new.
    described_at = models.DateTimeField(null=True)
    # Whether the next sync may be late, because events announce changes.
    is_event_driven = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["connector", "region", "cluster"], name="cluster_synced_once")
        ]
        indexes = [
            models.Index(fields=["due_at"], name="cluster_due", condition=models.Q(due_at__isnull=False))
        ]

    def __str__(self) -> str:
        return f"{self.cluster} in {self.region}"


class SyncPause(models.Model):
    """A backoff that clusters with the same account or connector and region share.

    After `paused_until`, one of them retries for all of them until `trial_expires_at`.
    """

    key = models.CharField(max_length=255, unique=True)
    failures = models.PositiveIntegerField(default=0)
    paused_until = models.DateTimeField()
    trial_expires_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField()
    failure = models.TextField()
    failure_code = models.CharField(max_length=128, blank=True, default="")
    failure_step = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return self.key


class ContainerInstance(models.Model):
    """An EC2 instance that runs ECS tasks."""

    cluster = models.ForeignKey(SyncedCluster, on_delete=models.CASCADE, related_name="container_instances")
    arn = models.CharField(max_length=512)
    ec2_instance = models.CharField(max_length=64, blank=True, default="")
    instance_type = models.CharField(max_length=64, blank=True, default="")
    zone = models.CharField(max_length=64, blank=True, default="")
    status = models.CharField(max_length=32, blank=True, default="")
    agent_connected = models.BooleanField(null=True)
    agent_version = models.CharField(max_length=64, blank=True, default="")
    # CPU units and MiB: registered and remaining.
    cpu = models.PositiveIntegerField(null=True)
    memory = models.PositiveIntegerField(null=True)
    cpu_left = models.PositiveIntegerField(null=True)
    memory_left = models.PositiveIntegerField(null=True)
    running = models.PositiveIntegerField(default=0)
    pending = models.PositiveIntegerField(default=0)
    registered_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "arn"], name="container_instance_once")]

    def __str__(self) -> str:
        return self.ec2_instance or self.arn


class EcsServiceRecord(models.Model):
    """An ECS service of a cluster, with the service and infrastructure that deploy it, if any."""

    SCOPE_PATH: ClassVar[str] = "infrastructure__environment__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"environment": "infrastructure__environment__identifier"}

    cluster = models.ForeignKey(SyncedCluster, on_delete=models.CASCADE, related_name="services")
    name = models.CharField(max_length=255)
    arn = models.CharField(max_length=512)
    service = models.ForeignKey(
        Service, null=True, on_delete=models.SET_NULL, related_name="ecs_service_records"
    )
    infrastructure = models.ForeignKey(
        Infrastructure, null=True, on_delete=models.SET_NULL, related_name="ecs_service_records"
    )
    status = models.CharField(max_length=32)
    desired = models.PositiveIntegerField(default=0)
    running = models.PositiveIntegerField(default=0)
    pending = models.PositiveIntegerField(default=0)
    task_definition = models.CharField(max_length=512, blank=True, default="")
    # The response of DescribeServices, without events.
    description = models.JSONField(default=dict)
    # {"min", "max", "suspended": [names]} of its scalable target, {} without one; None: not known.
    scaling = models.JSONField(null=True)
    scaling_seen_at = models.DateTimeField(null=True)
    # The last view of its dashboard, and its target groups since then: "arn", "name", "is_missing",
    # "counts" by state, "total", "unhealthy" with their reasons, "unhealthy_total", "others" that are
    # initial, draining or unused, "read_at".
    viewed_at = models.DateTimeField(null=True)
    targets = models.JSONField(default=list)
    targets_read_at = models.DateTimeField(null=True)
    # By "cpu" and "memory": percentages by the start of each five-minute period, for three hours.
    usage = models.JSONField(default=dict)
    usage_read_at = models.DateTimeField(null=True)
    # When a sync of this cluster, or of another of the same account, last requested the usage.
    usage_requested_at = models.DateTimeField(null=True)
    first_seen_at = models.DateTimeField()
    # The last read, and the last list that had the service without a read.
    seen_at = models.DateTimeField()
    listed_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="ecs_service_name_once")]

    def __str__(self) -> str:
        return self.name

    @property
    def confirmed_at(self) -> datetime:
        """Return when sync last read the service, or listed it without an announced change."""
        return max(self.seen_at, self.listed_at or self.seen_at)

    @property
    def is_express(self) -> bool:
        """Return whether ECS itself manages the service with its load balancer and auto scaling."""
        return is_express(self.description)


class ServiceInstance(models.Model):
    """An ECS task; a stopped one stays until its retention ends (R269, R270)."""

    class Origin(models.TextChoices):
        EXECUTION = "EXECUTION", "Slipway execution"
        REPLACED = "REPLACED", "ECS, replacing a task"
        AUTO_SCALED = "AUTO_SCALED", "Auto scaling"
        OUTSIDE = "OUTSIDE", "Outside Slipway"

    SCOPE_PATH: ClassVar[str] = "ecs_service__infrastructure__environment__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {
        "environment": "ecs_service__infrastructure__environment__identifier"
    }

    cluster = models.ForeignKey(SyncedCluster, on_delete=models.CASCADE, related_name="instances")
    ecs_service = models.ForeignKey(
        EcsServiceRecord, null=True, on_delete=models.CASCADE, related_name="instances"
    )
    arn = models.CharField(max_length=512)
    task_id = models.CharField(max_length=64)
    task_definition = models.CharField(max_length=512)
    image = models.CharField(max_length=512, blank=True, default="")
    digest = models.CharField(max_length=128, blank=True, default="")
    # Name, image, digest, status, health, exit code and reason of each container.
    containers = models.JSONField(default=list)
    last_status = models.CharField(max_length=32)
    desired_status = models.CharField(max_length=32)
    health = models.CharField(max_length=16, blank=True, default="")
    zone = models.CharField(max_length=64, blank=True, default="")
    launch_type = models.CharField(max_length=32, blank=True, default="")
    capacity_provider = models.CharField(max_length=255, blank=True, default="")
    address = models.GenericIPAddressField(null=True)
    # The ARN of the container instance.
    host = models.CharField(max_length=512, blank=True, default="")
    container_instance = models.ForeignKey(
        ContainerInstance, null=True, on_delete=models.SET_NULL, related_name="instances"
    )
    started_by = models.CharField(max_length=128, blank=True, default="")
    origin = models.CharField(max_length=16, choices=Origin, default=Origin.OUTSIDE)
    execution = models.ForeignKey(Execution, null=True, on_delete=models.SET_NULL, related_name="instances")
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    stopped_at = models.DateTimeField(null=True)
    stop_code = models.CharField(max_length=64, blank=True, default="")
    stopped_reason = models.TextField(blank=True, default="")
    # Version of ECS: it grows with each change that sends an event.
    version = models.PositiveBigIntegerField(default=0, db_default=0)
    # A hash of the described task; it changes with any field.
    fingerprint = models.CharField(max_length=32)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "arn"], name="instance_once")]
        indexes = [
            models.Index(fields=["ecs_service", "stopped_at", "-created_at"], name="instance_of_service"),
            # Lists count the running tasks of many services, and look for an unhealthy one.
            models.Index(
                fields=[
                    "ecs_service",
                    "stopped_at",
                    "image",
                    "digest",
                    "task_definition",
                    "health",
                    "last_status",
                ],
                name="instance_versions",
                condition=models.Q(stopped_at__isnull=True),
            ),
            models.Index(
                fields=["ecs_service", "stopped_at", "health", "last_status"],
                name="instance_health",
                condition=models.Q(stopped_at__isnull=True),
            ),
            # Lists show either running or stopped tasks.
            models.Index(
                fields=["-created_at", "-id"],
                name="instance_newest_live",
                condition=models.Q(stopped_at__isnull=True),
            ),
            models.Index(
                fields=["-created_at", "-id"],
                name="instance_newest_stopped",
                condition=models.Q(stopped_at__isnull=False),
            ),
            models.Index(
                fields=["cluster"], name="instance_live", condition=models.Q(stopped_at__isnull=True)
            ),
            models.Index(fields=["stopped_at"], name="instance_stopped"),
        ]

    def __str__(self) -> str:
        return self.task_id

    @property
    def shown_status(self) -> str:
        """Return the status on pages: a running task is steady, one that is to stop is stopping."""
        if self.last_status == "RUNNING":
            return "STOPPING" if self.desired_status == "STOPPED" else "STEADY"
        return self.last_status


class EcsServiceEvent(models.Model):
    """A message of ECS or auto scaling about a service, or a desired count change that sync noticed.

    AWS keeps the last hundred; Slipway keeps them for the retention period.
    """

    class Kind(models.TextChoices):
        ECS = "ECS", "ECS"
        SCALING = "SCALING", "Auto scaling"
        COUNT = "COUNT", "Desired count"

    SCOPE_PATH: ClassVar[str] = "ecs_service__infrastructure__environment__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {
        "environment": "ecs_service__infrastructure__environment__identifier"
    }

    ecs_service = models.ForeignKey(EcsServiceRecord, on_delete=models.CASCADE, related_name="events")
    kind = models.CharField(max_length=16, choices=Kind, default=Kind.ECS)
    event = models.CharField(max_length=64)
    # The desired count after the event, and before it for a count change.
    count = models.PositiveIntegerField(null=True)
    before = models.PositiveIntegerField(null=True)
    at = models.DateTimeField()
    message = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["ecs_service", "event"], name="ecs_event_once")]
        indexes = [
            models.Index(fields=["-at", "-id"], name="ecs_event_newest"),
            models.Index(fields=["ecs_service", "-at", "-id"], name="ecs_event_of_service"),
        ]

    def __str__(self) -> str:
        return self.event
