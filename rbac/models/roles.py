"""Roles as named sets of permissions."""

from collections.abc import Iterable
from typing import ClassVar

from django.core.exceptions import ValidationError
from django.db import models

from rbac.models.names import NamedModel
from rbac.models.scopes import Scope, validate_identifier
from rbac.permissions import PERMISSIONS


def validate_permission(identifier: str) -> None:
    """Refuse what the catalogue does not list: a typing error would silently grant nothing."""
    if identifier not in PERMISSIONS:
        raise ValidationError(f"{identifier} is not a permission of the catalogue.")


class Role(NamedModel):
    """A named set of permissions; a built-in one belongs to no scope and cannot be changed."""

    RESOURCE_TYPE: ClassVar[str] = "role"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"role": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, null=True, blank=True, related_name="roles")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    builtin = models.BooleanField(default=False, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="role_unique_in_scope"),
            models.UniqueConstraint(
                fields=["identifier"], name="builtin_role_unique", condition=models.Q(scope__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def set_permissions(self, identifiers: Iterable[str]) -> None:
        """Make exactly these the role's permissions."""
        wanted = set(identifiers)
        for identifier in wanted:
            validate_permission(identifier)
        present = set(self.permissions.values_list("permission", flat=True))
        self.permissions.filter(permission__in=present - wanted).delete()
        RolePermission.objects.bulk_create(
            [RolePermission(role=self, permission=p) for p in sorted(wanted - present)], ignore_conflicts=True
        )


class RolePermission(models.Model):
    """One permission of one role."""

    role = models.ForeignKey(Role, on_delete=models.CASCADE, related_name="permissions")
    permission = models.CharField(max_length=64, validators=[validate_permission])

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["permission", "role"], name="role_permission_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.role}: {self.permission}"
