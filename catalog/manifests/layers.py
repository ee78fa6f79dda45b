"""Merge of override manifests over a service's into one document with the source of each part."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catalog.manifests.documents import BadDocument, Document
from catalog.manifests.kinds import SCALABLE_TARGET, SCALING_POLICY
from guards.input_problems import InputPath

MERGE, REPLACE = "merge", "replace"
MERGE_MODES = (MERGE, REPLACE)
# Key that removes an entry of a named list, or a scaling policy, when it is true.
REMOVE_KEY = "$remove"
# Lists that are merged by the names of their entries; all other lists are replaced.
NAMED_LIST_KEYS: Mapping[str, str] = {
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
_KINDS_OF_EITHER_CASE = (SCALABLE_TARGET, SCALING_POLICY)
_POLICY_NAME_KEY = "PolicyName"


@dataclass(frozen=True)
class ManifestLayer:
    """A document and its level: service, environment or infrastructure."""

    level: str
    document: Document
    mode: str = MERGE
    identifier: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class OverriddenValue:
    """The value of a weaker layer at a path: a scalar, or None for a mapping or a list."""

    level: str
    value: Any


@dataclass(frozen=True)
class ManifestPart:
    """A value of the merged document with its layer and line."""

    level: str
    file: str
    line: int | None
    column: int | None
    value: Any
    written: Any
    before: tuple[OverriddenValue, ...] = ()
    is_removed: bool = False
    spelling: str | None = None


@dataclass(frozen=True)
class MergedDocument:
    """The effective document to check and send, and the parts that it was made of, in document order.

    Parts that an override took out are among `parts` and not in the document.
    """

    document: Document
    layers: tuple[ManifestLayer, ...] = field(repr=False)
    parts: Mapping[InputPath, ManifestPart] = field(repr=False)


def merge_layers(kind: str, layers: Sequence[ManifestLayer]) -> MergedDocument:
    """Merge the layers of one manifest, weakest first, into one document (R178).

    Mappings are merged, null removes a key, lists are replaced except for `NAMED_LIST_KEYS`. A layer of mode
    `replace` hides those below it. Raises `BadDocument` if `$remove` is anything but true.
    """
    effective_layers = _drop_replaced_layers(layers)
    tree = _build_tree(effective_layers[0])
    for layer in effective_layers[1:]:
        tree = _overlay(tree, _build_tree(layer), _KeyMatcher(kind in _KINDS_OF_EITHER_CASE))
    return _flatten(tree, tuple(effective_layers))


def merge_layers_of_kind(kind: str, layers: Sequence[ManifestLayer]) -> tuple[MergedDocument, ...]:
    """Merge the layers of a kind: into one document, or one per scaling policy; none without layers."""
    if kind == SCALING_POLICY:
        return merge_policies(layers)
    return (merge_layers(kind, layers),) if layers else ()


def merge_policies(layers: Sequence[ManifestLayer]) -> tuple[MergedDocument, ...]:
    """Merge scaling policies: each layer over the policies below it with the same policyName.

    A policy with `$remove: true` removes the policy of its name.
    """
    groups: dict[str, list[ManifestLayer]] = {}
    for number, layer in enumerate(layers):
        name = _get_policy_name(layer.document.value) or f"<{number}>"
        if _is_removal(_build_tree(layer)):
            groups.pop(name, None)
        else:
            groups.setdefault(name, []).append(layer)
    return tuple(merge_layers(SCALING_POLICY, group) for group in groups.values())


def _drop_replaced_layers(layers: Sequence[ManifestLayer]) -> Sequence[ManifestLayer]:
    first = max((number for number, layer in enumerate(layers) if layer.mode == REPLACE), default=0)
    return layers[first:]


def _get_policy_name(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    return str(value.get(_POLICY_NAME_KEY) or value.get("policyName") or "")


@dataclass(frozen=True)
class _MergeNode:
    part: ManifestPart
    children: "dict[str, _MergeNode] | list[_MergeNode] | None" = None
    removed: "tuple[tuple[str, _MergeNode], ...]" = ()


@dataclass(frozen=True)
class _KeyMatcher:
    """Matcher of keys; can ignore the case of the first letter (R256)."""

    ignores_first_case: bool

    def match_key(self, key: str, keys: Mapping[str, Any]) -> str:
        if key in keys or not self.ignores_first_case:
            return key
        swapped = key[:1].swapcase() + key[1:]
        return swapped if swapped in keys else key


def _build_tree(layer: ManifestLayer) -> _MergeNode:
    document = layer.document
    source_value = document.value if document.written is None else document.written
    return _build_node(layer, document.value, source_value, ())


def _build_node(layer: ManifestLayer, value: Any, source_value: Any, path: InputPath) -> _MergeNode:
    document = layer.document
    is_scalar = not isinstance(value, Mapping | list)
    part = ManifestPart(
        layer.level,
        document.get_file_name(path),
        document.get_line(path),
        document.get_column(path),
        value if is_scalar else None,
        None if isinstance(source_value, Mapping | list) else source_value,
        spelling=document.number_texts.get(path),
    )
    if isinstance(value, Mapping):
        return _MergeNode(
            part,
            {k: _build_node(layer, v, _get_child(source_value, k), (*path, k)) for k, v in value.items()},
        )
    if isinstance(value, list):
        return _MergeNode(
            part,
            [_build_node(layer, v, _get_child(source_value, n), (*path, n)) for n, v in enumerate(value)],
        )
    return _MergeNode(part)


def _get_child(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    return value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None


def _overlay(base: _MergeNode, over: _MergeNode, names: _KeyMatcher, key: str = "") -> _MergeNode:
    if isinstance(base.children, dict) and isinstance(over.children, dict):
        return _overlay_mapping(base, base.children, over.children, names)
    if isinstance(base.children, list) and isinstance(over.children, list) and key in NAMED_LIST_KEYS:
        return _overlay_list(base, base.children, over.children, names, NAMED_LIST_KEYS[key])
    if base.children is None and over.children is None and _is_same_scalar(base.part, over.part):
        # The value is repeated and not changed, such as the name of an entry.
        return base
    before = OverriddenValue(base.part.level, base.part.value)
    return replace(_drop_removals(over, names), part=replace(over.part, before=(before, *base.part.before)))


def _is_same_scalar(base: ManifestPart, over: ManifestPart) -> bool:
    """Return whether two scalars are written alike: 1.1 is another text than 1.10, and 1 is not true."""
    return (
        base.value == over.value and type(base.value) is type(over.value) and base.spelling == over.spelling
    )


def _overlay_mapping(
    base: _MergeNode, below: Mapping[str, _MergeNode], above: Mapping[str, _MergeNode], names: _KeyMatcher
) -> _MergeNode:
    children, removed = dict(below), list(base.removed)
    for key, node in above.items():
        matching_key = names.match_key(key, children)
        if _is_null(node):
            if matching_key in children:
                removed.append((matching_key, _mark_removed(children.pop(matching_key), node)))
        elif matching_key in children:
            children[matching_key] = _overlay(children[matching_key], node, names, matching_key)
        else:
            children[matching_key] = _drop_removals(node, names, matching_key)
            removed = [entry for entry in removed if entry[0] != matching_key]
    return replace(base, children=children, removed=tuple(removed))


def _overlay_list(
    base: _MergeNode, below: Sequence[_MergeNode], above: Sequence[_MergeNode], names: _KeyMatcher, name: str
) -> _MergeNode:
    entries, removed = _index_by_name(below, name), list(base.removed)
    for node in above:
        key = _get_entry_name(node, name)
        if _is_removal(node):
            if key in entries:
                removed.append((str(key), _mark_removed(entries.pop(key), node)))
        elif key is not None and key in entries:
            entries[key] = _overlay(entries[key], node, names)
        else:
            entries[key if key is not None else object()] = _drop_removals(node, names)
    return replace(base, children=list(entries.values()), removed=tuple(removed))


def _index_by_name(nodes: Sequence[_MergeNode], name: str) -> dict[Any, _MergeNode]:
    """Index the entries of a list by name; duplicates and entries without a name are skipped."""
    index: dict[Any, _MergeNode] = {}
    for node in nodes:
        key = _get_entry_name(node, name)
        index[object() if key is None or key in index else key] = node
    return index


def _get_entry_name(node: _MergeNode, name: str) -> Any:
    entry = node.children.get(name) if isinstance(node.children, dict) else None
    return entry.part.value if entry else None


def _drop_removals(node: _MergeNode, names: _KeyMatcher, key: str = "") -> _MergeNode:
    """Remove the nulls and removals of a new part of an override; they have nothing to remove."""
    if isinstance(node.children, dict):
        children = {
            k: _drop_removals(child, names, k) for k, child in node.children.items() if not _is_null(child)
        }
        return replace(node, children=children)
    if isinstance(node.children, list):
        return replace(
            node,
            children=[
                _drop_removals(child, names)
                for child in node.children
                if key not in NAMED_LIST_KEYS or not _is_removal(child)
            ],
        )
    return node


def _mark_removed(node: _MergeNode, by: _MergeNode) -> _MergeNode:
    before = (OverriddenValue(node.part.level, node.part.value), *node.part.before)
    return _MergeNode(replace(by.part, value=None, before=before, is_removed=True))


def _is_null(node: _MergeNode) -> bool:
    return node.children is None and node.part.value is None


def _is_removal(node: _MergeNode) -> bool:
    marker = node.children.get(REMOVE_KEY) if isinstance(node.children, dict) else None
    if marker is None:
        return False
    if marker.part.value is True:
        return True
    message = f"{REMOVE_KEY} removes the entry of this name and can only be true"
    raise BadDocument(marker.part.file, marker.part.line or 1, marker.part.column or 1, message)


def _flatten(tree: _MergeNode, layers: tuple[ManifestLayer, ...]) -> MergedDocument:
    parts = dict(_iterate_parts(tree, ()))
    document = Document(
        layers[0].document.name,
        _build_value(tree),
        {path: part.line for path, part in parts.items() if part.line is not None},
        _build_written_value(tree),
        {path: part.column for path, part in parts.items() if part.column is not None},
        {path: part.file for path, part in parts.items()},
        number_texts={path: part.spelling for path, part in parts.items() if part.spelling is not None},
    )
    return MergedDocument(document, layers, parts)


def _iterate_parts(node: _MergeNode, path: InputPath) -> Iterator[tuple[InputPath, ManifestPart]]:
    yield path, node.part
    if isinstance(node.children, dict):
        for key, inner in node.children.items():
            yield from _iterate_parts(inner, (*path, key))
    elif isinstance(node.children, list):
        for number, inner in enumerate(node.children):
            yield from _iterate_parts(inner, (*path, number))
    for key, inner in node.removed:
        yield (*path, key), inner.part


def _build_value(node: _MergeNode) -> Any:
    if isinstance(node.children, dict):
        return {key: _build_value(inner) for key, inner in node.children.items()}
    if isinstance(node.children, list):
        return [_build_value(inner) for inner in node.children]
    return node.part.value


def _build_written_value(node: _MergeNode) -> Any:
    if node.part.written is not None or node.children is None:
        return node.part.written
    if isinstance(node.children, dict):
        return {key: _build_written_value(inner) for key, inner in node.children.items()}
    return [_build_written_value(inner) for inner in node.children]
