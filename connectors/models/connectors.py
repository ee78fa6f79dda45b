"""Connectors and secrets."""

from typing import ClassVar

from django.db import models
from django.utils import timezone

from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope
from rbac.models.scopes import IDENTIFIER_PATTERN, validate_identifier


class Secret(models.Model):
    """Encrypted secret, or reference to one in a secret manager (R153); pages and API never return its value.

    `connectors.secret_values.read_secret_value` returns the value of both; a reference stores none.
    """

    class Kind(models.TextChoices):
        """Source of the value; a file keeps its name."""

        TEXT = "Text", "Text"
        FILE = "File", "File"
        REFERENCE = "Reference", "Reference"

    RESOURCE_TYPE: ClassVar[str] = "secret"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"secret": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="secrets")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.TEXT)
    file_name = models.CharField(max_length=255, blank=True)
    value = EncryptedTextField(bound_to=["scope_id", "identifier"])
    # Rises with every new value; the old ones are forgotten.
    version = models.PositiveIntegerField(default=1)
    rotated_at = models.DateTimeField(default=timezone.now)
    # Name of the secret manager, its connector, and the place of the value there.
    manager = models.CharField(max_length=32, blank=True, db_default="", default="")
    manager_connector = models.ForeignKey(
        "Connector", on_delete=models.PROTECT, null=True, blank=True, related_name="referenced_secrets"
    )
    reference_path = models.CharField(max_length=2048, blank=True, db_default="", default="")
    reference_key = models.CharField(max_length=255, blank=True, db_default="", default="")
    reference_version = models.CharField(max_length=128, blank=True, db_default="", default="")
    # Last read in the secret manager, its purpose, and why it failed.
    last_read_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_read_by = models.CharField(max_length=255, blank=True, db_default="", default="", editable=False)
    last_read_problem = models.TextField(blank=True, db_default="", default="", editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="secret_unique_in_scope"),
            models.CheckConstraint(
                condition=models.Q(identifier__regex=IDENTIFIER_PATTERN), name="secret_identifier_is_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=["Text", "Reference"], file_name="")
                | models.Q(kind="File") & ~models.Q(file_name=""),
                name="secret_file_has_name",
            ),
            models.CheckConstraint(
                condition=models.Q(kind="Reference", value="", manager_connector__isnull=False)
                & ~models.Q(manager="")
                & ~models.Q(reference_path="")
                | ~models.Q(kind="Reference")
                & models.Q(
                    manager="",
                    manager_connector__isnull=True,
                    reference_path="",
                    reference_key="",
                    reference_version="",
                ),
                name="secret_reference_is_complete",
            ),
        ]

    def __str__(self) -> str:
        return self.identifier

    @property
    def is_reference(self) -> bool:
        """Return whether the value is in a secret manager."""
        return self.kind == self.Kind.REFERENCE


class Connector(models.Model):
    """Connection to another system; `spec` has the fields of its kind and no secret values."""

    class Kind(models.TextChoices):
        """Kind of the other system."""

        AWS = "Aws", "AWS"
        GIT = "Git", "Git"
        DOCKER_REGISTRY = "DockerRegistry", "Docker registry"
        TERRAFORM_CLOUD = "TerraformCloud", "Terraform Cloud"
        VAULT = "Vault", "HashiCorp Vault"

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
    # Session token of a temporary access key.
    session_token = models.ForeignKey(
        Secret, on_delete=models.PROTECT, null=True, blank=True, related_name="token_connectors"
    )
    last_tested_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_test_ok = models.BooleanField(null=True, blank=True, editable=False)
    last_test_message = models.TextField(blank=True, editable=False)
    # Identity, checks and remedy of the last test, for its page.
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
                condition=models.Q(kind__in=["Aws", "Git", "DockerRegistry", "TerraformCloud", "Vault"]),
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
        """Clear the result of the last test, because the tested settings have changed."""
        self.last_tested_at = self.last_test_ok = None
        self.last_test_message, self.last_test_report = "", {}
