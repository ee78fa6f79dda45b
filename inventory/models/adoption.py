"""Adoptions of ECS services that were not deployed by Slipway."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from catalog.models import Infrastructure, Service
from inventory.models.instances import EcsServiceRecord
from pipelines.models import Pipeline
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope


class Adoption(models.Model):
    """Adoption of an ECS service from the proposal to the created service.

    `documents` holds the running manifests as JSON by kind; drift compares with them until the first
    deployment. `traffic` is the row of a `TrafficOptions` for one half of a blue/green pair.
    """

    class State(models.TextChoices):
        READING = "READING", "Reading"
        READY = "READY", "Ready to adopt"
        REFUSED = "REFUSED", "Cannot be adopted"
        ADOPTED = "ADOPTED", "Adopted"

    SCOPE_PATH: ClassVar[str] = "infrastructure__environment__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"environment": "infrastructure__environment__identifier"}

    infrastructure = models.ForeignKey(Infrastructure, on_delete=models.CASCADE, related_name="adoptions")
    ecs_service = models.ForeignKey(EcsServiceRecord, on_delete=models.CASCADE, related_name="adoptions")
    state = models.CharField(max_length=16, choices=State, default=State.READING)
    reason = models.TextField(blank=True, default="")
    documents = EncryptedTextField(bound_to=["infrastructure_id", "ecs_service_id"], blank=True, default="")
    warnings = models.JSONField(default=list)
    traffic = models.JSONField(default=dict)
    task_definition = models.CharField(max_length=512, blank=True, default="")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    requested_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True)
    adopted_at = models.DateTimeField(null=True)
    adopted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # The ARN of the ECS service, without the number for a blue/green half; unique among adoptions.
    reserved_arn = models.CharField(max_length=512, blank=True, default="")
    service = models.ForeignKey(Service, null=True, on_delete=models.SET_NULL, related_name="adoptions")
    pipeline = models.ForeignKey(Pipeline, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["infrastructure", "ecs_service"], name="adoption_once"),
            # A second connector or environment must not allow a second adoption.
            models.UniqueConstraint(
                fields=["reserved_arn"],
                condition=Q(state="ADOPTED", service__isnull=False) & ~Q(reserved_arn=""),
                name="adoption_reserved_once",
            ),
        ]

    def __str__(self) -> str:
        return self.ecs_service.name

    @property
    def scope(self) -> Scope:
        return self.infrastructure.scope
