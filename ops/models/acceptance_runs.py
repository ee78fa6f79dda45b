"""Acceptance runs with what they saw, and the position of the worker that drives each."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from connectors.models import Connector
from rbac.models import Scope


class AcceptanceRun(models.Model):
    """Acceptance run from its plan to the deletion of its last resource.

    `target` is the JSON of an `AcceptanceSpec`, `permissions` of a `PermissionCheck`, `observations` of those
    of finished scenarios, and `progress` of a `RunProgress`. Passes of workers continue the run; only the
    newest `fence` may write.
    """

    class Status(models.TextChoices):
        RUNNING = "RUNNING", "Running"
        CLEANING_UP = "CLEANING_UP", "Cleaning up"
        SUCCESS = "SUCCESS", "Success"
        FAILED = "FAILED", "Failed"
        ABORTED = "ABORTED", "Canceled"
        # The database was restored while it ran.
        UNKNOWN = "UNKNOWN", "Unknown, restored"

    SCOPE_PATH: ClassVar[str] = "scope"

    key = models.CharField(max_length=8, unique=True)
    # The project of the disposable resources; of an organization until the run has created one.
    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="+")
    connector = models.ForeignKey(Connector, null=True, on_delete=models.SET_NULL, related_name="+")
    connector_name = models.CharField(max_length=400)
    region = models.CharField(max_length=64)
    cluster = models.CharField(max_length=255)
    target = models.JSONField()
    permissions = models.JSONField(default=dict)
    version = models.CharField(max_length=64)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    status = models.CharField(max_length=16, choices=Status, default=Status.RUNNING)
    scenarios = models.JSONField(default=list)
    observations = models.JSONField(default=list)
    progress = models.JSONField(default=dict)
    # Why the run ended before its last scenario, and what it could not delete.
    problem = models.TextField(blank=True, default="")
    left = models.JSONField(default=list)
    verdicts = models.JSONField(default=dict)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    fence = models.PositiveIntegerField(default=0)
    # Passes since the last one that came to its end.
    failed_passes = models.PositiveSmallIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], name="acceptance_due", condition=Q(due_at__isnull=False)),
            models.Index(fields=["ended_at"], name="acceptance_ended"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["connector", "region", "cluster"],
                condition=Q(ended_at=None),
                name="acceptance_once_per_cluster",
            ),
        ]

    def __str__(self) -> str:
        return f"acceptance run {self.key}"

    @property
    def is_over(self) -> bool:
        return self.ended_at is not None

    @property
    def is_complete(self) -> bool:
        """Return whether every planned scenario was observed."""
        return len(self.observations) == len(self.scenarios)
