"""Delegates: named agents, each with any number of running instances."""

from typing import ClassVar

from django.db import models
from django.utils import timezone

from delegates.models.token import DelegateToken
from rbac.models import Scope, User
from rbac.models.named import Named


class Delegate(Named):
    """A delegate of a scope: (scope, name) is its identity, whatever runs behind it (R023–R029, T05)."""

    BUILT_IN = "built-in"

    class Kind(models.TextChoices):
        """Where its instances run."""

        ECS = "ECS", "ECS"
        DOCKER = "DOCKER", "Docker"
        KUBERNETES = "KUBERNETES", "Kubernetes"
        SHELL_SCRIPT = "SHELL_SCRIPT", "Shell script"
        BUILT_IN = "BUILT_IN", "Built in"

    class Admission(models.TextChoices):
        """Whether it may work, as people decided."""

        ENABLED = "ENABLED", "Enabled"
        PENDING_APPROVAL = "PENDING_APPROVAL", "Waits for approval"
        REJECTED = "REJECTED", "Rejected"
        DISABLED = "DISABLED", "Disabled"

    THING_TYPE: ClassVar[str] = "delegate"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegate": "name"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="delegates")
    name = models.CharField(max_length=128)
    description = models.TextField(blank=True, default="")
    kind = models.CharField(max_length=16, choices=Kind, default=Kind.ECS)
    flavour = models.CharField(max_length=8, blank=True, default="")
    size = models.CharField(max_length=32, blank=True, default="")
    # Set by people; what agents say of themselves is on their instances.
    tags = models.JSONField(default=list, blank=True)
    configuration = models.ForeignKey(
        "DelegateConfiguration", on_delete=models.PROTECT, null=True, blank=True, related_name="delegates"
    )
    token = models.ForeignKey(
        DelegateToken, on_delete=models.SET_NULL, null=True, blank=True, related_name="delegates"
    )
    admission = models.CharField(max_length=16, choices=Admission, default=Admission.ENABLED)
    draining = models.BooleanField(default=False)
    # Whether an instance that isolates nothing may run scripts of several projects all the same.
    shares_scripts = models.BooleanField(default=False)
    is_built_in = models.BooleanField(default=False, editable=False)
    # What the wizard was told, without secrets.
    spec = models.JSONField(default=dict, blank=True)
    aws_account = models.CharField(max_length=12, blank=True, default="")
    # Since when nobody hears it, as far as that was told; of a new one, until it is heard first.
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

    def __str__(self) -> str:
        return self.name
