"""The history of a file: what it held at each version."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from connectors.models.file_node import FileNode
from rbac.models import Scope


class FileVersion(models.Model):
    """What a file held at one version; written with every save and never changed."""

    SCOPE_PATH = "node__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"file": "node__path"}

    node = models.ForeignKey(FileNode, on_delete=models.CASCADE, related_name="versions")
    version = models.PositiveIntegerField()
    content = models.TextField(blank=True)
    note = models.CharField(max_length=200, blank=True)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "version"], name="file_version_unique_in_file")
        ]

    def __str__(self) -> str:
        return f"{self.node} version {self.version}"

    @property
    def scope(self) -> Scope:
        return self.node.scope
