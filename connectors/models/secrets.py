"""Secrets with an encrypted, write-only value."""

from typing import ClassVar

from django.db import models
from django.utils import timezone

from connectors.encryption import EncryptedTextField
from rbac.models import Scope
from rbac.models.scopes import IDENTIFIER_PATTERN, validate_identifier


class Secret(models.Model):
    """A value kept encrypted (R153); pages and API never give it back."""

    class Kind(models.TextChoices):
        """How the value came; a file keeps its name."""

        TEXT = "Text", "Text"
        FILE = "File", "File"

    RESOURCE_TYPE: ClassVar[str] = "secret"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"secret": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="secrets")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.TEXT)
    file_name = models.CharField(max_length=255, blank=True)
    value = EncryptedTextField(bound_to=["scope_id", "identifier"])
    # Rises with every new value; the old ones are forgotten.
    version = models.PositiveIntegerField(default=1)
    rotated_at = models.DateTimeField(default=timezone.now)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="secret_unique_in_scope"),
            models.CheckConstraint(
                condition=models.Q(identifier__regex=IDENTIFIER_PATTERN), name="secret_identifier_is_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(kind="Text", file_name="")
                | models.Q(kind="File") & ~models.Q(file_name=""),
                name="secret_file_has_name",
            ),
        ]

    def __str__(self) -> str:
        return self.identifier
