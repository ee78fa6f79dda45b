"""Operations on files and folders: save, restore, create, move."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Max, QuerySet, Value
from django.db.models.functions import Concat, Length, Substr
from django.utils import timezone

from connectors.file_kinds import validate_saved_file
from connectors.file_store import (
    filter_folder_contents,
    list_parent_folders,
    normalize_content,
    normalize_path,
)
from connectors.models import FileNode, FileVersion
from connectors.usages import require_unused_file
from guards.limits import PATH_CHARACTERS
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.operations.row_locks import lock_row
from rbac.policy import Forbidden, NotVisible, can, filter_visible, require
from web.http.problems import BadInput, Conflict, VersionConflict

NOTE_CHARACTERS = 200


class FileExists(VersionConflict):
    """A new file would replace another one with its path."""

    status = 409
    code = "conflict"


def save_file(
    *,
    actor: User,
    scope: Scope,
    path: str,
    content: str,
    expected_version: int | None = None,
    note: str = "",
) -> FileNode:
    """Create a file or replace its content, with its folders; every version is stored.

    `expected_version` is the version that the user saw, 0 for none. Raises `VersionConflict` for another
    version, `FileExists` for any version if they saw none, `Conflict` for a folder with the path, `BadInput`
    for an invalid path, content or note.
    """
    path, content, note = normalize_path(path), normalize_content(content), _normalize_note(note)
    with transaction.atomic():
        node = FileNode.objects.filter(scope=scope, path=path).first()
        require(actor, "core_file_edit", node or scope)
        if node is None:
            create_parent_folders(actor, scope, path)
            return _create_file(actor, scope, path, content, expected_version, note)
        if node.is_folder:
            raise Conflict(f"{path} is a folder.")
        if expected_version == 0:
            raise FileExists(f"A file {path} already exists.")
        return _replace_content(actor, node, content, expected_version, note)


def restore_file(*, actor: User, node: FileNode, version: int) -> FileNode:
    """Restore the content of an earlier version as the newest one. Raises `NotVisible` if it is missing."""
    require(actor, "core_file_edit", node)
    earlier = FileVersion.objects.filter(node=node, version=version).first()
    if earlier is None:
        raise NotVisible(f"{node.path} has no version {version}.")
    with transaction.atomic():
        return _replace_content(actor, node, earlier.content, None, f"Version {version} restored")


def create_folder(*, actor: User, scope: Scope, path: str) -> FileNode:
    """Create a folder with its parents. Raises `Conflict` if the path is in use."""
    require(actor, "core_file_edit", scope)
    path = normalize_path(path)
    with transaction.atomic():
        if FileNode.objects.filter(scope=scope, path=path).exists():
            raise Conflict(f"A file or folder {path} already exists.")
        create_parent_folders(actor, scope, path)
        node = _insert_node(FileNode(scope=scope, path=path, is_folder=True, updated_by=actor))
        record_audit_entry(actor=actor, action="folder.create", thing=node, after=build_audit_values(node))
    return node


def create_parent_folders(actor: User, scope: Scope, path: str) -> None:
    """Create the missing folders of a path. Raises `Conflict` if one of them is a file."""
    above = list_parent_folders(path)
    is_folder_by_path = dict(
        FileNode.objects.filter(scope=scope, path__in=above).values_list("path", "is_folder")
    )
    for folder in above:
        if folder not in is_folder_by_path:
            node = _insert_node(FileNode(scope=scope, path=folder, is_folder=True, updated_by=actor))
            record_audit_entry(
                actor=actor, action="folder.create", thing=node, after=build_audit_values(node)
            )
        elif not is_folder_by_path[folder]:
            raise Conflict(f"{folder} is a file, so it cannot contain files.")


def lock_node(node: FileNode) -> None:
    """Lock a file or folder until the transaction ends.

    Raises `NotVisible` if it was deleted meanwhile, `Conflict` if it was moved.
    """
    if lock_row(node).path != node.path:
        raise Conflict(f"Somebody moved {node.path} meanwhile. Reload the page.")


def require_for_all(actor: User, permission: str, nodes: QuerySet[FileNode]) -> None:
    """Check the permission on each of these files and folders. Raises `Forbidden`."""
    if filter_visible(actor, permission, nodes).count() != nodes.count():
        raise Forbidden(permission)


def build_audit_values(node: FileNode) -> dict[str, Any]:
    """Return the audited values of a file; never its content."""
    return {"path": node.path, "version": node.version, "bytes": node.size}


def _create_file(
    actor: User, scope: Scope, path: str, content: str, expected_version: int | None, note: str
) -> FileNode:
    if expected_version:
        raise VersionConflict(f"{path} was deleted or renamed in the meantime. Reload the page.")
    node = _insert_node(FileNode(scope=scope, path=path, content=content, updated_by=actor))
    _save_version(actor, node, note)
    validate_saved_file(node, actor)
    record_audit_entry(actor=actor, action="file.create", thing=node, after=build_audit_values(node))
    return node


def _replace_content(
    actor: User, node: FileNode, content: str, expected_version: int | None, note: str
) -> FileNode:
    before = build_audit_values(node)
    current = FileNode.objects.filter(pk=node.pk)
    if expected_version is not None:
        current = current.filter(version=expected_version)
    changed = current.update(
        content=content, version=F("version") + 1, updated_by=actor, updated_at=timezone.now()
    )
    if not changed:
        raise VersionConflict(f"{node.path} is at version {node.version} now. Load it and try again.")
    node.refresh_from_db()
    _save_version(actor, node, note)
    validate_saved_file(node, actor)
    record_audit_entry(
        actor=actor,
        action="file.update",
        thing=node,
        before=before,
        after=build_audit_values(node) | {"note": note},
    )
    return node


def _save_version(actor: User, node: FileNode, note: str) -> None:
    FileVersion.objects.create(
        node=node, version=node.version, content=node.content, note=note, by=actor, at=node.updated_at
    )


def _normalize_note(note: str) -> str:
    cleaned = " ".join(note.split())
    if len(cleaned) > NOTE_CHARACTERS or not cleaned.isprintable():
        message = f"A note has {NOTE_CHARACTERS} printable characters at most."
        raise BadInput(message, errors=[{"path": "note", "message": message}])
    return cleaned


def _insert_node(node: FileNode) -> FileNode:
    try:
        with transaction.atomic():
            node.save(force_insert=True)
    except IntegrityError as exc:
        raise Conflict(f"Someone else is creating {node.path} right now. Try again.") from exc
    return node


def move_file(*, actor: User, node: FileNode, path: str, although_used: bool = False) -> FileNode:
    """Move a file, or a folder with its content, to another path in the same scope, with its history.

    Raises `BadInput` for an invalid path, `Conflict` for a used path or a file that was moved meanwhile.
    Raises `ResourceInUse` if the old path is referenced, unless `although_used`. The scope needs the
    permission too: the content and the new path are not the node's own.
    """
    require(actor, "core_file_edit", node)
    old, path = node.path, normalize_path(path)
    if path == old:
        return node
    if path.startswith(f"{old}/"):
        raise _build_path_error(
            "A folder cannot be moved into itself." if node.is_folder else f"{old} is not a folder."
        )
    if not can(actor, "core_file_edit", node.scope):
        raise Forbidden("core_file_edit")
    with transaction.atomic():
        lock_node(node)
        if FileNode.objects.filter(scope=node.scope, path=path).exists():
            raise Conflict(f"A file or folder {path} already exists.")
        if not although_used:
            require_unused_file(node, actor)
        _validate_path_lengths(node, path)
        create_parent_folders(actor, node.scope, path)
        _move_node(actor, node, path)
        action = "folder.move" if node.is_folder else "file.move"
        record_audit_entry(actor=actor, action=action, thing=node, before={"path": old}, after={"path": path})
    return node


def _move_node(actor: User, node: FileNode, path: str) -> None:
    old = node.path
    if node.is_folder:
        tail = Substr("path", len(old) + 1)
        contents = filter_folder_contents(FileNode.objects.filter(scope=node.scope), old)
        contents.update(path=Concat(Value(path), tail), updated_at=timezone.now())
    node.path, node.updated_by = path, actor
    try:
        with transaction.atomic():
            node.save(update_fields=["path", "updated_by", "updated_at"])
    except IntegrityError as exc:
        raise Conflict(f"Someone else is creating {path} right now. Try again.") from exc


def _validate_path_lengths(node: FileNode, path: str) -> None:
    contents = filter_folder_contents(FileNode.objects.filter(scope=node.scope), node.path)
    longest = contents.aggregate(longest=Max(Length("path")))["longest"] or 0
    if longest - len(node.path) + len(path) > PATH_CHARACTERS:
        raise _build_path_error(f"A file in it would get a path of more than {PATH_CHARACTERS}.")


def _build_path_error(message: str) -> BadInput:
    return BadInput(message, errors=[{"path": "path", "message": message}])
