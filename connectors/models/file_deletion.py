"""What was deleted from the file store and can still be had back."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from rbac.models import Scope


class FileDeletion(models.Model):
    """One deletion of a file or a folder; what went with it keeps its history and points here."""

    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"file": "path"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="file_deletions")
    path = models.CharField(max_length=1024)
    is_folder = models.BooleanField(default=False)
    at = models.DateTimeField(default=timezone.now)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        indexes = [models.Index(fields=["scope", "at"], name="file_deletion_by_age")]

    def __str__(self) -> str:
        return self.path
