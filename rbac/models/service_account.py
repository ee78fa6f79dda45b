"""Service accounts: programs that have roles of their own."""

from typing import ClassVar

from django.db import models

from rbac.models.named import Named
from rbac.models.scope import Scope, valid_identifier
from rbac.models.user import User


class ServiceAccount(Named):
    """A program of a scope; it acts as a user of its own that has no password and signs in by API key."""

    THING_TYPE: ClassVar[str] = "serviceaccount"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"serviceaccount": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="service_accounts")
    identifier = models.CharField(max_length=128, validators=[valid_identifier])
    name = models.CharField(max_length=128)
    description = models.CharField(max_length=400, blank=True)
    user = models.OneToOneField(
        User, on_delete=models.PROTECT, related_name="service_account", editable=False
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="service_account_unique_in_scope")
        ]

    def __str__(self) -> str:
        return self.name
