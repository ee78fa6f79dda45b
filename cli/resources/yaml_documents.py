"""YAML documents of resources: loading with line numbers, and writing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from cli.errors import CliError, ExitCode
from cli.text import clean_line

_KEYS: Final = ("kind", "scope", "identifier", "spec")
_SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True)
class Fault:
    """Fault of a file; document, line and column are numbers from 1, and 0 without a place."""

    file: str
    message: str
    document: int = 0
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        document = f", document {self.document}" if self.document else ""
        line = f", line {self.line}" if self.line else ""
        return f"{self.file}{document}{line}: {self.message}"


class DocumentError(CliError):
    """Error raised for files that are not valid, or whose content the server refused."""

    def __init__(self, faults: Sequence[Fault], *, next_step: str = "", code: ExitCode) -> None:
        super().__init__("\n".join(map(str, faults)), next_step=next_step, code=code)
        self.faults = list(faults)


@dataclass(frozen=True)
class Location:
    """Place of a document: its file, its number in the file from 1, and its node."""

    file: str
    number: int
    node: yaml.Node

    def describe(self) -> str:
        """Return file, document and line."""
        return f"{self.file}, document {self.number}, line {self.find_position(())[0]}"

    def build_fault(self, message: str, path: Sequence[str] = ()) -> Fault:
        """Return a fault at a value, or at the nearest part that contains it."""
        return Fault(self.file, message, self.number, *self.find_position(path))

    def find_position(self, path: Sequence[str]) -> tuple[int, int]:
        """Return line and column of the value at `path`, or of the nearest part that contains it."""
        node, mark = self.node, self.node.start_mark
        for depth, part in enumerate(path):
            child = _find_child(node, part)
            if child is None:
                break
            key, node = child
            mark = key.start_mark
            if isinstance(node, yaml.ScalarNode) and node.style == "|":
                # A document inside the document, whose first line follows that of the key.
                return mark.line + 1 + _find_inner_line(node.value, path[depth + 1 :]), mark.column + 1
        return mark.line + 1, mark.column + 1


@dataclass(frozen=True)
class ResourceDocument:
    """Desired state of one resource."""

    kind: str
    scope: str
    identifier: str
    spec: dict[str, Any]
    location: Location

    def build_error(self, message: str, path: Sequence[str] = ()) -> DocumentError:
        """Return an error at a value of this document."""
        return DocumentError([self.location.build_fault(message, path)], code=ExitCode.USAGE)


class _Loader(yaml.SafeLoader):
    """Loader as of YAML 1.2: dates and yes/no are texts, duplicate keys are errors."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a text", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key} is there twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:merge")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_BOOLEAN: Final = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOLEAN, list("tTfF"))


class _Dumper(yaml.SafeDumper):
    """Dumper that writes texts of several lines as blocks, and never writes aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML writes this line end as it is, and reads another one.
    style = '"' if "\x85" in text else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def load_documents(paths: Sequence[Path], default_scope: str) -> list[ResourceDocument]:
    """Return the documents of files, and of the YAML files in folders.

    Raises `CliError` with file, document and line for one that is not valid.
    """
    documents = [document for path in _list_files(paths) for document in _load_file(path, default_scope)]
    if not documents:
        raise CliError(f"There is no document in {', '.join(map(str, paths))}.", code=ExitCode.USAGE)
    return documents


def parse_documents(text: str, file: str, default_scope: str) -> Iterator[ResourceDocument]:
    """Yield the documents of a file's text. Raises `DocumentError` at the first one that is not valid."""
    try:
        loader = _Loader(text)
        number = 0
        while loader.check_node():
            node, number = loader.get_node(), number + 1
            if node is None:
                continue
            location = Location(file, number, node)
            value = loader.construct_document(node)
            if value is not None:
                yield _build_document(value, location, default_scope)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        place = {"line": mark.line + 1, "column": mark.column + 1} if mark else {}
        fault = Fault(file, clean_line(exc.problem or exc), **place)
        raise DocumentError([fault], code=ExitCode.USAGE) from exc
    except (yaml.YAMLError, RecursionError) as exc:
        fault = Fault(file, f"cannot be read: {clean_line(exc)}")
        raise DocumentError([fault], code=ExitCode.USAGE) from exc


def dump_document(kind: str, scope: str, identifier: str, spec: Mapping[str, Any]) -> str:
    """Return the YAML of one document, with its separator."""
    content = {"kind": kind, "scope": scope, "identifier": identifier, "spec": dict(spec)}
    return f"---\n{dump_yaml(content)}"


def dump_yaml(value: Any) -> str:
    """Return a value as YAML in the order of its keys."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


def read_pipeline(text: str) -> Mapping[str, Any]:
    """Return the content of a pipeline's YAML; empty for a text that is none, which the server refuses."""
    try:
        pipeline = yaml.load(text, Loader=_Loader)["pipeline"]  # noqa: S506 - a safe loader
    except (yaml.YAMLError, KeyError, TypeError, RecursionError):
        return {}
    return pipeline if isinstance(pipeline, Mapping) else {}


def _list_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
        elif path.exists():
            yield path
        else:
            raise CliError(f"There is no file {path}.", code=ExitCode.USAGE)


def _load_file(path: Path, default_scope: str) -> Iterator[ResourceDocument]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        fault = Fault(str(path), f"cannot be read: {clean_line(exc)}")
        raise DocumentError([fault], code=ExitCode.USAGE) from exc
    yield from parse_documents(text, str(path), default_scope)


def _build_document(value: Any, location: Location, default_scope: str) -> ResourceDocument:
    if not isinstance(value, dict):
        fault = location.build_fault(f"must be a mapping of {', '.join(_KEYS)}")
        raise DocumentError([fault], code=ExitCode.USAGE)
    scope = value.get("scope", default_scope)
    document = ResourceDocument(
        value.get("kind", ""),
        get_scope_name(scope) if isinstance(scope, str) else scope,
        value.get("identifier", ""),
        value.get("spec"),  # type: ignore[arg-type]
        location,
    )
    for key in value:
        if key not in _KEYS:
            raise document.build_error(f"unknown key {key}; use {', '.join(_KEYS)}", (key,))
    for key in ("kind", "identifier"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise document.build_error(f"{key} is missing or not a text", (key,))
    if not isinstance(document.scope, str):
        raise document.build_error("scope must be a text such as default/demo", ("scope",))
    if not isinstance(document.spec, dict):
        raise document.build_error("spec is missing or not a mapping", ("spec",))
    return document


def _find_inner_line(text: str, path: Sequence[str]) -> int:
    """Return the line of a value in the YAML of a block; 0 if the path ends at the block."""
    if not path:
        return 0
    try:
        node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError):
        return 0
    return Location("", 0, node).find_position(path)[0] if node is not None else 0


def get_scope_name(path: str) -> str:
    """Return a scope without its root: default/demo; empty for the account."""
    return f"{path.strip('/')}/".removeprefix("account/").strip("/")


def _find_child(node: yaml.Node, part: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the key and the value of a part of a path."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
        return node.value[int(part)], node.value[int(part)]
    return None
