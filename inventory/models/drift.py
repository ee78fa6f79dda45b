"""Drift scans of clusters, comparisons of ECS services, and the fields that differ."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from delegates.models import DelegateTask
from deployments.models import Execution
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope


class ClusterDriftScan(models.Model):
    """The drift scan of one cluster.

    `cursor` is the position of a scan in progress. Only the scan writes these columns; pages may bring
    `due_at` forward.
    """

    cluster = models.OneToOneField(SyncedCluster, on_delete=models.CASCADE, related_name="drift_scan")
    due_at = models.DateTimeField()
    lease_expires_at = models.DateTimeField(null=True)
    fence = models.PositiveBigIntegerField(default=0)
    task = models.ForeignKey(DelegateTask, null=True, on_delete=models.SET_NULL, related_name="+")
    cursor = models.JSONField(null=True)
    compared_at = models.DateTimeField(null=True)
    calls = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)
    failure = models.TextField(blank=True, default="")
    # The error code, and the next step for the reader.
    failure_code = models.CharField(max_length=128, blank=True, default="")
    failure_step = models.TextField(blank=True, default="")
    # The error that prevented reading auto scaling; empty without one.
    scaling_read_error = models.TextField(blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="compared_cluster_due")]

    def __str__(self) -> str:
        return str(self.cluster)


class TaskDefinitionRevision(models.Model):
    """A task definition revision as AWS described it; revisions never change."""

    arn = models.CharField(max_length=512, unique=True)
    # JSON, encrypted because environments can hold secrets.
    content = EncryptedTextField(bound_to=["arn"])
    registered_at = models.DateTimeField(null=True)
    registered_by = models.CharField(max_length=512, blank=True, default="")
    used_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.arn


class DriftComparison(models.Model):
    """An ECS service compared with its last deployment."""

    class State(models.TextChoices):
        IN_STEP = "IN_STEP", "In sync"
        DRIFTED = "DRIFTED", "Drifted"
        ACCEPTED = "ACCEPTED", "Drift accepted"
        DEPLOYING = "DEPLOYING", "Deploying"
        NOT_COMPARED = "NOT_COMPARED", "Not compared"

    SCOPE_PATH: ClassVar[str] = "ecs_service__infrastructure__environment__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {
        "environment": "ecs_service__infrastructure__environment__identifier"
    }

    ecs_service = models.OneToOneField(EcsServiceRecord, on_delete=models.CASCADE, related_name="comparison")
    state = models.CharField(max_length=16, choices=State, default=State.NOT_COMPARED)
    # The reason why all or part of it is not compared.
    reason = models.CharField(max_length=512, blank=True, default="")
    execution = models.ForeignKey(Execution, null=True, on_delete=models.SET_NULL, related_name="+")
    # The values AWS chose for fields that no manifest sets, and the deployment they belong to.
    aws_defaults = models.JSONField(default=dict)
    aws_defaults_deployment = models.CharField(max_length=128, blank=True, default="")
    compared_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["state"], name="comparison_state")]

    def __str__(self) -> str:
        return self.ecs_service.name

    @property
    def scope(self) -> Scope:
        infrastructure = self.ecs_service.infrastructure
        return infrastructure.scope if infrastructure else self.ecs_service.cluster.connector.scope


class Drift(models.Model):
    """One field that differs from the deployed value.

    Possible secrets are redacted in `desired` and `actual`; `fingerprint` changes with every further
    change.
    """

    SCOPE_PATH: ClassVar[str] = "comparison__seen__infrastructure__environment__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {
        "environment": "comparison__seen__infrastructure__environment__identifier"
    }

    comparison = models.ForeignKey(DriftComparison, on_delete=models.CASCADE, related_name="drifts")
    document = models.CharField(max_length=40)
    path = models.CharField(max_length=512, blank=True)
    desired = models.JSONField(null=True)
    actual = models.JSONField(null=True)
    fingerprint = models.CharField(max_length=64)
    # Author and time of the change, if AWS records them.
    attribution = models.TextField(blank=True, default="")
    detected_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    accepted_at = models.DateTimeField(null=True)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    reason = models.CharField(max_length=512, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["comparison", "document", "path"], condition=Q(resolved_at=None), name="drift_once"
            )
        ]
        indexes = [
            models.Index(fields=["-detected_at", "-id"], name="drift_newest"),
            models.Index(fields=["resolved_at"], name="drift_resolved"),
        ]

    def __str__(self) -> str:
        return f"{self.document} {self.path}".strip()

    @property
    def scope(self) -> Scope:
        return self.comparison.scope
