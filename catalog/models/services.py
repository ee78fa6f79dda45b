"""Services with their manifests and artifact."""

from typing import ClassVar

from django.db import models

from catalog.models.base import ScopedResource, build_identifier_constraint
from rbac.models import Scope


class Service(ScopedResource):
    """The application to deploy (R158); ECS's own is called ECS service.

    `required_variables` names those of `variables` that need a value, here or in the environment.
    """

    RESOURCE_TYPE: ClassVar[str] = "service"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"service": "identifier"}

    variables = models.JSONField(default=dict, blank=True)
    required_variables = models.JSONField(default=list, blank=True)

    class Meta:
        constraints = [build_identifier_constraint("service")]


class Manifest(models.Model):
    """A manifest of a service and its store (R159, R163, R169)."""

    class Kind(models.TextChoices):
        TASK_DEFINITION = "EcsTaskDefinition", "Task definition"
        SERVICE_DEFINITION = "EcsServiceDefinition", "Service definition"
        SCALABLE_TARGET = "EcsScalableTargetDefinition", "Scalable target"
        SCALING_POLICY = "EcsScalingPolicyDefinition", "Scaling policy"

    SCOPE_PATH = "service__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"service": "service__identifier"}

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="manifests")
    identifier = models.CharField(max_length=128)
    kind = models.CharField(max_length=40, choices=Kind)
    store = models.CharField(max_length=40, default="FileStore")
    paths = models.JSONField(default=list, blank=True)
    content = models.TextField(blank=True, default="")
    # Location in Git or S3: the connector's identifier, and the repository or bucket.
    place = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["service", "identifier"], name="manifest_identifier_unique")
        ]

    def __str__(self) -> str:
        return f"{self.service}: {self.identifier}"

    @property
    def scope(self) -> Scope:
        return self.service.scope


class Artifact(models.Model):
    """The image of a service; `tag` is the default tag (R179)."""

    SCOPE_PATH = "service__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"service": "service__identifier"}

    service = models.OneToOneField(Service, on_delete=models.CASCADE, related_name="artifact")
    image = models.CharField(max_length=512)
    tag = models.CharField(max_length=128, default="latest")
    # Source of tags and digests: {"type", "connector", "imagePath", "region", "tagPattern"}.
    source = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return f"{self.image}:{self.tag}"

    @property
    def scope(self) -> Scope:
        return self.service.scope
