"""Abstract base of all models with an identifier in a scope."""

from typing import Any

from django.core.validators import RegexValidator
from django.db import models

from rbac.models import Scope

IDENTIFIER_PATTERN = r"^[A-Za-z_][A-Za-z0-9_$]{0,127}\Z"
identifier_validator = RegexValidator(
    IDENTIFIER_PATTERN,
    "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
)


class ScopedResource(models.Model):
    """A resource with an identifier and a name in a scope (REQUIREMENTS 4.2)."""

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="+")
    identifier = models.CharField(max_length=128, validators=[identifier_validator])
    name = models.CharField(max_length=128)
    description = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        """Return the path of the scope with the identifier."""
        return f"{self.scope.path}/{self.identifier}"


def build_identifier_constraint(model: str) -> Any:
    """Return the constraint that makes identifiers unique in a scope."""
    return models.UniqueConstraint(fields=["scope", "identifier"], name=f"{model}_identifier_unique_in_scope")
