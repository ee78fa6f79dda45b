"""Files that are imported: limits, references between them, and refusals with file and line."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from catalog.manifests.documents import BadDocument, Document, parse_manifest
from guards.limits import IMPORT_BYTES, IMPORT_FILES
from guards.text import find_text_problem
from web.http.problems import BadInput

_MOST_NAME_CHARACTERS: Final = 255
_JSONNET_ENDINGS: Final = (".jsonnet", ".libsonnet")


@dataclass(frozen=True)
class ImportNotice:
    """Part of a file that the import changes or leaves out, with what to do instead."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.message}"


class ImportRefused(BadInput):
    """Files that cannot be imported; each error has file, line and message."""

    code = "import_refused"


def refuse(file: str, line: int, message: str) -> NoReturn:
    """Raise `ImportRefused` for one line of a file."""
    refuse_all([ImportNotice(file, line, message)])


def refuse_all(problems: Iterable[ImportNotice]) -> NoReturn:
    """Raise `ImportRefused` for several lines."""
    errors = [
        {"path": "files", "message": str(problem), "file": problem.file, "line": problem.line}
        for problem in problems
    ]
    raise ImportRefused("The files cannot be imported.", errors=errors)


@dataclass(frozen=True)
class SourceFile:
    """One file by its path in the imported folder."""

    name: str
    text: str


class SourceFiles:
    """The files of one project. Raises `ImportRefused` for unsafe names, too many files and too much text."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        if not texts:
            raise ImportRefused("Add the files to import.", errors=[_build_error("files are missing")])
        if len(texts) > IMPORT_FILES:
            message = f"{len(texts)} files, at most {IMPORT_FILES} are imported at once"
            raise ImportRefused("Too many files.", errors=[_build_error(message)])
        if sum(len(text.encode("utf-8", "replace")) for text in texts.values()) > IMPORT_BYTES:
            message = f"larger than {IMPORT_BYTES} in total"
            raise ImportRefused("The files are too large.", errors=[_build_error(message)])
        self._files: dict[str, SourceFile] = {}
        for name, text in texts.items():
            path = _normalize_path(name)
            if not path or path in self._files:
                message = f"{name[:100]!r} is not a path inside the imported folder, or is there twice"
                raise ImportRefused("A file has no valid name.", errors=[_build_error(message)])
            if problem := find_text_problem(text):
                refuse(path, problem.line or 1, problem.message)
            self._files[path] = SourceFile(path, text)

    def find_config(self, names: Sequence[str], marker: re.Pattern[str], tool: str) -> SourceFile:
        """Return the configuration: the file with one of the names, or else the one that has the marker."""
        matches = [file for file in self._files.values() if posixpath.basename(file.name) in names]
        matches = matches or [file for file in self._files.values() if marker.search(file.text)]
        if len(matches) == 1:
            return matches[0]
        listed = ", ".join(file.name for file in matches) or "none"
        message = f"needs one configuration of {tool}, such as {names[0]}; found: {listed}"
        raise ImportRefused("There is not one configuration.", errors=[_build_error(message)])

    def get_referenced(self, reference: Any, config: Document, *key: str) -> SourceFile:
        """Return the file that a key of the configuration names.

        A file that was uploaded without its folder is found by its name.
        """
        line = get_line(config, key)
        path = _normalize_path(posixpath.join(posixpath.dirname(config.name), reference)) if isinstance(
            reference, str
        ) else ""  # fmt: skip
        if not path:
            refuse(config.name, line, f"{'.'.join(key)} must name a file inside the imported folder")
        if path.endswith(_JSONNET_ENDINGS):
            refuse_jsonnet(path, config.name, line)
        named = [
            file for file in self._files.values() if posixpath.basename(file.name) == posixpath.basename(path)
        ]
        if path in self._files:
            return self._files[path]
        if len(named) == 1:
            return named[0]
        refuse(config.name, line, f"{'.'.join(key)} names {path}, which is not among the files: add it")


def refuse_jsonnet(path: str, file: str, line: int) -> NoReturn:
    """Refuse a Jsonnet file, with the command that renders it."""
    command = "`ecspresso render config`, `render servicedef` and `render taskdef`"
    refuse(
        file, line, f"{path} is Jsonnet, which is not evaluated: write JSON with {command}, and import that"
    )


def parse_file(file: SourceFile, text: str) -> Document:
    """Parse the text of a file, a mapping. Raises `ImportRefused`."""
    try:
        document = parse_manifest(text, file.name)
    except BadDocument as error:
        refuse(file.name, error.line, error.message)
    if not isinstance(document.value, Mapping):
        refuse(file.name, 1, "must be a mapping of keys to values")
    return document


def get_line(document: Document, path: Sequence[str | int]) -> int:
    """Return the line of a value, from 1."""
    return document.get_line(tuple(path)) or 1


def _normalize_path(name: str) -> str:
    """Return a path without . and ..; empty if it is unsafe or leaves the folder."""
    if not name or len(name) > _MOST_NAME_CHARACTERS or "\\" in name or not name.isprintable():
        return ""
    path = posixpath.normpath(name)
    return "" if path.startswith(("/", "../")) or path in (".", "..") else path


def _build_error(message: str) -> dict[str, str]:
    return {"path": "files", "message": message}
