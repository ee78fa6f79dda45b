"""Role assignments, the only rows that grant permissions."""

from django.db import models
from django.db.models import Q

from rbac.models.resource_groups import ResourceGroup
from rbac.models.roles import Role
from rbac.models.scopes import Scope
from rbac.models.users import User, UserGroup

_TO_USER = Q(user__isnull=False, group__isnull=True)
_TO_GROUP = Q(user__isnull=True, group__isnull=False)


class RoleAssignment(models.Model):
    """A user (a service account's too) or a group has a role at a scope and everywhere below it."""

    scope = models.ForeignKey(Scope, on_delete=models.CASCADE, related_name="assignments")
    role = models.ForeignKey(Role, on_delete=models.PROTECT, related_name="assignments")
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, null=True, blank=True, related_name="assignments"
    )
    group = models.ForeignKey(
        UserGroup, on_delete=models.CASCADE, null=True, blank=True, related_name="assignments"
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
