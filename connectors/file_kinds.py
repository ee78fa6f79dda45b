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
    """Problem in a text; line and column count from 1, or are None if unknown."""

    message: str
    line: int | None = None
    column: int | None = None
    path: str = ""


@dataclass(frozen=True)
class FileCheck:
    """Result of a check; `note` names the detected kind."""

    errors: tuple[FileProblem, ...] = ()
    warnings: tuple[FileProblem, ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the answer that the editor reads."""
        return {
            "errors": [asdict(error) for error in self.errors],
            "warnings": [asdict(warning) for warning in self.warnings],
            "note": self.note,
        }

    def list_problems(self) -> list[dict[str, Any]]:
        """Return errors, then warnings, in the format of the editor's template."""
        errors = [{**asdict(error), "level": "error"} for error in self.errors]
        return errors + [{**asdict(warning), "level": "warning"} for warning in self.warnings]


@dataclass(frozen=True)
class CleanedFile:
    """A text after a clean up, with a sentence for each change; nothing is saved."""

    before: str
    content: str
    changes: tuple[str, ...] = ()

    @property
    def diff(self) -> TextDiff:
        """Return the line diff of the cleanup."""
        return compare_texts(self.before, self.content)

    def to_json(self) -> dict[str, Any]:
        """Return the answer that the editor reads."""
        hunks = [[asdict(line) for line in hunk] for hunk in self.diff.hunks]
        return {"content": self.content, "changes": list(self.changes), "hunks": hunks}


@dataclass(frozen=True)
class FileKind:
    """Kind of file with its validation, completion and cleanup.

    All functions return None for a text of another kind. `clean_up` also takes the actor and optionally the
    name of the file's service; it raises `BadInput`. `validate_saved` raises `BadInput` in the transaction
    that saves a file which none of its users could use.
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
    """Validate a text as the first matching kind; a text of no known kind has no problems."""
    for kind in _FILE_KINDS:
        if (check := kind.check(text)) is not None:
            return check
    return FileCheck(note="Files with this name are stored as plain text.")


def get_completion_guide(text: FileText) -> dict[str, Any]:
    """Return the completion guide of a text; empty for a text of no known kind."""
    for kind in _FILE_KINDS:
        if (guide := kind.build_guide(text)) is not None:
            return guide
    return {}


def validate_saved_file(node: FileNode, actor: User) -> None:
    """Raise `BadInput` if none of its users could use the saved file."""
    for kind in _FILE_KINDS:
        kind.validate_saved(node, actor)


def clean_up_file(text: FileText, reader: Principal, service: str = "") -> CleanedFile:
    """Clean up a text as the first matching kind. Raises `BadInput` for no known kind."""
    for kind in _FILE_KINDS:
        if (cleaned_file := kind.clean_up(text, reader, service)) is not None:
            return cleaned_file
    message = "Clean up works only for manifests, and this text has no manifest keys."
    raise BadInput(message, errors=[{"path": "content", "message": message}])


def get_editor_language(path: str) -> str:
    """Return the editor's language of a file: yaml, json or text."""
    name = path.rsplit("/", 1)[-1].lower()
    if name.endswith((".yaml", ".yml")):
        return "yaml"
    return "json" if name.endswith(".json") else "text"
