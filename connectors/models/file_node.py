"""The file store: folders and files by path, in every scope."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from connectors.models.file_deletion import FileDeletion
from rbac.models import Scope


class Kept(models.Manager["FileNode"]):
    """The files that are there: not the deleted ones, which only an undo looks for."""

    def get_queryset(self) -> models.QuerySet["FileNode"]:
        return super().get_queryset().filter(deletion=None)


class Everything(models.Manager["FileNode"]):
    """The deleted files too."""


class FileNode(models.Model):
    """A folder or a text file of a scope; `version` rises with every change of the content."""

    THING_TYPE: ClassVar[str] = "file"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"file": "path"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="files")
    path = models.CharField(max_length=1024)
    is_folder = models.BooleanField(default=False)
    content = models.TextField(blank=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    deletion = models.ForeignKey(
        FileDeletion, on_delete=models.CASCADE, null=True, blank=True, related_name="nodes", editable=False
    )

    objects = Kept()
    with_deleted = Everything()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["scope", "path"],
                condition=models.Q(deletion=None),
                name="file_path_unique_in_scope",
            ),
            models.CheckConstraint(
                condition=models.Q(path__startswith="/") & ~models.Q(path__endswith="/"),
                name="file_path_is_absolute",
            ),
            models.CheckConstraint(
                condition=models.Q(is_folder=False) | models.Q(content=""), name="file_folder_has_no_content"
            ),
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def folder(self) -> str:
        """The path of the folder it lies in, empty at the top."""
        return self.path.rsplit("/", 1)[0]

    @property
    def size(self) -> int:
        """The size of the content in bytes."""
        return len(self.content.encode())
