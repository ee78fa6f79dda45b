"""File store: paths, references, and reading of the files they name."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from django.db.models import QuerySet
from django.db.models.functions import Left

from connectors.models import FileNode
from guards.limits import PATH_CHARACTERS, PATH_PART_CHARACTERS, SPEC_BYTES
from guards.text import find_size_problem, find_text_problem
from rbac.models import Scope
from web.http.problems import BadInput, Problem

_REFERENCE = re.compile(r"(account:|org:|)(/.*)\Z", re.DOTALL)
_PREFIX_LEVELS = {"account:": Scope.Kind.ACCOUNT, "org:": Scope.Kind.ORGANIZATION}
_PREFIXES: dict[str, str] = {kind: prefix for prefix, kind in _PREFIX_LEVELS.items()}


class FileNotInStore(Problem):
    """A reference names no file; the text names the nearest path that exists."""

    status = 404
    code = "file_missing"


@dataclass(frozen=True)
class StoredFile:
    """A file of the store: reference, text and version."""

    ref: str
    text: str
    version: int = 1


def build_reference(node: FileNode, scope: Scope) -> str:
    """Return the reference of a file from `scope`: without a prefix in the same scope."""
    return node.path if node.scope_id == scope.pk else f"{_PREFIXES.get(node.scope.kind, '')}{node.path}"


def read_files(scope: Scope, ref: str) -> list[StoredFile]:
    """Return the file with the reference `ref`, seen from `scope`, or the files of that folder (R171).

    `/a/b.yaml` is in the scope itself, `org:/…` and `account:/…` are above it (R170). Raises
    `FileNotInStore` if neither exists, or if the folder is empty.
    """
    prefix = split_reference(ref)[0]
    return [
        StoredFile(f"{prefix}{node.path}", node.content, node.version)
        for node in list_referenced_nodes(scope, ref)
    ]


def list_referenced_nodes(scope: Scope, ref: str) -> list[FileNode]:
    """Return the rows of the files that `read_files` reads. Raises `FileNotInStore` as it does."""
    owner, prefix, path = _resolve_reference(scope, ref)
    nodes = FileNode.objects.filter(scope=owner, is_folder=False).select_related("scope")
    matches = list(nodes.filter(path=path)) or list(filter_folder_contents(nodes, path).order_by("path"))
    if not matches:
        raise _build_missing_error(owner, prefix, path)
    return matches


def filter_folder_contents(nodes: QuerySet[FileNode], folder: str) -> QuerySet[FileNode]:
    """Filter by a folder at any depth ("" for the root)."""
    # Not startswith: SQLite's LIKE takes /A for /a.
    return nodes.alias(head=Left("path", len(folder) + 1)).filter(head=f"{folder}/")


def normalize_path(path: str) -> str:
    """Return the normalized path. Raises `BadInput` if it is invalid."""
    cleaned = unicodedata.normalize("NFC", path).rstrip("/")
    if message := _describe_path_problem(cleaned):
        raise BadInput(message, errors=[{"path": "path", "message": message}])
    return cleaned


def normalize_content(content: str) -> str:
    """Return the text with Unix line ends. Raises `BadInput` if it cannot be stored."""
    cleaned = content.replace("\r\n", "\n")
    if fault := find_text_problem(cleaned) or find_size_problem(cleaned, SPEC_BYTES):
        raise BadInput(
            f"A file is a text: {fault.display_message}", errors=[fault.to_json() | {"path": "content"}]
        )
    return cleaned


def list_parent_folders(path: str) -> list[str]:
    """Return the folders above a path, outermost first."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def split_reference(ref: str) -> tuple[str, str]:
    """Return the prefix and the path of a reference, both empty if it is invalid."""
    match = _REFERENCE.match(ref)
    return (match[1], match[2].rstrip("/")) if match else ("", "")


def get_owner_scope(scope: Scope, ref: str) -> Scope:
    """Return the scope of the file store that a reference in `scope` selects. Raises `FileNotInStore`."""
    return _resolve_reference(scope, ref)[0]


def is_reference_to(ref: str, scope: Scope, owner: Scope) -> bool:
    """Return whether a reference, written in `scope`, names something in the file store of `owner`."""
    prefix, path = split_reference(ref)
    if not path:
        return False
    if not prefix:
        return scope.pk == owner.pk
    return owner.kind == _PREFIX_LEVELS[prefix] and owner.path in scope.ancestor_paths()


def _resolve_reference(scope: Scope, ref: str) -> tuple[Scope, str, str]:
    """Return the scope, the prefix and the path of a reference, seen from a scope."""
    match = _REFERENCE.match(ref)
    if match is None:
        raise FileNotInStore(
            f'"{ref}" is not a file reference: use /folder/file.yaml, org:/folder/file.yaml or '
            "account:/folder/file.yaml."
        )
    prefix, path = match[1], match[2].rstrip("/")
    if not prefix:
        return scope, prefix, path
    for owner in scope.ancestors_and_self():
        if owner.kind == _PREFIX_LEVELS[prefix]:
            return owner, prefix, path
    raise FileNotInStore(f'"{ref}" is not found: {scope} is not in an organization.')


def _build_missing_error(owner: Scope, prefix: str, path: str) -> FileNotInStore:
    paths = list(FileNode.objects.filter(scope=owner, is_folder=False).values_list("path", flat=True))
    message = f'No file "{prefix}{path}" in the file store of {owner.path}.'
    if nearest := _find_nearest_path(path, paths):
        message += f' Did you mean "{prefix}{nearest}"?'
    elif same_paths := _list_same_path_above(owner, path):
        message += f' Did you mean "{same_paths[0]}"?'
    return FileNotInStore(message)


def _find_nearest_path(path: str, paths: Iterable[str]) -> str | None:
    by_folded_path = {path_in_scope.casefold(): path_in_scope for path_in_scope in paths}
    matches = get_close_matches(path.casefold(), by_folded_path, n=1, cutoff=0.6)
    if matches:
        return by_folded_path[matches[0]]
    name = path.rsplit("/", 1)[-1].casefold()
    return next(
        (candidate for folded, candidate in by_folded_path.items() if folded.rsplit("/", 1)[-1] == name), None
    )


def _list_same_path_above(owner: Scope, path: str) -> list[str]:
    above = FileNode.objects.filter(path=path, is_folder=False, scope__path__in=owner.ancestor_paths()[:-1])
    return [build_reference(node, owner) for node in above.select_related("scope")]


def _describe_path_problem(path: str) -> str:
    if not path.startswith("/") or path == "":
        return "A path starts with a slash, such as /folder/file.yaml."
    if len(path) > PATH_CHARACTERS:
        return f"A path must have at most {PATH_CHARACTERS}."
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in path):
        return "A path must not contain control characters."
    if any(
        part in ("", ".", "..") or part != part.strip() or len(part) > PATH_PART_CHARACTERS
        for part in path.split("/")[1:]
    ):
        return "Every part of a path needs a name that is not . or .., without spaces around it."
    return ""
