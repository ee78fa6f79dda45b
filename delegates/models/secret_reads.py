"""Reads of secrets in secret managers through delegates."""

from typing import ClassVar

from django.db import models

from connectors.models import Secret
from delegates.models.tasks import DelegateTask
from rbac.encrypted_fields import EncryptedTextField


class SecretRead(models.Model):
    """The open read of a secret through a delegate, and the outcome of the last one.

    `value` is encrypted and erased after a minute: it is the way from the process that an agent answers to
    the processes that need the value, which keep it in memory only. `answers` is a JSON list of the responses
    so far to the calls of the open read.
    """

    SCOPE_PATH: ClassVar[str] = "secret__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"secret": "secret__identifier"}

    secret = models.OneToOneField(Secret, on_delete=models.CASCADE, related_name="+")
    # The `updated_at` of the secret that is read; what was read of an earlier one is not used.
    source_at = models.DateTimeField()
    is_open = models.BooleanField(default=False)
    # Purpose of the read.
    reader = models.CharField(max_length=255, blank=True, default="")
    requested_at = models.DateTimeField()
    # The current delegate task.
    task = models.ForeignKey(DelegateTask, on_delete=models.SET_NULL, null=True, related_name="+")
    answers = EncryptedTextField(bound_to=["secret_id"], blank=True, default="[]")
    value = EncryptedTextField(bound_to=["secret_id"], blank=True, default="")
    value_at = models.DateTimeField(null=True)
    # Why the last read failed, and whether no delegate had answered, so that another attempt may succeed.
    problem = models.TextField(blank=True, default="")
    problem_at = models.DateTimeField(null=True)
    is_unanswered = models.BooleanField(default=False)

    class Meta:
        indexes = [
            # For erasing.
            models.Index(
                fields=["value_at"], name="secret_read_value", condition=models.Q(value_at__isnull=False)
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(value="", value_at__isnull=True)
                | ~models.Q(value="") & models.Q(value_at__isnull=False),
                name="secret_read_value_has_moment",
            )
        ]

    def __str__(self) -> str:
        return f"Read of {self.secret}"
