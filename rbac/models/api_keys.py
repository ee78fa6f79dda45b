"""API keys that programs authenticate with."""

import hashlib

from django.db import models

from rbac.models.scopes import NamedModel, Scope
from rbac.models.users import ApiKeyLimits, User


def hash_token(token: str) -> str:
    """Return the stored hash of a token; 256 random bits need no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class ApiKey(NamedModel):
    """API key that acts as its user; only its hash is stored."""

    PREFIX = "slp_pat_"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=128)
    prefix = models.CharField(max_length=16, editable=False)
    hash = models.CharField(max_length=64, unique=True, editable=False)
    # Limits within its user's permissions: at or below this scope, with these permissions.
    scope = models.ForeignKey(Scope, on_delete=models.CASCADE, null=True, blank=True, related_name="api_keys")
    permissions = models.JSONField(default=list, blank=True)
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="api_keys_made", editable=False
    )
    created_at = models.DateTimeField(auto_now_add=True)
    rotated_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The token before the last rotation, for as long as it still opens.
    previous_hash = models.CharField(max_length=64, blank=True, editable=False, db_index=True)
    previous_until = models.DateTimeField(null=True, blank=True, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = "API key"
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="api_key_name_unique")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def limits(self) -> ApiKeyLimits | None:
        """Return the limits of the key, or None for all permissions of its user without expiry."""
        if self.scope_id is None and not self.permissions and self.expires_at is None:
            return None
        return ApiKeyLimits(self.scope, frozenset(self.permissions))
