"""Secrets: written by people, read by nobody but a call that needs one."""

from django.db import models

from connectors.encryption import EncryptedTextField
from rbac.models import Scope
from rbac.models.scope import IDENTIFIER_PATTERN, valid_identifier


class Secret(models.Model):
    """A value kept encrypted (R153); pages and API never give it back."""

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="secrets")
    identifier = models.CharField(max_length=128, validators=[valid_identifier])
    name = models.CharField(max_length=128)
    value = EncryptedTextField()
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="secret_unique_in_scope"),
            models.CheckConstraint(
                condition=models.Q(identifier__regex=IDENTIFIER_PATTERN), name="secret_identifier_is_valid"
            ),
        ]

    def __str__(self) -> str:
        return self.identifier
