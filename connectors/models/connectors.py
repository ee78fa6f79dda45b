"""Connectors to third parties."""

from typing import ClassVar

from django.db import models

from connectors.models.secrets import Secret
from rbac.models import Scope
from rbac.models.scopes import IDENTIFIER_PATTERN, validate_identifier


class Connector(models.Model):
    """How to reach a third party; `spec` is what its kind needs and never holds a secret value."""

    class Kind(models.TextChoices):
        """What is at the other end."""

        AWS = "Aws", "AWS"
        GIT = "Git", "Git"
        DOCKER_REGISTRY = "DockerRegistry", "Docker registry"
        TERRAFORM_CLOUD = "TerraformCloud", "Terraform Cloud"

    RESOURCE_TYPE: ClassVar[str] = "connector"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"connector": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="connectors")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    kind = models.CharField(max_length=32, choices=Kind.choices, default=Kind.AWS)
    spec = models.JSONField(default=dict, blank=True)
    secret = models.ForeignKey(
        Secret, on_delete=models.PROTECT, null=True, blank=True, related_name="connectors"
    )
    last_tested_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_test_ok = models.BooleanField(null=True, blank=True, editable=False)
    last_test_message = models.TextField(blank=True, editable=False)
    # Who it was, each check, the next step: what the page shows of the last test.
    last_test_report = models.JSONField(default=dict, blank=True, editable=False)
    # The key that an SSH server showed first, and another one that it showed since.
    host_key = models.JSONField(default=dict, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="connector_unique_in_scope"),
            models.CheckConstraint(
                condition=models.Q(identifier__regex=IDENTIFIER_PATTERN), name="connector_identifier_is_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=["Aws", "Git", "DockerRegistry", "TerraformCloud"]),
                name="connector_kind_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(last_tested_at__isnull=True, last_test_ok__isnull=True)
                | models.Q(last_tested_at__isnull=False, last_test_ok__isnull=False),
                name="connector_test_has_moment_and_result",
            ),
        ]

    def __str__(self) -> str:
        return self.identifier

    def clear_test_result(self) -> None:
        """Say nothing of the last test any more: what was tested has changed."""
        self.last_tested_at = self.last_test_ok = None
        self.last_test_message, self.last_test_report = "", {}
