"""Registry of file kinds: checks, completion and clean-up of file contents."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.models import FileNode
from rbac.models import Scope, User
from rbac.policy import Principal
from web.http.problems import BadInput
from web.text_diffs import TextDiff, compare_texts


@dataclass(frozen=True)
class FileText:
    """A text that is, or may become, the content of a file."""

    scope: Scope
    path: str
    content: str


@dataclass(frozen=True)
class FileProblem:
    """One thing wrong with a text; line and column count from 1, None where they are not known."""

    message: str
    line: int | None = None
    column: int | None = None
    path: str = ""


@dataclass(frozen=True)
class FileCheck:
    """What came of a check; `note` says as what the text was checked."""

    errors: tuple[FileProblem, ...] = ()
    warnings: tuple[FileProblem, ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the answer that the editor reads."""
        return {
            "errors": [asdict(one) for one in self.errors],
            "warnings": [asdict(one) for one in self.warnings],
            "note": self.note,
        }

    def list_problems(self) -> list[dict[str, Any]]:
        """Errors, then warnings, as the editor's template lists them."""
        errors = [{**asdict(one), "level": "error"} for one in self.errors]
        return errors + [{**asdict(one), "level": "warning"} for one in self.warnings]


@dataclass(frozen=True)
class CleanedFile:
    """A text after a clean up, with a sentence for each change; nothing is saved."""

    before: str
    content: str
    changes: tuple[str, ...] = ()

    @property
    def diff(self) -> TextDiff:
        """What the clean up changes, line by line."""
        return compare_texts(self.before, self.content)

    def to_json(self) -> dict[str, Any]:
        """Return the answer that the editor reads."""
        hunks = [[asdict(line) for line in hunk] for hunk in self.diff.hunks]
        return {"content": self.content, "changes": list(self.changes), "hunks": hunks}


@dataclass(frozen=True)
class FileKind:
    """A kind of file that an app knows: how it is checked, what may be written in it, how it is cleaned up.

    All functions answer None for a text that is not of this kind. `clean` also takes who
    asks and the name of the service that the file is for, or nothing; it raises `BadInput`. So does `refuse`,
    inside the transaction that has saved a file, where nothing that uses the file could work with it.
    """

    check: Callable[[FileText], FileCheck | None]
    build_guide: Callable[[FileText], dict[str, Any] | None] = field(default=lambda _text: None)
    validate_saved: Callable[[FileNode, User], None] = field(default=lambda *_: None)
    clean_up: Callable[[FileText, Principal, str], CleanedFile | None] = field(default=lambda *_: None)


_FILE_KINDS: list[FileKind] = []


def register_file_kind(kind: FileKind) -> FileKind:
    """Enter a kind of file."""
    _FILE_KINDS.append(kind)
    return kind


def check_file(text: FileText) -> FileCheck:
    """Check a text as the first kind that it is of; nothing is wrong with one of no known kind."""
    for kind in _FILE_KINDS:
        if (found := kind.check(text)) is not None:
            return found
    return FileCheck(note="Files with this name are stored as plain text.")


def get_completion_guide(text: FileText) -> dict[str, Any]:
    """What the editor may suggest in a text; empty for one of no known kind."""
    for kind in _FILE_KINDS:
        if (found := kind.build_guide(text)) is not None:
            return found
    return {}


def validate_saved_file(node: FileNode, actor: User) -> None:
    """Raise `BadInput` where what uses a file, as it has just been saved, could never work with it."""
    for kind in _FILE_KINDS:
        kind.validate_saved(node, actor)


def clean_up_file(text: FileText, reader: Principal, service: str = "") -> CleanedFile:
    """Clean a text up as the first kind that it is of. Raises `BadInput` for one of no known kind."""
    for kind in _FILE_KINDS:
        if (found := kind.clean_up(text, reader, service)) is not None:
            return found
    message = "Clean up works only for manifests, and this text has no manifest keys."
    raise BadInput(message, errors=[{"path": "content", "message": message}])


def get_editor_language(path: str) -> str:
    """What the editor calls the language of a file: yaml, json or text."""
    name = path.rsplit("/", 1)[-1].lower()
    if name.endswith((".yaml", ".yml")):
        return "yaml"
    return "json" if name.endswith(".json") else "text"
