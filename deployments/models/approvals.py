"""Approval requests and their decisions."""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from deployments.models.executions import Execution, StepExecution
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope, UserGroup


class Approval(models.Model):
    """Request for an approval by an attempt of a step, with its approvers and deadline.

    `key` tells the requests of one attempt apart: an approval step has one with "", a deployment one for each
    pause of ECS.
    Only the engine writes `status` and the plan (`plan`, JSON; `plan_hash` is its hash). Pages add decisions,
    which increment `decision_count`, and request a new plan (`refreshes_requested`).
    """

    class Status(models.TextChoices):
        WAITING = "WAITING"
        APPROVED = "APPROVED"
        REJECTED = "REJECTED"
        EXPIRED = "EXPIRED"
        WITHDRAWN = "WITHDRAWN"

    SCOPE_PATH: ClassVar[str] = "execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "execution__pipeline__identifier"}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="approvals")
    step = models.ForeignKey(StepExecution, on_delete=models.CASCADE, related_name="approvals")
    attempt = models.PositiveIntegerField()
    key = models.CharField(max_length=128, blank=True, default="", db_default="")
    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING)
    message = models.TextField(blank=True, default="")
    groups = models.ManyToManyField(UserGroup, related_name="+")
    group_names = models.JSONField(default=list)
    minimum_approvals = models.PositiveIntegerField(default=1)
    excludes_executor = models.BooleanField(default=False)
    inputs = models.JSONField(default=list)
    includes_history = models.BooleanField(default=False)
    requested_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    decision_count = models.PositiveIntegerField(default=0)
    plan = EncryptedTextField(blank=True, default="")
    plan_hash = models.CharField(max_length=64, blank=True, default="")
    planned_at = models.DateTimeField(null=True)
    refreshes_requested = models.PositiveIntegerField(default=1)
    refreshes_completed = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "attempt", "key"], name="approval_once_per_key"),
        ]
        indexes = [
            models.Index(fields=["-requested_at", "-id"], name="approval_newest"),
            models.Index(fields=["status", "-requested_at", "-id"], name="approval_newest_with_status"),
        ]

    def __str__(self) -> str:
        return f"approval {self.step.identifier} of {self.execution}"

    @property
    def scope(self) -> Scope:
        return self.execution.scope

    @property
    def is_being_refreshed(self) -> bool:
        """Return whether the plan is being computed again."""
        return self.status == self.Status.WAITING and self.refreshes_completed < self.refreshes_requested

    @property
    def badge_status(self) -> str:
        """Return the status that pages draw."""
        return {"WAITING": "APPROVAL_WAITING", "REJECTED": "APPROVAL_REJECTED"}.get(self.status, self.status)


class ApprovalDecision(models.Model):
    """Decision of one user about one plan; immutable and unique."""

    class Verdict(models.TextChoices):
        APPROVE = "APPROVE"
        REJECT = "REJECT"

    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="decisions")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    by_name = models.CharField(max_length=150)
    verdict = models.CharField(max_length=16, choices=Verdict)
    comment = models.TextField(blank=True, default="")
    inputs = models.JSONField(default=dict)
    plan_hash = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["approval", "by", "plan_hash"], name="approval_decided_once_by_each"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.by_name}"
