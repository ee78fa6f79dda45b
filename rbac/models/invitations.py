"""Invitations by e-mail to join a scope with a role."""

from typing import ClassVar, Final

from django.db import models
from django.utils import timezone

from rbac.models.roles import Role
from rbac.models.scopes import Scope
from rbac.models.users import User


class Invitation(models.Model):
    """Invitation by e-mail to a scope with a role; only the hash of the link's token is stored."""

    OPEN: Final = "open"
    STATES: ClassVar = (OPEN, "accepted", "revoked", "expired")

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

    @property
    def state(self) -> str:
        """Return one of `STATES`; an open invitation can be accepted."""
        if self.accepted_at:
            return "accepted"
        if self.revoked_at:
            return "revoked"
        return "expired" if self.expires_at <= timezone.now() else self.OPEN

    @property
    def is_waiting(self) -> bool:
        """Return whether it is open, or would be if it were sent again."""
        return self.state in (self.OPEN, "expired")
