"""Rows of the engine: interrupts, service locks, rollback checks and the dispatcher's pulse."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from deployments.models.executions import Execution, StageExecution, StepExecution


class Interrupt(models.Model):
    """Request of a user that the next reconcile pass applies (DESIGN 5, rule 4)."""

    class Kind(models.TextChoices):
        ABORT = "ABORT"
        ABORT_AND_ROLL_BACK = "ABORT_AND_ROLL_BACK"
        ROLL_BACK = "ROLL_BACK"
        RETRY = "RETRY"
        FAIL = "FAIL"
        SKIP = "SKIP"
        IGNORE = "IGNORE"
        MARK_AS_SUCCESS = "MARK_AS_SUCCESS"
        MARK_AS_FAILURE = "MARK_AS_FAILURE"
        GO_ON = "GO_ON"
        END_UNCHANGED = "END_UNCHANGED"

    SCOPE_PATH: ClassVar[str] = "execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "execution__pipeline__identifier"}

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="interrupts")
    kind = models.CharField(max_length=32, choices=Kind)
    # The identifier of the step that is meant; empty for the whole execution.
    step = models.CharField(max_length=128, blank=True, default="")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    at = models.DateTimeField(auto_now_add=True)
    applied_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=255, blank=True, default="")

    def __str__(self) -> str:
        return f"{self.kind} of {self.execution}"


class ServiceLock(models.Model):
    """Lock on an ECS service; one stage at a time has it (DESIGN 5, rule 13)."""

    key = models.CharField(max_length=512, unique=True)
    stage = models.ForeignKey(StageExecution, on_delete=models.CASCADE, related_name="locks")
    acquired_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.key


class ServiceLockClaim(models.Model):
    """Claim of a step on a service lock: its place in the queue, stored after it was granted.

    It is granted while its stage has the lock of that key. `granted_at` tells the order of deployments: it is
    the time of the last attempt that deploys, not of a rollback.
    """

    stage = models.ForeignKey(StageExecution, on_delete=models.CASCADE, related_name="claims")
    step = models.ForeignKey(StepExecution, on_delete=models.CASCADE, related_name="claims")
    key = models.CharField(max_length=512)
    ecs_service = models.CharField(max_length=255)
    requested_at = models.DateTimeField()
    granted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["step", "key"], name="service_lock_claim_unique")]
        indexes = [models.Index(fields=["key"], name="service_lock_claim_key")]

    def __str__(self) -> str:
        return f"{self.key} for {self.step}"


class RollbackCheck(models.Model):
    """One line of the checklist that proves a rollback (N05)."""

    step = models.ForeignKey(StepExecution, on_delete=models.CASCADE, related_name="rollback_checks")
    attempt = models.PositiveIntegerField(default=1)
    position = models.PositiveIntegerField()
    subject = models.CharField(max_length=255)
    expected = models.TextField()
    actual = models.TextField()
    passed = models.BooleanField()
    note = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "attempt", "position"], name="rollback_check_unique")
        ]

    def __str__(self) -> str:
        return self.subject


class Pulse(models.Model):
    """The last sign of life of one background part, such as the dispatcher."""

    name = models.CharField(max_length=64, unique=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.at:%H:%M:%S}"
