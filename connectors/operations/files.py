"""Saving and restoring files and folders of the file store."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from connectors.file_checks import refuse_saved
from connectors.files import clean_content, clean_path, folders_of
from connectors.models import FileNode, FileVersion
from rbac.audit import record
from rbac.models import Scope, User
from rbac.policy import NotVisible, require
from web.problems import BadInput, ChangedMeanwhile, Conflict

LONGEST_NOTE = 200


def save_file(
    *,
    actor: User,
    scope: Scope,
    path: str,
    content: str,
    expected_version: int | None = None,
    note: str = "",
) -> FileNode:
    """Create a file or replace its content, making the folders above it; the version is kept for ever.

    `expected_version` is the version that the writer saw, 0 for none. Raises `ChangedMeanwhile` if it is no
    longer that one, `Conflict` if a folder has the path, `BadInput` for a bad path, content or note.
    """
    require(actor, "core_file_edit", scope)
    path, content, note = clean_path(path), clean_content(content), _clean_note(note)
    with transaction.atomic():
        make_folders(actor, scope, path)
        node = FileNode.objects.filter(scope=scope, path=path).first()
        if node is None:
            return _create(actor, scope, path, content, expected_version, note)
        if node.is_folder:
            raise Conflict(f"{path} is a folder.")
        return _replace(actor, node, content, expected_version, note)


def restore_file(*, actor: User, node: FileNode, version: int) -> FileNode:
    """Save what a file held at an earlier version as its newest one. Raises `NotVisible` for none."""
    require(actor, "core_file_edit", node)
    earlier = FileVersion.objects.filter(node=node, version=version).first()
    if earlier is None:
        raise NotVisible(f"{node.path} has no version {version}.")
    with transaction.atomic():
        return _replace(actor, node, earlier.content, None, f"Version {version} restored")


def create_folder(*, actor: User, scope: Scope, path: str) -> FileNode:
    """Make a folder, and those above it. Raises `Conflict` if something has the path already."""
    require(actor, "core_file_edit", scope)
    path = clean_path(path)
    with transaction.atomic():
        if FileNode.objects.filter(scope=scope, path=path).exists():
            raise Conflict(f"There is already something at {path}.")
        make_folders(actor, scope, path)
        node = _insert(FileNode(scope=scope, path=path, is_folder=True, updated_by=actor))
        record(actor=actor, action="folder.create", thing=node, after=shown(node))
    return node


def make_folders(actor: User, scope: Scope, path: str) -> None:
    """Make the folders above a path that are not there. Raises `Conflict` if one of them is a file."""
    above = folders_of(path)
    there = dict(FileNode.objects.filter(scope=scope, path__in=above).values_list("path", "is_folder"))
    for folder in above:
        if folder not in there:
            node = _insert(FileNode(scope=scope, path=folder, is_folder=True, updated_by=actor))
            record(actor=actor, action="folder.create", thing=node, after=shown(node))
        elif not there[folder]:
            raise Conflict(f"{folder} is a file, so nothing can lie in it.")


def shown(node: FileNode) -> dict[str, Any]:
    """What the audit trail keeps of a file; never its content."""
    return {"path": node.path, "version": node.version, "bytes": node.size}


def _create(
    actor: User, scope: Scope, path: str, content: str, expected_version: int | None, note: str
) -> FileNode:
    if expected_version:
        raise ChangedMeanwhile(f"{path} has been deleted or renamed meanwhile.")
    node = _insert(FileNode(scope=scope, path=path, content=content, updated_by=actor))
    _keep(actor, node, note)
    refuse_saved(node, actor)
    record(actor=actor, action="file.create", thing=node, after=shown(node))
    return node


def _replace(actor: User, node: FileNode, content: str, expected_version: int | None, note: str) -> FileNode:
    before = shown(node)
    wanted = FileNode.objects.filter(pk=node.pk)
    if expected_version is not None:
        wanted = wanted.filter(version=expected_version)
    changed = wanted.update(
        content=content, version=F("version") + 1, updated_by=actor, updated_at=timezone.now()
    )
    if not changed:
        raise ChangedMeanwhile(f"{node.path} is at version {node.version} now. Load it and try again.")
    node.refresh_from_db()
    _keep(actor, node, note)
    refuse_saved(node, actor)
    record(actor=actor, action="file.update", thing=node, before=before, after=shown(node) | {"note": note})
    return node


def _keep(actor: User, node: FileNode, note: str) -> None:
    FileVersion.objects.create(
        node=node, version=node.version, content=node.content, note=note, by=actor, at=node.updated_at
    )


def _clean_note(note: str) -> str:
    cleaned = " ".join(note.split())
    if len(cleaned) > LONGEST_NOTE or not cleaned.isprintable():
        message = f"A note has {LONGEST_NOTE} printable characters at most."
        raise BadInput(message, errors=[{"path": "note", "message": message}])
    return cleaned


def _insert(node: FileNode) -> FileNode:
    try:
        with transaction.atomic():
            node.save(force_insert=True)
    except IntegrityError as exc:
        raise Conflict(f"Somebody else is creating {node.path} right now. Try again.") from exc
    return node
