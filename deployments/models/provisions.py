"""Configurations that provisioners applied, and stored plans."""

import uuid
from typing import ClassVar

from django.db import models

from deployments.models.executions import Execution, StepExecution
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope


class AppliedConfiguration(models.Model):
    """Configuration that was applied successfully; a rollback returns to the newest one before its own.

    `parameters` is JSON without secrets. Rows outlive their executions: without them a rollback could not
    know the earlier state.
    """

    SCOPE_PATH: ClassVar[str] = "scope"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="applied_configurations")
    # The provisionerIdentifier of the step.
    identifier = models.CharField(max_length=128)
    # Environment and infrastructure; empty in rows of releases that did not record it.
    place = models.CharField(max_length=768, blank=True, default="", db_default="")
    # Hash of backend and workspace, empty likewise.
    state_key = models.CharField(max_length=64, blank=True, default="", db_default="")
    parameters = EncryptedTextField(bound_to=["id"])
    step = models.ForeignKey(StepExecution, on_delete=models.SET_NULL, null=True, related_name="+")
    # A copy, so that it outlives the execution.
    applied_by = models.CharField(max_length=255)
    applied_at = models.DateTimeField()
    # When it was destroyed, or something before it was put back.
    removed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["scope", "identifier", "-applied_at"],
                name="applied_latest",
                condition=models.Q(removed_at=None),
            )
        ]

    def __str__(self) -> str:
        return f"{self.identifier} by {self.applied_by}"


class StoredPlan(models.Model):
    """A plan that a step made and a later one applies; `content` is base64, and empty once it was used."""

    SCOPE_PATH: ClassVar[str] = "execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "execution__pipeline__identifier"}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="plans")
    identifier = models.CharField(max_length=128)
    place = models.CharField(max_length=768, blank=True, default="", db_default="")
    parameters = EncryptedTextField(bound_to=["id"])
    content = EncryptedTextField(bound_to=["id"], blank=True, default="")
    destroys = models.BooleanField(default=False)
    planned_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.identifier} of {self.execution}"
