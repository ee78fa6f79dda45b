"""Environments, infrastructures and service overrides."""

from typing import ClassVar

from django.db import models

from catalog.models.base import ScopedResource, build_identifier_constraint, identifier_validator
from catalog.models.services import Service
from connectors.models import Connector
from rbac.models import Scope


class Environment(ScopedResource):
    """Environment with a kind and infrastructures (R181)."""

    class Kind(models.TextChoices):
        PRODUCTION = "Production", "Production"
        PRE_PRODUCTION = "PreProduction", "Pre-production"

    RESOURCE_TYPE: ClassVar[str] = "environment"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"environment": "identifier"}

    kind = models.CharField(max_length=20, choices=Kind, default=Kind.PRE_PRODUCTION)
    variables = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [build_identifier_constraint("environment")]


class Infrastructure(models.Model):
    """ECS cluster in a region with a connector (R183).

    In a dynamic infrastructure (R184) region and cluster are expressions such as
    `<+provisioner.cluster_name>`; each stage resolves them after its provisioner steps.
    """

    SCOPE_PATH = "environment__scope"
    RESOURCE_TYPE: ClassVar[str] = "infrastructure"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"environment": "environment__identifier"}

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="infrastructures")
    identifier = models.CharField(max_length=128, validators=[identifier_validator])
    name = models.CharField(max_length=128)
    connector = models.ForeignKey(Connector, on_delete=models.PROTECT, related_name="infrastructures")
    region = models.CharField(max_length=255)
    cluster = models.CharField(max_length=255)
    is_dynamic = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "identifier"], name="infrastructure_identifier_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.environment}/{self.identifier}"

    @property
    def scope(self) -> Scope:
        return self.environment.scope


class ServiceOverride(models.Model):
    """Overrides of a service in an environment or in one of its infrastructures (R178).

    An infrastructure's wins over the environment's, which wins over the service's own. `manifests` are rows
    of identifier, kind, store, paths and content, each merged over the service's manifest of its kind.
    """

    SCOPE_PATH = "environment__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {
        "environment": "environment__identifier",
        "service": "service__identifier",
    }

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="overrides")
    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="overrides")
    infrastructure = models.ForeignKey(
        Infrastructure, null=True, blank=True, on_delete=models.CASCADE, related_name="overrides"
    )
    variables = models.JSONField(default=dict, blank=True)
    manifests = models.JSONField(default=list, blank=True)
    version = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "service"],
                condition=models.Q(infrastructure=None),
                name="override_of_a_service_unique",
            ),
            models.UniqueConstraint(
                fields=["infrastructure", "service"],
                condition=models.Q(infrastructure__isnull=False),
                name="override_in_an_infrastructure_unique",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.environment}: {self.service.identifier}"

    @property
    def scope(self) -> Scope:
        return self.environment.scope
