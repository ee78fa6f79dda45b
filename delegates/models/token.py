"""Delegate tokens: what an agent shows once to get a session."""

from django.db import models
from django.utils import timezone

from connectors.encryption import EncryptedTextField
from rbac.models import Scope, User
from rbac.models.named import Named


class DelegateToken(Named):
    """A token for the delegates of one scope: hashed to be found, encrypted to be put into a spec."""

    PREFIX = "slp_dlt_"

    class Status(models.TextChoices):
        """Whether agents may use it."""

        ACTIVE = "ACTIVE", "Active"
        REVOKED = "REVOKED", "Revoked"

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="delegate_tokens")
    name = models.CharField(max_length=128)
    value = EncryptedTextField(bound_to=["token_hash"])
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    prefix = models.CharField(max_length=16, editable=False)
    status = models.CharField(max_length=8, choices=Status, default=Status.ACTIVE)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "name"], name="delegate_token_name_unique"),
            models.CheckConstraint(
                condition=models.Q(status="ACTIVE", revoked_at__isnull=True)
                | models.Q(status="REVOKED", revoked_at__isnull=False),
                name="delegate_token_revoked_has_moment",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def has_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def is_usable(self) -> bool:
        """Whether an agent could register with it now."""
        return self.status == self.Status.ACTIVE and not self.has_expired

    @property
    def shown_status(self) -> str:
        """Its status, or EXPIRED for an active one whose time is over."""
        over = self.has_expired and self.status == self.Status.ACTIVE
        return "EXPIRED" if over else str(self.status)
