"""Renaming and moving files and folders within their scope."""

from django.db import IntegrityError, transaction
from django.db.models import Max, Value
from django.db.models.functions import Concat, Length, Substr
from django.utils import timezone

from connectors.files import clean_path, inside
from connectors.models import FileNode
from connectors.operations.files import make_folders
from connectors.uses import refuse_used_file
from guards.limits import PATH_CHARACTERS
from rbac.audit import record
from rbac.models import User
from rbac.policy import require
from web.problems import BadInput, Conflict


def move_file(*, actor: User, node: FileNode, path: str, although_used: bool = False) -> FileNode:
    """Give a file, or a folder with all that is in it, another path in the same scope; the history stays.

    Raises `BadInput` for a path that is none, `Conflict` if something has it already, `StillUsed` while
    something refers to the old one, unless that is accepted by `although_used`.
    """
    require(actor, "core_file_edit", node)
    old, path = node.path, clean_path(path)
    if path == old:
        return node
    if path.startswith(f"{old}/"):
        raise _bad_path("A folder cannot be moved into itself." if node.is_folder else f"{old} is no folder.")
    with transaction.atomic():
        if FileNode.objects.filter(scope=node.scope, path=path).exists():
            raise Conflict(f"There is already something at {path}.")
        if not although_used:
            refuse_used_file(node, actor)
        _check_lengths(node, path)
        make_folders(actor, node.scope, path)
        _move(actor, node, path)
        what = "folder.move" if node.is_folder else "file.move"
        record(actor=actor, action=what, thing=node, before={"path": old}, after={"path": path})
    return node


def _move(actor: User, node: FileNode, path: str) -> None:
    old = node.path
    if node.is_folder:
        tail = Substr("path", len(old) + 1)
        held = inside(FileNode.objects.filter(scope=node.scope), old)
        held.update(path=Concat(Value(path), tail), updated_at=timezone.now())
    node.path, node.updated_by = path, actor
    try:
        with transaction.atomic():
            node.save(update_fields=["path", "updated_by", "updated_at"])
    except IntegrityError as exc:
        raise Conflict(f"Somebody else is creating {path} right now. Try again.") from exc


def _check_lengths(node: FileNode, path: str) -> None:
    held = inside(FileNode.objects.filter(scope=node.scope), node.path)
    longest = held.aggregate(longest=Max(Length("path")))["longest"] or 0
    if longest - len(node.path) + len(path) > PATH_CHARACTERS:
        raise _bad_path(f"What lies in it would get a path of more than {PATH_CHARACTERS}.")


def _bad_path(message: str) -> BadInput:
    return BadInput(message, errors=[{"path": "path", "message": message}])
