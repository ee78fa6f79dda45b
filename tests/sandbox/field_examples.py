"""Documents that together set each member of a request in botocore's model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aws.shapes import get_input_shape, is_document_shape

Path = tuple[str, ...]


@dataclass(frozen=True)
class FieldTables:
    """What the model of an operation does not tell; paths are dotted, without numbers of list entries.

    `not_applicable` gives the reason for each member without an example. `bases` are the fields beside a
    member, by the start of its path; the longest start counts. `companions` are what AWS requires in a
    structure beside its required members. `values` are those that need a meaning, by the end of the path.
    """

    operation: str
    not_applicable: Mapping[str, str]
    bases: Mapping[str, Mapping[str, Any]]
    companions: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, Any]


@dataclass(frozen=True)
class FieldExample:
    """A definition that sets `paths`: one top-level field, or the plain members of one structure."""

    name: str
    paths: tuple[Path, ...]
    definition: Mapping[str, Any] = field(repr=False)


def build_examples(tables: FieldTables) -> Iterator[FieldExample]:
    """Yield the examples; together they set each applicable member of the operation's request."""
    shape = get_input_shape("ecs", tables.operation)
    for name, member in shape.members.items():
        for paths in _group_members(member, (name,)):
            applicable = tuple(path for path in paths if ".".join(path) not in tables.not_applicable)
            if applicable:
                structure = ".".join(applicable[0][:-1]) or name
                yield FieldExample(structure, applicable, _build_definition(tables, shape, applicable))


def _group_members(shape: Any, path: Path) -> Iterator[list[Path]]:
    """Yield the paths of the plain members of each structure, without numbers of list entries."""
    if not (structure := _get_structure(shape)):
        yield [path]
        return
    plain = [name for name, member in structure.members.items() if not _get_structure(member)]
    yield [(*path, name) for name in plain]
    for name, member in structure.members.items():
        if name not in plain:
            yield from _group_members(member, (*path, name))


def _get_structure(shape: Any) -> Any:
    """Return the structure that a member is, or is a list of; None for plain values."""
    shape = shape.member if shape.type_name == "list" else shape
    return shape if shape.type_name == "structure" and not is_document_shape(shape) else None


def _build_definition(tables: FieldTables, shape: Any, paths: tuple[Path, ...]) -> dict[str, Any]:
    dotted = [".".join(paths[0][:length]) for length in range(len(paths[0]), -1, -1)]
    base = next(tables.bases[start] for start in dotted if start in tables.bases)
    name = paths[0][0]
    value = _build_value(tables, shape.members[name], (name,), [path[1:] for path in paths])
    if isinstance(value, dict):
        value = {**base.get(name, {}), **value}
    elif isinstance(value, list):
        # Other entries of the base stay, to which the first one refers.
        value = [*value, *base.get(name, [])[1:]]
    return {**base, name: value}


def _build_value(tables: FieldTables, shape: Any, path: Path, rests: list[Path]) -> Any:
    structure = _get_structure(shape)
    if structure is None:
        return _choose_value(tables, shape, path)
    built = dict(tables.companions.get(".".join(path), {}))
    names = [*structure.required_members, *(rest[0] for rest in rests if rest)]
    for name in dict.fromkeys(names):
        inner = [rest[1:] for rest in rests if rest and rest[0] == name]
        if name not in built:
            built[name] = _build_value(tables, structure.members[name], (*path, name), inner)
    return [built] if shape.type_name == "list" else built


def _choose_value(tables: FieldTables, shape: Any, path: Path) -> Any:
    for start in range(len(path)):
        if (name := ".".join(path[start:])) in tables.values:
            return tables.values[name]
    if is_document_shape(shape):
        return {"path": "/health", "codes": [200, 204]}
    match shape.type_name:
        case "string":
            return shape.enum[-1] if shape.enum else f"a-{path[-1]}"
        case "boolean":
            return True
        case "list":
            return [_choose_value(tables, shape.member, path)]
        case "map":
            return {"first": "1", "second": "2"}
    return max(shape.metadata.get("min", 0), 7)


def select_members(document: Mapping[str, Any], paths: tuple[Path, ...]) -> dict[Path, Any]:
    """Return the values of these paths; of a list its first entry counts."""
    return {path: _read_member(document, path) for path in paths}


def _read_member(document: Any, path: Path) -> Any:
    for name in path:
        document = document[0] if isinstance(document, list) and document else document
        document = (document or {}).get(name)
    return document
