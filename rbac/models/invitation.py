"""Invitations: a role that waits for a person to come."""

from django.db import models

from rbac.models.role import Role
from rbac.models.scope import Scope
from rbac.models.user import User


class Invitation(models.Model):
    """Somebody was asked by e-mail to join a scope with a role; only the hash of the link's token is kept."""

    email = models.EmailField(max_length=254)
    scope = models.ForeignKey(Scope, on_delete=models.CASCADE, related_name="invitations")
    role = models.ForeignKey(Role, on_delete=models.PROTECT, related_name="invitations")
    invited_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="invitations_sent", editable=False
    )
    hash = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True, editable=False)
    accepted_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="invitations_accepted", editable=False
    )
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["email", "scope", "role"],
                name="invitation_open_once",
                condition=models.Q(accepted_at=None, revoked_at=None),
            )
        ]

    def __str__(self) -> str:
        return f"{self.email}: {self.role} at {self.scope}"
