"""Daemons of managed instances, as sync last saw them."""

from typing import Final

from django.db import models
from django.db.models import Q

from inventory.models.instances import SyncedCluster

# Statuses of a daemon deployment that never change again (ECS API, DaemonDeployment).
FINAL_DEPLOYMENT_STATUSES: Final = (
    "SUCCESSFUL",
    "STOPPED",
    "ROLLBACK_SUCCESSFUL",
    "ROLLBACK_FAILED",
)


class EcsDaemon(models.Model):
    """A daemon of a cluster: ECS runs one of its tasks on each instance of its capacity providers.

    Nothing in Slipway deploys it.
    """

    cluster = models.ForeignKey(SyncedCluster, on_delete=models.CASCADE, related_name="daemons")
    name = models.CharField(max_length=255)
    arn = models.CharField(max_length=512)
    status = models.CharField(max_length=32, blank=True, default="")
    # The instances with a task of the daemon, and those that run without one.
    running = models.PositiveIntegerField(default=0)
    without_daemon = models.PositiveIntegerField(default=0)
    # "name", "running" and "without_daemon" of each.
    capacity_providers = models.JSONField(default=list)
    # The newest revision that runs; the next columns are known after it was read.
    revision = models.CharField(max_length=512, blank=True, default="")
    task_definition = models.CharField(max_length=512, blank=True, default="")
    # "name", "image" and "digest" of each container.
    containers = models.JSONField(default=list)
    is_critical = models.BooleanField(null=True)
    # The last deployment; its status is empty until it was read.
    deployment = models.CharField(max_length=512, blank=True, default="")
    deployment_status = models.CharField(max_length=32, blank=True, default="")
    deployment_reason = models.TextField(blank=True, default="")
    deployment_read_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(null=True)
    described_at = models.DateTimeField(null=True)
    first_seen_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "arn"], name="ecs_daemon_once")]
        indexes = [
            models.Index(
                fields=["cluster", "described_at"], name="ecs_daemon_due", condition=Q(gone_at__isnull=True)
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def has_open_deployment(self) -> bool:
        """Return whether ECS may still be replacing its tasks."""
        return bool(self.deployment_status) and self.deployment_status not in FINAL_DEPLOYMENT_STATUSES
