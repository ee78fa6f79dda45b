"""Documents of resources in the files of a commit, with the faults of all files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from cli.errors import CliError, ExitCode
from cli.resources.plans import index_documents
from cli.resources.yaml_documents import DocumentError, Fault, ResourceDocument, parse_documents
from guards.limits import GIT_SYNC_DOCUMENTS, GIT_SYNC_PATH_CHARACTERS, SPEC_DEPTH, SPEC_VALUES
from guards.text import find_encoding_problem, find_name_problem, find_text_problem, sanitize_text
from rbac.models import Scope

SUFFIXES: Final = (".yaml", ".yml")
_EVENT_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class ParsedFiles:
    """Documents of all files; with faults, nothing may be applied."""

    documents: tuple[ResourceDocument, ...]
    faults: tuple[Fault, ...]


def get_scope_name(scope: Scope) -> str:
    """Return a scope as documents name it: default/demo."""
    return scope.path.removeprefix(Scope.ROOT).strip("/")


def parse_files(texts: Mapping[str, str], scope: Scope) -> ParsedFiles:
    """Return the documents of the YAML files; one that names no scope belongs to `scope`.

    A document of a scope that is not `scope` or below it is a fault. Each file has its first fault at most.
    """
    documents: list[ResourceDocument] = []
    faults: list[Fault] = []
    for path in sorted(path for path in texts if path.endswith(SUFFIXES)):
        try:
            documents += _parse_file(path, texts[path], get_scope_name(scope))
        except DocumentError as error:
            faults += error.faults
    if not faults:
        faults += list_faults_of(documents)
    return ParsedFiles(tuple(documents), tuple(faults))


def list_faults_of(documents: list[ResourceDocument]) -> list[Fault]:
    """Return the faults of all documents together."""
    if len(documents) > GIT_SYNC_DOCUMENTS:
        return [Fault(documents[-1].location.file, f"a sync can have {GIT_SYNC_DOCUMENTS}; use another one")]
    try:
        index_documents(documents)
    except CliError as error:
        return convert_error(error)
    return []


def convert_error(error: CliError, file: str = "") -> list[Fault]:
    """Return the faults of an error; one without a place belongs to `file`."""
    if isinstance(error, DocumentError):
        return error.faults
    return [Fault(file, f"{error.message} {error.next_step}".strip())]


def _parse_file(path: str, text: str, scope: str) -> list[ResourceDocument]:
    if problem := find_name_problem(path, GIT_SYNC_PATH_CHARACTERS):
        raise _build_error(
            ascii(path)[1:-1][:GIT_SYNC_PATH_CHARACTERS], f"rename this file: {problem.reason}"
        )
    _check_size(path, text)
    documents = list(parse_documents(text, path, scope))
    for document in documents:
        # The account's own name is empty, and everything is below it.
        if scope and document.scope != scope and not document.scope.startswith(f"{scope}/"):
            raise document.build_error(f"{document.scope or 'account'} is outside of {scope}", ("scope",))
    index_documents(documents)
    return documents


def _check_size(file: str, text: str) -> None:
    """Refuse what costs more than its size, before values are built. Raises `DocumentError`."""
    if problem := find_text_problem(text) or find_encoding_problem(text):
        raise _build_error(file, problem.message, problem.line or 1, problem.column or 1)
    depth = values = 0
    for event in _iterate_events(file, text):
        position = _get_position(event.start_mark)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        values += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.AliasEvent):
            raise _build_error(file, f"repeat the value in place of the alias *{event.anchor}", *position)
        if depth > SPEC_DEPTH:
            raise _build_error(file, f"a document has at most {SPEC_DEPTH}", *position)
        if values > SPEC_VALUES:
            raise _build_error(file, f"a file has at most {SPEC_VALUES}", *position)


def _iterate_events(file: str, text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_EVENT_LOADER)
    except yaml.MarkedYAMLError as error:
        position = _get_position(error.problem_mark or error.context_mark)
        raise _build_error(file, sanitize_text(error.problem or "this is not YAML"), *position) from error
    except yaml.YAMLError as error:
        raise _build_error(file, sanitize_text(str(error))) from error


def _get_position(mark: Any) -> tuple[int, int]:
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _build_error(file: str, message: str, line: int = 0, column: int = 0) -> DocumentError:
    return DocumentError([Fault(file, message, 0, line, column)], code=ExitCode.USAGE)
