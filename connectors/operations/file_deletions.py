"""Operations on deleted files: delete, restore, purge."""

from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from connectors.file_store import filter_folder_contents
from connectors.models import FileDeletion, FileNode
from connectors.operations.files import (
    build_audit_values,
    create_parent_folders,
    lock_node,
    require_for_all,
)
from connectors.usages import require_unused_file
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import NotVisible, require
from web.http.problems import Conflict

DELETED_FILE_DAYS = 30


def delete_file(
    *, actor: User, node: FileNode, with_content: bool = False, although_used: bool = False
) -> FileDeletion:
    """Delete a file with its history, or a folder: an empty one, or any `with_content`.

    It can be restored for 30 days. Raises `Conflict` for a folder with content, and `ResourceInUse` for a
    used file, unless `although_used`. Raises `NotVisible` or `Conflict` for one that was deleted or moved
    meanwhile. The content needs the permission too.
    """
    require(actor, "core_file_delete", node)
    with transaction.atomic():
        lock_node(node)
        contents = filter_folder_contents(FileNode.objects.filter(scope=node.scope), node.path)
        content_count = contents.count() if node.is_folder else 0
        if content_count and not with_content:
            raise Conflict(f"{node.path} is not empty: it contains {content_count} files and folders.")
        if content_count:
            require_for_all(actor, "core_file_delete", contents)
        if not although_used:
            require_unused_file(node, actor)
        action = "folder.delete" if node.is_folder else "file.delete"
        record_audit_entry(
            actor=actor, action=action, thing=node, before=build_audit_values(node) | {"held": content_count}
        )
        deletion = FileDeletion.objects.create(
            scope=node.scope, path=node.path, is_folder=node.is_folder, by=actor
        )
        _filter_with_contents(FileNode.objects.filter(scope=node.scope), node).update(deletion=deletion)
        _purge_expired(node.scope)
    return deletion


def undelete_files(*, actor: User, deletion: FileDeletion) -> FileNode:
    """Restore the nodes of a deletion, and return the deleted file or folder.

    Raises `Conflict` if one of the paths is in use again, `NotVisible` if somebody else restored or purged
    them meanwhile.
    """
    require(actor, "core_file_edit", deletion)
    deleted = FileNode.with_deleted.filter(deletion=deletion)
    require_for_all(actor, "core_file_edit", deleted)
    with transaction.atomic():
        _lock_deletion(deletion)
        paths = list(deleted.values_list("path", flat=True))
        existing = FileNode.objects.filter(scope=deletion.scope, path__in=paths).order_by("path").first()
        if existing is not None:
            raise Conflict(f"There is another file at {existing.path}. Move it first.")
        create_parent_folders(actor, deletion.scope, deletion.path)
        _restore_nodes(deleted, deletion)
        node = FileNode.objects.get(scope=deletion.scope, path=deletion.path)
        record_audit_entry(
            actor=actor,
            action="file.undelete",
            thing=node,
            after=build_audit_values(node) | {"files": len(paths)},
        )
        deletion.delete()
    return node


def purge_deletion(*, actor: User, deletion: FileDeletion) -> None:
    """Delete the nodes of a deletion permanently. Raises `NotVisible` if they were restored meanwhile."""
    require(actor, "core_file_delete", deletion)
    require_for_all(actor, "core_file_delete", FileNode.with_deleted.filter(deletion=deletion))
    with transaction.atomic():
        _lock_deletion(deletion)
        record_audit_entry(actor=actor, action="file.forget", thing=deletion, before={"path": deletion.path})
        _purge(FileDeletion.objects.filter(pk=deletion.pk))


def _lock_deletion(deletion: FileDeletion) -> None:
    """Lock a deletion until the transaction ends. Raises `NotVisible` if it was undone or purged."""
    if FileDeletion.objects.select_for_update().filter(pk=deletion.pk).first() is None:
        raise NotVisible(f"Somebody restored {deletion.path} meanwhile, or deleted it permanently.")


def _filter_with_contents(nodes: QuerySet[FileNode], node: FileNode) -> QuerySet[FileNode]:
    contents = filter_folder_contents(nodes, node.path).values("pk") if node.is_folder else []
    return nodes.filter(Q(pk=node.pk) | Q(pk__in=contents))


def _restore_nodes(deleted: QuerySet[FileNode], deletion: FileDeletion) -> None:
    try:
        with transaction.atomic():
            deleted.update(deletion=None)
    except IntegrityError as exc:
        raise Conflict(f"Someone else is creating {deletion.path} right now. Try again.") from exc


def _purge_expired(scope: Scope) -> None:
    _purge(
        FileDeletion.objects.filter(scope=scope, at__lt=timezone.now() - timedelta(days=DELETED_FILE_DAYS))
    )


def _purge(deletions: QuerySet[FileDeletion]) -> None:
    FileNode.with_deleted.filter(deletion__in=deletions).delete()
    deletions.delete()
