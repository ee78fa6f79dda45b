"""Delegates, delegate tokens, the account id, and the first rows of an installation."""

import secrets
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.db import models, transaction
from django.utils import timezone

from delegates.models.tags import includes_any, write_tags
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope, User
from rbac.models.scopes import NamedModel


class DelegateToken(NamedModel):
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
        """Return whether an agent could register with it now."""
        return self.status == self.Status.ACTIVE and not self.has_expired

    @property
    def shown_status(self) -> str:
        """Return the status, or EXPIRED for an active token after its expiry."""
        over = self.has_expired and self.status == self.Status.ACTIVE
        return "EXPIRED" if over else str(self.status)


# The last assignment of a delegate without one: not null, so that all databases sort it first.
NEVER_ASSIGNED = datetime(1970, 1, 1, tzinfo=UTC)


class Delegate(NamedModel):
    """Delegate of a scope, identified by scope and name (R023–R029, T05)."""

    BUILT_IN = "built-in"

    class Kind(models.TextChoices):
        """Platform of a delegate's instances."""

        ECS = "ECS", "ECS"
        DOCKER = "DOCKER", "Docker"
        KUBERNETES = "KUBERNETES", "Kubernetes"
        SHELL_SCRIPT = "SHELL_SCRIPT", "Shell script"
        BUILT_IN = "BUILT_IN", "Built in"

    class Admission(models.TextChoices):
        """Whether it may work, as people decided."""

        ENABLED = "ENABLED", "Enabled"
        PENDING_APPROVAL = "PENDING_APPROVAL", "Waiting for approval"
        REJECTED = "REJECTED", "Rejected"
        DISABLED = "DISABLED", "Disabled"

    RESOURCE_TYPE: ClassVar[str] = "delegate"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegate": "name"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="delegates")
    name = models.CharField(max_length=128)
    description = models.TextField(blank=True, default="")
    kind = models.CharField(max_length=16, choices=Kind, default=Kind.ECS)
    flavour = models.CharField(max_length=8, blank=True, default="")
    size = models.CharField(max_length=32, blank=True, default="")
    # Set by users; instances have the tags reported by agents.
    tags = models.JSONField(default=list, blank=True)
    configuration = models.ForeignKey(
        "DelegateConfiguration", on_delete=models.PROTECT, null=True, blank=True, related_name="delegates"
    )
    token = models.ForeignKey(
        DelegateToken, on_delete=models.SET_NULL, null=True, blank=True, related_name="delegates"
    )
    admission = models.CharField(max_length=16, choices=Admission, default=Admission.ENABLED)
    draining = models.BooleanField(default=False)
    # When it left the list after a long absence; its next registration restores it.
    archived_at = models.DateTimeField(null=True, editable=False)
    # Whether an instance without isolation may run scripts of several projects.
    shares_scripts = models.BooleanField(default=False)
    is_built_in = models.BooleanField(default=False, editable=False)
    # The wizard's answers, without secrets.
    spec = models.JSONField(default=dict, blank=True)
    aws_account = models.CharField(max_length=12, blank=True, default="")
    # When its newest task was queued, for the round-robin order.
    last_assigned_at = models.DateTimeField(default=NEVER_ASSIGNED, db_default=NEVER_ASSIGNED, editable=False)
    # Start of the notified disconnection; for a new delegate until its first connection.
    away_since = models.DateTimeField(null=True, default=timezone.now, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "name"], name="delegate_unique_in_scope"),
            models.UniqueConstraint(
                fields=["is_built_in"],
                name="delegate_one_built_in",
                condition=models.Q(is_built_in=True),
            ),
        ]
        indexes = [
            # The round-robin order of a scope. The other columns are for rules that need no row of the table.
            models.Index(
                fields=[
                    "scope",
                    "last_assigned_at",
                    "id",
                    "admission",
                    "draining",
                    "aws_account",
                    "configuration",
                ],
                name="delegate_rotation",
                condition=models.Q(archived_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **options: Any) -> None:
        """Save the delegate, and its tags as rows for routing."""
        if not includes_any(self, {"name", "tags"}, options.get("update_fields")):
            super().save(*args, **options)
            return
        with transaction.atomic(savepoint=False):
            super().save(*args, **options)
            write_tags(self)


ACCOUNT_ID_BYTES = 16


def generate_account_id() -> str:
    """Return 22 URL-safe characters; the first is a letter or digit, so that no command parses an option."""
    while (made := secrets.token_urlsafe(ACCOUNT_ID_BYTES))[0] in "-_":
        pass
    return made


class AccountId(models.Model):
    """The one account id of this installation; made once and never changed."""

    account_id = models.CharField(max_length=32, unique=True, default=generate_account_id, editable=False)

    def __str__(self) -> str:
        return self.account_id


def get_account_id() -> str:
    """Return the account id of this installation."""
    row, _ = AccountId.objects.get_or_create(pk=1)
    return row.account_id


@transaction.atomic
def create_first_rows(apps: Apps = installed_apps) -> None:
    """Create missing rows (R057); safe to run again.

    A migration passes its own `apps`, so only plain rows are created here.
    """
    account = apps.get_model("rbac", "Scope").objects.get(path="account")
    apps.get_model("delegates", "AccountId").objects.get_or_create(
        pk=1, defaults={"account_id": generate_account_id()}
    )
    primary, _ = apps.get_model("delegates", "DelegateConfiguration").objects.get_or_create(
        is_primary=True, defaults={"scope": account, "identifier": "primary", "name": "Primary"}
    )
    apps.get_model("delegates", "Delegate").objects.get_or_create(
        is_built_in=True,
        defaults={
            "scope": account,
            "name": "built-in",
            "kind": "BUILT_IN",
            "description": "The Celery workers of Slipway.",
            "tags": ["built-in"],
            "configuration": primary,
        },
    )
