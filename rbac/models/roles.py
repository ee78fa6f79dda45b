"""Roles, resource groups, and the assignments that grant them at a scope."""

from collections.abc import Iterable
from typing import ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from rbac.models.scopes import NamedModel, Scope, validate_identifier
from rbac.permissions import PERMISSIONS, RESOURCE_TYPES


def validate_permission(identifier: str) -> None:
    """Reject unknown permissions: a typing error would silently grant nothing."""
    if identifier not in PERMISSIONS:
        raise ValidationError(f"{identifier} is not a known permission.")


class Role(NamedModel):
    """A named set of permissions; a built-in one belongs to no scope and cannot be changed."""

    RESOURCE_TYPE: ClassVar[str] = "role"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"role": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, null=True, blank=True, related_name="roles")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    builtin = models.BooleanField(default=False, editable=False)
    version = models.PositiveIntegerField(default=1, db_default=1, editable=False)

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
        """Replace the permissions of the role."""
        permissions = set(identifiers)
        for identifier in permissions:
            validate_permission(identifier)
        present = set(self.permissions.values_list("permission", flat=True))
        self.permissions.filter(permission__in=present - permissions).delete()
        RolePermission.objects.bulk_create(
            [RolePermission(role=self, permission=p) for p in sorted(permissions - present)],
            ignore_conflicts=True,
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


_RESOURCE_IDENTIFIERS = frozenset(resource.identifier for resource in RESOURCE_TYPES)


def validate_resource(identifier: str) -> None:
    """Refuse a kind of thing that the catalogue does not list."""
    if identifier not in _RESOURCE_IDENTIFIERS:
        raise ValidationError(
            f"{identifier} is not a resource type. Use one of {', '.join(sorted(_RESOURCE_IDENTIFIERS))}."
        )


class ResourceGroup(NamedModel):
    """A named choice of things; a role assignment without one speaks of everything in its scope."""

    RESOURCE_TYPE: ClassVar[str] = "resourcegroup"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"resourcegroup": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="resource_groups")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    description = models.CharField(max_length=400, blank=True)
    version = models.PositiveIntegerField(default=1, db_default=1, editable=False)

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


_TO_USER = Q(user__isnull=False, group__isnull=True)
_TO_GROUP = Q(user__isnull=True, group__isnull=False)


class RoleAssignment(models.Model):
    """A user (a service account's too) or a group has a role at a scope and everywhere below it."""

    scope = models.ForeignKey(Scope, on_delete=models.CASCADE, related_name="assignments")
    role = models.ForeignKey(Role, on_delete=models.PROTECT, related_name="assignments")
    user = models.ForeignKey(
        "rbac.User", on_delete=models.CASCADE, null=True, blank=True, related_name="assignments"
    )
    group = models.ForeignKey(
        "rbac.UserGroup", on_delete=models.CASCADE, null=True, blank=True, related_name="assignments"
    )
    # None: everything in the scope.
    resource_group = models.ForeignKey(
        ResourceGroup, on_delete=models.PROTECT, null=True, blank=True, related_name="assignments"
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="assignment_to_one_principal",
                condition=_TO_USER | _TO_GROUP,
            ),
            models.UniqueConstraint(
                fields=["user", "role", "scope"],
                name="assignment_unique_user",
                condition=Q(resource_group=None),
            ),
            models.UniqueConstraint(
                fields=["group", "role", "scope"],
                name="assignment_unique_group",
                condition=Q(resource_group=None),
            ),
            models.UniqueConstraint(
                fields=["user", "role", "scope", "resource_group"], name="assignment_unique_user_part"
            ),
            models.UniqueConstraint(
                fields=["group", "role", "scope", "resource_group"], name="assignment_unique_group_part"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user or self.group}: {self.role} at {self.scope}"
