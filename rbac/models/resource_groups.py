"""Resource groups that narrow a role assignment to some resources."""

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.db import models

from rbac.models.names import NamedModel
from rbac.models.scopes import Scope, validate_identifier
from rbac.permissions import RESOURCE_TYPES

_RESOURCE_IDENTIFIERS = frozenset(resource.identifier for resource in RESOURCE_TYPES)


def validate_resource(identifier: str) -> None:
    """Refuse a kind of thing that the catalogue does not list."""
    if identifier not in _RESOURCE_IDENTIFIERS:
        raise ValidationError(
            f"{identifier} is not a kind of resource; known are {', '.join(sorted(_RESOURCE_IDENTIFIERS))}."
        )


class ResourceGroup(NamedModel):
    """A named choice of things; a role assignment without one speaks of everything in its scope."""

    RESOURCE_TYPE: ClassVar[str] = "resourcegroup"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"resourcegroup": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="resource_groups")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    description = models.CharField(max_length=400, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="resource_group_unique_in_scope")
        ]

    def __str__(self) -> str:
        return self.name


class ResourceGroupEntry(models.Model):
    """All things of a kind, or the one of that identifier."""

    group = models.ForeignKey(ResourceGroup, on_delete=models.CASCADE, related_name="entries")
    resource = models.CharField(max_length=32, validators=[validate_resource])
    # Empty: all of the kind.
    identifier = models.CharField(max_length=128, blank=True)

    class Meta:
        verbose_name_plural = "resource group entries"
        constraints = [
            models.UniqueConstraint(fields=["group", "resource", "identifier"], name="resource_entry_unique")
        ]

    def __str__(self) -> str:
        return f"{self.resource}: {self.identifier or 'all'}"
