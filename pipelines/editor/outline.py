"""Outline of the visual editor: stages with steps, rollback steps and problems."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.editor.provisioners import has_provisioner
from pipelines.editor.tree_paths import (
    SECTIONS,
    STAGES_PATH,
    TreePath,
    format_path,
    get_body,
    get_children,
    get_execution_path,
    get_kind,
    get_provisioner_path,
    list_execution_items,
    list_provisioner_items,
)
from steps.kinds.registry import get_step_kinds, needs_cluster
from steps.strategies.registry import get_strategies

_SECTION_TITLES = {"steps": "Steps", "rollbackSteps": "Rollback steps"}
_PROVISIONER_TITLES = {"steps": "Provisioner", "rollbackSteps": "Rollback steps of the provisioner"}
_PARALLEL_TITLE = "Parallel"


@dataclass(frozen=True)
class OutlineRow:
    """A stage, step, group or parallel block in the outline."""

    path: str
    kind: str
    title: str
    detail: str
    identifier: str
    is_first: bool
    is_last: bool
    is_inside: bool = False
    into: str = ""
    """Path of the list to which an added step belongs."""
    children: tuple["OutlineRow", ...] = ()
    problems: tuple[str, ...] = ()
    sections: tuple["OutlineSection", ...] = ()
    palette: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class OutlineSection:
    """The steps or rollback steps of a stage; if none are written, `filled_by` is the strategy."""

    title: str
    into: str
    rows: tuple[OutlineRow, ...]
    palette: tuple[tuple[str, str], ...]
    filled_by: str = ""


def list_step_types(section: str) -> tuple[tuple[str, str], ...]:
    """Return the step types that a section allows, with titles."""
    kinds = [kind for kind in get_step_kinds().values() if section in kind.sections]
    return tuple((kind.type, kind.title) for kind in sorted(kinds, key=lambda kind: kind.title))


def build_outline(tree: Any, problems: Sequence[Mapping[str, Any]] = ()) -> list[OutlineRow]:
    """Build the outline of all stages; empty for an invalid text."""
    pipeline = tree.get("pipeline") if isinstance(tree, dict) else None
    stages = pipeline.get("stages") if isinstance(pipeline, dict) else None
    if not isinstance(stages, list):
        return []
    messages = [(f"{problem.get('path', '')}.", str(problem.get("message", ""))) for problem in problems]
    return [_build_stage(stage, (*STAGES_PATH, n), len(stages), messages) for n, stage in enumerate(stages)]


def _build_stage(stage: Any, at: TreePath, count: int, messages: list[tuple[str, str]]) -> OutlineRow:
    sections = tuple(_build_section(stage, at, name, messages) for name in SECTIONS)
    if has_provisioner(stage):
        provisioner_section, rollback_section = (
            _build_provisioner_section(stage, at, name, messages) for name in SECTIONS
        )
        sections = (provisioner_section, *sections, rollback_section)
    inside = tuple(f"{section.into}." for section in sections)
    own = [(path, message) for path, message in messages if not path.startswith(inside)]
    return _build_row(stage, at, count, own, detail="Deploys to Amazon ECS", sections=sections)


def _build_provisioner_section(
    stage: Any, at: TreePath, name: str, messages: list[tuple[str, str]]
) -> OutlineSection:
    into = (*get_provisioner_path(at), name)
    rows = _build_rows(list_provisioner_items(stage, name), into, messages, name)
    return OutlineSection(
        _PROVISIONER_TITLES[name], format_path(into), rows, list_provisioner_step_types(name)
    )


def list_provisioner_step_types(section: str) -> tuple[tuple[str, str], ...]:
    """Return the step types that a provisioner allows: those that need no cluster."""
    return tuple((type_, title) for type_, title in list_step_types(section) if not needs_cluster(type_))


def _build_section(stage: Any, at: TreePath, name: str, messages: list[tuple[str, str]]) -> OutlineSection:
    into = (*get_execution_path(at), name)
    spec = get_body(stage).get("spec")
    items = list_execution_items(stage, name)
    filled_by = (
        str(spec.get("strategy") or "")
        if isinstance(spec, dict) and not list_execution_items(stage, "steps")
        else ""
    )
    rows = _build_rows(items, into, messages, name)
    if filled_by not in get_strategies():
        filled_by = ""
    return OutlineSection(
        _SECTION_TITLES[name], format_path(into), rows, list_step_types(name), "" if rows else filled_by
    )


def _build_rows(
    items: Iterable[Any],
    into: TreePath,
    messages: list[tuple[str, str]],
    section: str,
    *,
    is_inside: bool = False,
) -> tuple[OutlineRow, ...]:
    listed = list(items)
    return tuple(
        _build_item(item, (*into, n), len(listed), messages, section, is_inside)
        for n, item in enumerate(listed)
    )


def _build_item(
    item: Any, at: TreePath, count: int, messages: list[tuple[str, str]], section: str, is_inside: bool
) -> OutlineRow:
    inner, where = get_children(item, at)
    kind = get_kind(item)
    children = _build_rows(inner, where, messages, section, is_inside=True)
    is_container = kind in ("parallel", "stepGroup")
    own = [
        entry for entry in messages if not (is_container and entry[0].startswith(f"{format_path(where)}."))
    ]
    more = {"into": format_path(where), "palette": list_step_types(section)} if is_container else {}
    return _build_row(
        item,
        at,
        count,
        own,
        detail=_describe_item(item, kind),
        is_inside=is_inside,
        children=children,
        **more,
    )


def _build_row(
    item: Any, at: TreePath, count: int, messages: list[tuple[str, str]], **more: Any
) -> OutlineRow:
    body, kind, row_path = get_body(item), get_kind(item), format_path(at)
    title = (
        _PARALLEL_TITLE
        if kind == "parallel"
        else str(body.get("name") or body.get("identifier") or more["detail"])
    )
    problems = tuple(message for path, message in messages if path.startswith(f"{row_path}."))
    return OutlineRow(
        path=row_path,
        kind=kind,
        title=title,
        identifier=str(body.get("identifier") or ""),
        is_first=at[-1] == 0,
        is_last=at[-1] == count - 1,
        problems=problems,
        **more,
    )


def _describe_item(item: Any, kind: str) -> str:
    type_ = str(get_body(item).get("type") or "")
    step_kind = get_step_kinds().get(type_)
    words = {"stepGroup": "Group", "parallel": "Parallel", "": "Unknown"}
    return words.get(kind) or (step_kind.title if step_kind else type_ or "Step")
