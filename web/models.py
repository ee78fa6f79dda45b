"""Drafts of forms, answers by idempotency key, and the epoch of the installation."""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from rbac.encrypted_fields import EncryptedTextField


class FormDraft(models.Model):
    """Entered values of a form while its user creates a resource that the form needs.

    `content` is a JSON document, encrypted because variables and manifests can hold secrets.
    """

    RESOURCE_PATHS: ClassVar[dict[str, str]] = {}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    # What is created, such as connector.
    noun = models.CharField(max_length=32)
    content = EncryptedTextField(bound_to=["id", "user_id"], editable=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["user", "created_at"], name="form_draft_of_user")]

    def __str__(self) -> str:
        return f"{self.noun} for {self.user_id}"


class InstallationEpoch(models.Model):
    """Single row: the history of the installation that this database holds, and how far it has come.

    A restore begins a new `history` after the `previous_history`. Within one, `number` only grows: an older
    state of the database has a lower one. `restored_from` is the moment of the state that was brought back.
    """

    history = models.UUIDField(default=uuid.uuid4)
    previous_history = models.UUIDField(null=True)
    number = models.PositiveBigIntegerField(default=0)
    advanced_at = models.DateTimeField()
    restored_at = models.DateTimeField(null=True)
    restored_from = models.DateTimeField(null=True)
    # Nobody reported the restore: Valkey remembered a later state.
    was_detected = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.history} at {self.number}"


class IdempotentRequest(models.Model):
    """Request of the REST API that created something, with its answer for repeated requests.

    `caller` is the API key or the user. `content` is a JSON document, encrypted because answers can hold what
    only the caller may see; it is empty until the request has ended.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    caller = models.CharField(max_length=64)
    method = models.CharField(max_length=8)
    path = models.CharField(max_length=400)
    key = models.CharField(max_length=128)
    content = EncryptedTextField(bound_to=["id", "user_id"], editable=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["caller", "key", "method", "path"], name="idempotent_request_unique"
            )
        ]
        indexes = [models.Index(fields=["created_at"], name="idempotent_request_age")]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"
