"""Places in the tree of a pipeline: where stages, steps and groups stand, and which list they are in."""

import re
from collections.abc import Iterator
from typing import Any

from catalog.manifests.yaml_draft import NotEditable

Path = tuple[str | int, ...]
STAGES: Path = ("pipeline", "stages")
SECTIONS = ("steps", "rollbackSteps")
KINDS = ("stage", "step", "parallel", "stepGroup")
GONE = "The text has changed since this was shown. Look again."


def path_from(text: str) -> Path:
    """A path as pages write it, its parts joined by dots."""
    return tuple(int(part) if part.isascii() and part.isdigit() else part for part in text.split(".") if part)


def path_text(path: Path) -> str:
    """A path as pages write it."""
    return ".".join(map(str, path))


def found(value: Any, path: Path) -> Any:
    """What stands at a path. Raises `NotEditable` where nothing does."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError) as exc:
            raise NotEditable(GONE) from exc
    return value


def items_at(tree: Any, path: Path) -> list[Any]:
    """The list at a path, made if there is none yet. Raises `NotEditable` where something else stands."""
    around, name = found(tree, path[:-1]), path[-1]
    if not isinstance(around, dict) or not isinstance(name, str):
        raise NotEditable(GONE)
    items = around.get(name)
    if items is None:
        items = around[name] = []
    if not isinstance(items, list):
        raise NotEditable(f"{name} is no list in the text; mend it there first.")
    return items


def item_at(tree: Any, path: Path) -> tuple[list[Any], int]:
    """The list that an item stands in, and its number. Raises `NotEditable`."""
    items, number = found(tree, path[:-1]), path[-1] if path else ""
    if not isinstance(items, list) or not isinstance(number, int) or number >= len(items):
        raise NotEditable(GONE)
    return items, number


def kind_of(item: Any) -> str:
    """What an item of a list is: one of `KINDS`, or nothing that is known."""
    if isinstance(item, dict) and len(item) == 1:
        name = next(iter(item))
        return name if name in KINDS else ""
    return ""


def body_of(item: Any) -> dict[str, Any]:
    """What is written of a stage, a step or a group; empty for anything else."""
    body = item.get(kind_of(item)) if isinstance(item, dict) else None
    return body if isinstance(body, dict) else {}


def children_of(item: Any, path: Path) -> tuple[list[Any], Path]:
    """The items inside a group or a parallel block, and the path of their list."""
    kind = kind_of(item)
    inner: Any = item.get("parallel") if kind == "parallel" else body_of(item).get("steps")
    where = (*path, "parallel") if kind == "parallel" else (*path, "stepGroup", "steps")
    return (inner if isinstance(inner, list) and kind in ("parallel", "stepGroup") else []), where


def stage_path(path: Path) -> Path:
    """The stage that a path leads into."""
    return path[:3]


def execution_path(stage: Path) -> Path:
    """Where the steps of a stage stand."""
    return (*stage, "stage", "spec", "execution")


def provisioner_path(stage: Path) -> Path:
    """Where the steps stand that make the infrastructure of a stage, and those that take it down."""
    return (*stage, "stage", "spec", "environment", "provisioner")


def provisioner_items(stage: Any, section: str) -> list[Any]:
    """The items of a stage's provisioner in a section; none where it has no provisioner."""
    found: Any = body_of(stage)
    for name in ("spec", "environment", "provisioner", section):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []


def items_of(stage: Any, section: str) -> list[Any]:
    """The items that a stage lists in a section; none where it lists none."""
    spec = body_of(stage).get("spec")
    execution = spec.get("execution") if isinstance(spec, dict) else None
    items = execution.get(section) if isinstance(execution, dict) else None
    return items if isinstance(items, list) else []


def all_bodies(stage: Any) -> Iterator[dict[str, Any]]:
    """Every step and group of a stage, of both sections and all depths."""
    waiting = [one for section in SECTIONS for one in items_of(stage, section)]
    waiting += [one for section in SECTIONS for one in provisioner_items(stage, section)]
    while waiting:
        item = waiting.pop()
        yield body_of(item)
        waiting += children_of(item, ())[0]


def identifier_from(name: str, taken: set[str]) -> str:
    """An identifier for a name that nothing else has."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:110] or "item"
    base = f"_{plain}" if plain[0].isdigit() else plain
    found_name, number = base, 1
    while found_name in taken:
        number += 1
        found_name = f"{base}_{number}"
    return found_name
