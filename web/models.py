"""Drafts of forms."""

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
