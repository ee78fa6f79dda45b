"""What is wrong with the text of a file: apps above this one know kinds of files and enter them here."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from rbac.models import Scope


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
        """The answer that the editor reads."""
        return {
            "errors": [asdict(one) for one in self.errors],
            "warnings": [asdict(one) for one in self.warnings],
            "note": self.note,
        }

    def listed(self) -> list[dict[str, Any]]:
        """Errors, then warnings, as the editor's template lists them."""
        errors = [{**asdict(one), "level": "error"} for one in self.errors]
        return errors + [{**asdict(one), "level": "warning"} for one in self.warnings]


@dataclass(frozen=True)
class FileKind:
    """A kind of file that an app knows: how it is checked, and what may be written in it.

    Both functions answer None for a text that is not of this kind.
    """

    check: Callable[[FileText], FileCheck | None]
    guide: Callable[[FileText], dict[str, Any] | None] = field(default=lambda _text: None)


_kinds: list[FileKind] = []


def file_kind(kind: FileKind) -> FileKind:
    """Enter a kind of file."""
    _kinds.append(kind)
    return kind


def check_file(text: FileText) -> FileCheck:
    """Check a text as the first kind that it is of; nothing is wrong with one of no known kind."""
    for kind in _kinds:
        if (found := kind.check(text)) is not None:
            return found
    return FileCheck(note="Files of this name are kept as plain text.")


def guide_for(text: FileText) -> dict[str, Any]:
    """What the editor may suggest in a text; empty for one of no known kind."""
    for kind in _kinds:
        if (found := kind.guide(text)) is not None:
            return found
    return {}


def language_of(path: str) -> str:
    """What the editor calls the language of a file: yaml, json or text."""
    name = path.rsplit("/", 1)[-1].lower()
    if name.endswith((".yaml", ".yml")):
        return "yaml"
    return "json" if name.endswith(".json") else "text"
