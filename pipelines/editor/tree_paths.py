"""Paths in the tree of a pipeline, and lookup of stages, groups and steps by path."""

import re
from collections.abc import Iterator
from typing import Any

from catalog.manifests.yaml_drafts import NotEditable

TreePath = tuple[str | int, ...]
STAGES_PATH: TreePath = ("pipeline", "stages")
SECTIONS = ("steps", "rollbackSteps")
ITEM_KINDS = ("stage", "step", "parallel", "stepGroup")
_POSITION = re.compile(r"[0-9]{1,9}")
TEXT_CHANGED_MESSAGE = "The YAML has changed in the meantime. Try again."


def parse_path(text: str) -> TreePath:
    """Parse a path as used in pages: parts joined by dots, of which short numbers are positions."""
    return tuple(int(part) if _POSITION.fullmatch(part) else part for part in text.split(".") if part)


def format_path(path: TreePath) -> str:
    """Format a path as used in pages."""
    return ".".join(map(str, path))


def get_node(value: Any, path: TreePath) -> Any:
    """Return the node at a path. Raises `NotEditable` if there is none."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError) as exc:
            raise NotEditable(TEXT_CHANGED_MESSAGE) from exc
    return value


def get_or_create_list(tree: Any, path: TreePath) -> list[Any]:
    """Return the list at a path, created if missing. Raises `NotEditable` if it is not a list."""
    around, name = get_node(tree, path[:-1]), path[-1]
    if not isinstance(around, dict) or not isinstance(name, str):
        raise NotEditable(TEXT_CHANGED_MESSAGE)
    items = around.get(name)
    if items is None:
        items = around[name] = []
    if not isinstance(items, list):
        raise NotEditable(f"{name} is not a list. Correct it in the YAML first.")
    return items


def get_list_position(tree: Any, path: TreePath) -> tuple[list[Any], int]:
    """Return the list that contains an item, and its index. Raises `NotEditable`."""
    items, number = get_node(tree, path[:-1]), path[-1] if path else ""
    if not isinstance(items, list) or not isinstance(number, int) or number >= len(items):
        raise NotEditable(TEXT_CHANGED_MESSAGE)
    return items, number


def get_kind(item: Any) -> str:
    """Return the kind of a list item: one of `KINDS`, or empty."""
    if isinstance(item, dict) and len(item) == 1:
        name = next(iter(item))
        return name if name in ITEM_KINDS else ""
    return ""


def get_body(item: Any) -> dict[str, Any]:
    """Return the body of a stage, step or group; empty for anything else."""
    body = item.get(get_kind(item)) if isinstance(item, dict) else None
    return body if isinstance(body, dict) else {}


def get_children(item: Any, path: TreePath) -> tuple[list[Any], TreePath]:
    """Return the items of a group or parallel block, and the path of their list."""
    kind = get_kind(item)
    inner: Any = item.get("parallel") if kind == "parallel" else get_body(item).get("steps")
    where = (*path, "parallel") if kind == "parallel" else (*path, "stepGroup", "steps")
    return (inner if isinstance(inner, list) and kind in ("parallel", "stepGroup") else []), where


def get_stage_path(path: TreePath) -> TreePath:
    """Return the path of the stage around a path."""
    return path[:3]


def get_execution_path(stage: TreePath) -> TreePath:
    """Return the path of the steps of a stage."""
    return (*stage, "stage", "spec", "execution")


def get_provisioner_path(stage: TreePath) -> TreePath:
    """Return the path of the provisioner steps of a stage."""
    return (*stage, "stage", "spec", "environment", "provisioner")


def list_provisioner_items(stage: Any, section: str) -> list[Any]:
    """Return the items of a stage's provisioner in a section; empty without a provisioner."""
    node: Any = get_body(stage)
    for name in ("spec", "environment", "provisioner", section):
        node = node.get(name) if isinstance(node, dict) else None
    return node if isinstance(node, list) else []


def list_execution_items(stage: Any, section: str) -> list[Any]:
    """Return the items of a stage's section; empty if it has none."""
    spec = get_body(stage).get("spec")
    execution = spec.get("execution") if isinstance(spec, dict) else None
    items = execution.get(section) if isinstance(execution, dict) else None
    return items if isinstance(items, list) else []


def iterate_bodies(stage: Any) -> Iterator[dict[str, Any]]:
    """Yield the bodies of all steps and groups of a stage, in both sections."""
    waiting = [entry for section in SECTIONS for entry in list_execution_items(stage, section)]
    waiting += [entry for section in SECTIONS for entry in list_provisioner_items(stage, section)]
    while waiting:
        item = waiting.pop()
        yield get_body(item)
        waiting += get_children(item, ())[0]


def build_unique_identifier(name: str, existing: set[str]) -> str:
    """Build a unique identifier from a name."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:110] or "item"
    base = f"_{plain}" if plain[0].isdigit() else plain
    candidate, number = base, 1
    while candidate in existing:
        number += 1
        candidate = f"{base}_{number}"
    return candidate
