"""Files and folders of the file store, with their versions and deletions."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from rbac.models import Scope


class FileDeletion(models.Model):
    """Deletion of a file or a folder; the deleted nodes keep their history and refer to it."""

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


class FileNodeManager(models.Manager["FileNode"]):
    """Manager of existing files; only an undo reads deleted ones."""

    def get_queryset(self) -> models.QuerySet["FileNode"]:
        return super().get_queryset().filter(deletion=None)


class AllFileNodesManager(models.Manager["FileNode"]):
    """The deleted files too."""


class FileNode(models.Model):
    """A folder or a text file of a scope; `version` rises with every change of the content."""

    RESOURCE_TYPE: ClassVar[str] = "file"
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

    objects = FileNodeManager()
    with_deleted = AllFileNodesManager()

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
        """Return the path of the file's folder, empty at the root."""
        return self.path.rsplit("/", 1)[0]

    @property
    def size(self) -> int:
        """Return the size of the content in bytes."""
        return len(self.content.encode())


class FileVersion(models.Model):
    """Immutable content of a file at one version."""

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
