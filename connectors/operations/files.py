"""Saving and deleting files and folders of the file store."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from connectors.files import clean_content, clean_path, folders_of, inside
from connectors.models import FileNode
from rbac.audit import record
from rbac.models import Scope, User
from rbac.policy import require
from web.problems import ChangedMeanwhile, Conflict


def save_file(
    *, actor: User, scope: Scope, path: str, content: str, expected_version: int | None = None
) -> FileNode:
    """Create a file or replace its content, making the folders above it.

    `expected_version` is the version that the writer saw, 0 for none. Raises `ChangedMeanwhile` if it is no
    longer that one, `Conflict` if a folder has the path, `BadInput` for a bad path or content.
    """
    require(actor, "core_file_edit", scope)
    path, content = clean_path(path), clean_content(content)
    with transaction.atomic():
        _make_folders(actor, scope, path)
        node = FileNode.objects.filter(scope=scope, path=path).first()
        if node is None:
            return _create(actor, scope, path, content, expected_version)
        if node.is_folder:
            raise Conflict(f"{path} is a folder.")
        return _replace(actor, node, content, expected_version)


def create_folder(*, actor: User, scope: Scope, path: str) -> FileNode:
    """Make a folder, and those above it. Raises `Conflict` if something has the path already."""
    require(actor, "core_file_edit", scope)
    path = clean_path(path)
    with transaction.atomic():
        if FileNode.objects.filter(scope=scope, path=path).exists():
            raise Conflict(f"There is already something at {path}.")
        _make_folders(actor, scope, path)
        node = _insert(FileNode(scope=scope, path=path, is_folder=True, updated_by=actor))
        record(actor=actor, action="folder.create", thing=node, after=_shown(node))
    return node


def delete_file(*, actor: User, node: FileNode, with_content: bool = False) -> None:
    """Delete a file, or a folder: an empty one, or any `with_content`. Raises `Conflict` otherwise."""
    require(actor, "core_file_delete", node)
    with transaction.atomic():
        held_nodes = inside(FileNode.objects.filter(scope=node.scope), node.path)
        held = held_nodes.count() if node.is_folder else 0
        if held and not with_content:
            raise Conflict(f"{node.path} is not empty: {held} files and folders are in it.")
        what = "folder.delete" if node.is_folder else "file.delete"
        record(actor=actor, action=what, thing=node, before=_shown(node) | {"held": held})
        if held:
            held_nodes.delete()
        node.delete()


def _create(actor: User, scope: Scope, path: str, content: str, expected_version: int | None) -> FileNode:
    if expected_version:
        raise ChangedMeanwhile(f"{path} has been deleted meanwhile.")
    node = _insert(FileNode(scope=scope, path=path, content=content, updated_by=actor))
    record(actor=actor, action="file.create", thing=node, after=_shown(node))
    return node


def _replace(actor: User, node: FileNode, content: str, expected_version: int | None) -> FileNode:
    before = _shown(node)
    wanted = FileNode.objects.filter(pk=node.pk)
    if expected_version is not None:
        wanted = wanted.filter(version=expected_version)
    changed = wanted.update(
        content=content, version=F("version") + 1, updated_by=actor, updated_at=timezone.now()
    )
    if not changed:
        raise ChangedMeanwhile(f"{node.path} is at version {node.version} now. Load it and try again.")
    node.refresh_from_db()
    record(actor=actor, action="file.update", thing=node, before=before, after=_shown(node))
    return node


def _make_folders(actor: User, scope: Scope, path: str) -> None:
    above = folders_of(path)
    there = dict(FileNode.objects.filter(scope=scope, path__in=above).values_list("path", "is_folder"))
    for folder in above:
        if folder not in there:
            node = _insert(FileNode(scope=scope, path=folder, is_folder=True, updated_by=actor))
            record(actor=actor, action="folder.create", thing=node, after=_shown(node))
        elif not there[folder]:
            raise Conflict(f"{folder} is a file, so nothing can lie in it.")


def _insert(node: FileNode) -> FileNode:
    try:
        with transaction.atomic():
            node.save(force_insert=True)
    except IntegrityError as exc:
        raise Conflict(f"Somebody else is creating {node.path} right now. Try again.") from exc
    return node


def _shown(node: FileNode) -> dict[str, Any]:
    return {"path": node.path, "version": node.version, "bytes": node.size}
