"""Weekly windows in which Slipway upgrades delegates by itself, and the upgrades that it started."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from catalog.models import Infrastructure
from delegates.models import Delegate
from deployments.models.executions import Execution
from rbac.models import Scope, User


class DelegateUpgradeWindow(models.Model):
    """Weekly window for automatic upgrades of a delegate that Slipway deployed; without a row there are none.

    `days` are numbers of weekdays from Monday, 0; `begins` is a local time (02:00) in `time_zone`. The
    upgrades have the rights of `allowed_by`.
    """

    SCOPE_PATH: ClassVar[str] = "delegate__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegate": "delegate__name"}

    delegate = models.OneToOneField(Delegate, on_delete=models.CASCADE, related_name="upgrade_window")
    # Where Slipway deployed it: project, connector and cluster.
    infrastructure = models.ForeignKey(Infrastructure, on_delete=models.CASCADE, related_name="+")
    days = models.JSONField(default=list)
    begins = models.CharField(max_length=5)
    duration_minutes = models.PositiveIntegerField()
    time_zone = models.CharField(max_length=64, default="UTC")
    allowed_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    # When it begins next; a worker that looks has moved it on.
    due_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(duration_minutes__gt=0), name="delegate_upgrade_window_has_duration"
            )
        ]
        indexes = [models.Index(fields=["due_at"], name="delegate_upgrade_window_due")]

    def __str__(self) -> str:
        return f"Upgrade window of {self.delegate}"

    @property
    def scope(self) -> Scope:
        return self.delegate.scope


class DelegateUpgrade(models.Model):
    """Automatic upgrade of a delegate: at most one for each time that its window opens."""

    class Status(models.TextChoices):
        """Result so far; a skipped one was frozen."""

        RUNNING = "RUNNING", "Running"
        SUCCEEDED = "SUCCEEDED", "Succeeded"
        FAILED = "FAILED", "Failed"
        SKIPPED = "SKIPPED", "Skipped"

    SCOPE_PATH: ClassVar[str] = "delegate__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegate": "delegate__name"}

    delegate = models.ForeignKey(Delegate, on_delete=models.CASCADE, related_name="upgrades")
    window_begins_at = models.DateTimeField()
    status = models.CharField(max_length=16, choices=Status, default=Status.RUNNING)
    image = models.CharField(max_length=512)
    execution = models.ForeignKey(Execution, on_delete=models.SET_NULL, null=True, related_name="+")
    problem = models.TextField(blank=True, default="")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["delegate", "window_begins_at"], name="delegate_upgrade_once_a_window"
            )
        ]
        indexes = [
            models.Index(fields=["started_at"], name="delegate_upgrade_running", condition=Q(ended_at=None))
        ]

    def __str__(self) -> str:
        return f"{self.delegate} to {self.image}"

    @property
    def scope(self) -> Scope:
        return self.delegate.scope
