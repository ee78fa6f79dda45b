"""Lays override manifests over a service's: one document whose parts know which file they came from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catalog.manifests.document import BadDocument, Document
from catalog.manifests.kinds import SCALABLE_TARGET, SCALING_POLICY
from guards.fault import Path

MERGE, REPLACE = "merge", "replace"
MODES = (MERGE, REPLACE)
# An entry of a named list, or a scaling policy, that holds this with true is taken out.
REMOVE = "$remove"
# The lists whose entries are laid over those of the same name; every other list is replaced.
NAMED_LISTS: Mapping[str, str] = {
    "containerDefinitions": "name",
    "environment": "name",
    "secrets": "name",
    "secretOptions": "name",
    "volumes": "name",
    "ulimits": "name",
    "properties": "name",
    "mountPoints": "containerPath",
    "dependsOn": "containerName",
    "extraHosts": "hostname",
    "systemControls": "namespace",
    "tags": "key",
}
_EITHER_CASE = (SCALABLE_TARGET, SCALING_POLICY)
_POLICY_NAME = "PolicyName"


@dataclass(frozen=True)
class Layer:
    """One document and who says it: the service, the environment or the infrastructure."""

    level: str
    document: Document
    mode: str = MERGE
    identifier: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Before:
    """What a weaker layer said of a place: a scalar, or None for a mapping or a list."""

    level: str
    value: Any


@dataclass(frozen=True)
class Part:
    """One value of the merged document: the layer and the line that it came from."""

    level: str
    file: str
    line: int | None
    column: int | None
    value: Any
    written: Any
    before: tuple[Before, ...] = ()
    is_removed: bool = False
    spelling: str | None = None


@dataclass(frozen=True)
class Merged:
    """What counts: the document to check and send, and the parts that it was made of, in document order.

    Parts that an override took out are among `parts` and not in the document.
    """

    document: Document
    layers: tuple[Layer, ...] = field(repr=False)
    parts: Mapping[Path, Part] = field(repr=False)

    def level_of(self, path: Path) -> str:
        """Who said what stands at a path, or at the nearest part around it."""
        while path and path not in self.parts:
            path = path[:-1]
        return self.parts[path].level


def merged(kind: str, layers: Sequence[Layer]) -> Merged:
    """The layers of one manifest, the weakest first, as one document (R178).

    Mappings are merged, null takes a key out, lists are replaced but for `NAMED_LISTS`. A layer of mode
    `replace` hides those below it. Raises `BadDocument` where `$remove` is anything but true.
    """
    shown = _uncovered(layers)
    tree = _tree(shown[0])
    for layer in shown[1:]:
        tree = _laid(tree, _tree(layer), _Names(kind in _EITHER_CASE))
    return _flat(tree, tuple(shown))


def combined(kind: str, layers: Sequence[Layer]) -> tuple[Merged, ...]:
    """What comes of the layers of a kind: one document, or one for each scaling policy; none of no layers."""
    if kind == SCALING_POLICY:
        return merged_policies(layers)
    return (merged(kind, layers),) if layers else ()


def merged_policies(layers: Sequence[Layer]) -> tuple[Merged, ...]:
    """Scaling policies: each layer is laid over those of the same policyName below it, or stands alone.

    A policy that holds `$remove: true` takes out the one of its name.
    """
    groups: dict[str, list[Layer]] = {}
    for number, layer in enumerate(layers):
        name = _policy_name(layer.document.value) or f"<{number}>"
        if _is_removal(_tree(layer)):
            groups.pop(name, None)
        else:
            groups.setdefault(name, []).append(layer)
    return tuple(merged(SCALING_POLICY, group) for group in groups.values())


def _uncovered(layers: Sequence[Layer]) -> Sequence[Layer]:
    first = max((number for number, one in enumerate(layers) if one.mode == REPLACE), default=0)
    return layers[first:]


def _policy_name(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    return str(value.get(_POLICY_NAME) or value.get("policyName") or "")


@dataclass(frozen=True)
class _Node:
    part: Part
    inside: "dict[str, _Node] | list[_Node] | None" = None
    gone: "tuple[tuple[str, _Node], ...]" = ()


@dataclass(frozen=True)
class _Names:
    """Whether keys that differ in the case of their first letter are the same (R256)."""

    in_either_case: bool

    def of(self, key: str, others: Mapping[str, Any]) -> str:
        if key in others or not self.in_either_case:
            return key
        swapped = key[:1].swapcase() + key[1:]
        return swapped if swapped in others else key


def _tree(layer: Layer) -> _Node:
    document = layer.document
    written = document.value if document.written is None else document.written
    return _node(layer, document.value, written, ())


def _node(layer: Layer, value: Any, written: Any, path: Path) -> _Node:
    document = layer.document
    is_scalar = not isinstance(value, Mapping | list)
    part = Part(
        layer.level,
        document.name_of(path),
        document.line_of(path),
        document.column_of(path),
        value if is_scalar else None,
        None if isinstance(written, Mapping | list) else written,
        spelling=document.spellings.get(path),
    )
    if isinstance(value, Mapping):
        return _Node(part, {k: _node(layer, v, _at(written, k), (*path, k)) for k, v in value.items()})
    if isinstance(value, list):
        return _Node(part, [_node(layer, v, _at(written, n), (*path, n)) for n, v in enumerate(value)])
    return _Node(part)


def _at(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    return value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None


def _laid(base: _Node, over: _Node, names: _Names, key: str = "") -> _Node:
    if isinstance(base.inside, dict) and isinstance(over.inside, dict):
        return _mapping_laid(base, base.inside, over.inside, names)
    if isinstance(base.inside, list) and isinstance(over.inside, list) and key in NAMED_LISTS:
        return _list_laid(base, base.inside, over.inside, names, NAMED_LISTS[key])
    if base.inside is None and over.inside is None and base.part.value == over.part.value:
        # Such as the name by which an entry is found: said again, not changed.
        return base
    before = Before(base.part.level, base.part.value)
    return replace(_added(over, names), part=replace(over.part, before=(before, *base.part.before)))


def _mapping_laid(
    base: _Node, below: Mapping[str, _Node], above: Mapping[str, _Node], names: _Names
) -> _Node:
    inside, gone = dict(below), list(base.gone)
    for key, node in above.items():
        known = names.of(key, inside)
        if _is_null(node):
            if known in inside:
                gone.append((known, _taken_out(inside.pop(known), node)))
        elif known in inside:
            inside[known] = _laid(inside[known], node, names, known)
        else:
            inside[known] = _added(node, names, known)
            gone = [one for one in gone if one[0] != known]
    return replace(base, inside=inside, gone=tuple(gone))


def _list_laid(
    base: _Node, below: Sequence[_Node], above: Sequence[_Node], names: _Names, name: str
) -> _Node:
    inside, gone = _by_name(below, name), list(base.gone)
    for node in above:
        key = _name_of(node, name)
        if _is_removal(node):
            if key in inside:
                gone.append((str(key), _taken_out(inside.pop(key), node)))
        elif key is not None and key in inside:
            inside[key] = _laid(inside[key], node, names)
        else:
            inside[key if key is not None else object()] = _added(node, names)
    return replace(base, inside=list(inside.values()), gone=tuple(gone))


def _by_name(nodes: Sequence[_Node], name: str) -> dict[Any, _Node]:
    """The entries of a list, in their order; second ones of a name, and those without, cannot be found."""
    found: dict[Any, _Node] = {}
    for node in nodes:
        key = _name_of(node, name)
        found[object() if key is None or key in found else key] = node
    return found


def _name_of(node: _Node, name: str) -> Any:
    found = node.inside.get(name) if isinstance(node.inside, dict) else None
    return found.part.value if found else None


def _added(node: _Node, names: _Names, key: str = "") -> _Node:
    """What an override brings anew: nulls and removals in it have nothing to take out."""
    if isinstance(node.inside, dict):
        kept = {k: _added(one, names, k) for k, one in node.inside.items() if not _is_null(one)}
        return replace(node, inside=kept)
    if isinstance(node.inside, list):
        return replace(
            node,
            inside=[
                _added(one, names) for one in node.inside if key not in NAMED_LISTS or not _is_removal(one)
            ],
        )
    return node


def _taken_out(node: _Node, by: _Node) -> _Node:
    before = (Before(node.part.level, node.part.value), *node.part.before)
    return _Node(replace(by.part, value=None, before=before, is_removed=True))


def _is_null(node: _Node) -> bool:
    return node.inside is None and node.part.value is None


def _is_removal(node: _Node) -> bool:
    found = node.inside.get(REMOVE) if isinstance(node.inside, dict) else None
    if found is None:
        return False
    if found.part.value is True:
        return True
    message = f"{REMOVE} takes the entry of this name out and can only be true"
    raise BadDocument(found.part.file, found.part.line or 1, found.part.column or 1, message)


def _flat(tree: _Node, layers: tuple[Layer, ...]) -> Merged:
    parts = dict(_parts(tree, ()))
    document = Document(
        layers[0].document.name,
        _value(tree),
        {path: part.line for path, part in parts.items() if part.line is not None},
        _written(tree),
        {path: part.column for path, part in parts.items() if part.column is not None},
        {path: part.file for path, part in parts.items()},
        spellings={path: part.spelling for path, part in parts.items() if part.spelling is not None},
    )
    return Merged(document, layers, parts)


def _parts(node: _Node, path: Path) -> Iterator[tuple[Path, Part]]:
    yield path, node.part
    if isinstance(node.inside, dict):
        for key, inner in node.inside.items():
            yield from _parts(inner, (*path, key))
    elif isinstance(node.inside, list):
        for number, inner in enumerate(node.inside):
            yield from _parts(inner, (*path, number))
    for key, inner in node.gone:
        yield (*path, key), inner.part


def _value(node: _Node) -> Any:
    if isinstance(node.inside, dict):
        return {key: _value(inner) for key, inner in node.inside.items()}
    if isinstance(node.inside, list):
        return [_value(inner) for inner in node.inside]
    return node.part.value


def _written(node: _Node) -> Any:
    if node.part.written is not None or node.inside is None:
        return node.part.written
    if isinstance(node.inside, dict):
        return {key: _written(inner) for key, inner in node.inside.items()}
    return [_written(inner) for inner in node.inside]
