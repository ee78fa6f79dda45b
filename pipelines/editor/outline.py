"""What the visual editor lists: stages with their steps and rollback steps, and what is wrong with each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.editor.places import (
    SECTIONS,
    STAGES,
    Path,
    body_of,
    children_of,
    execution_path,
    items_of,
    kind_of,
    path_text,
    provisioner_items,
    provisioner_path,
)
from pipelines.editor.provisioners import provisions
from steps.kinds.base import known_steps
from steps.provisioner_outputs import needs_place
from steps.strategies.base import known_strategies

_TITLES = {"steps": "Steps", "rollbackSteps": "Rollback steps"}
_PROVISIONER_TITLES = {"steps": "Provisioner", "rollbackSteps": "Rollback steps of the provisioner"}
_PARALLEL = "At the same time"


@dataclass(frozen=True)
class Row:
    """A stage, a step, a group or a parallel block as it is listed."""

    at: str
    kind: str
    title: str
    detail: str
    identifier: str
    is_first: bool
    is_last: bool
    is_inside: bool = False
    into: str = ""
    """Where a step that is added inside would stand."""
    children: tuple["Row", ...] = ()
    problems: tuple[str, ...] = ()
    sections: tuple["Section", ...] = ()
    palette: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Section:
    """The steps or the rollback steps of a stage; where none are written, `filled_by` is the strategy."""

    title: str
    into: str
    rows: tuple[Row, ...]
    palette: tuple[tuple[str, str], ...]
    filled_by: str = ""


def palette(section: str) -> tuple[tuple[str, str], ...]:
    """The types of step that may stand in a section, with their titles."""
    kinds = [kind for kind in known_steps().values() if section in kind.sections]
    return tuple((kind.type, kind.title) for kind in sorted(kinds, key=lambda kind: kind.title))


def outline(tree: Any, problems: Sequence[Mapping[str, Any]] = ()) -> list[Row]:
    """The stages of a pipeline; a text that is none has none."""
    pipeline = tree.get("pipeline") if isinstance(tree, dict) else None
    stages = pipeline.get("stages") if isinstance(pipeline, dict) else None
    if not isinstance(stages, list):
        return []
    said = [(f"{one.get('path', '')}.", str(one.get("message", ""))) for one in problems]
    return [_stage(one, (*STAGES, n), len(stages), said) for n, one in enumerate(stages)]


def _stage(stage: Any, at: Path, count: int, said: list[tuple[str, str]]) -> Row:
    sections = tuple(_section(stage, at, name, said) for name in SECTIONS)
    if provisions(stage):
        making, taking_down = (_of_provisioner(stage, at, name, said) for name in SECTIONS)
        sections = (making, *sections, taking_down)
    inside = tuple(f"{one.into}." for one in sections)
    own = [(path, message) for path, message in said if not path.startswith(inside)]
    return _row(stage, at, count, own, detail="Deploys to Amazon ECS", sections=sections)


def _of_provisioner(stage: Any, at: Path, name: str, said: list[tuple[str, str]]) -> Section:
    into = (*provisioner_path(at), name)
    rows = _rows(provisioner_items(stage, name), into, said, name)
    return Section(_PROVISIONER_TITLES[name], path_text(into), rows, provisioner_palette(name))


def provisioner_palette(section: str) -> tuple[tuple[str, str], ...]:
    """The types of step that may stand in a provisioner: none that look into the cluster."""
    return tuple((type_, title) for type_, title in palette(section) if not needs_place(type_))


def _section(stage: Any, at: Path, name: str, said: list[tuple[str, str]]) -> Section:
    into = (*execution_path(at), name)
    spec = body_of(stage).get("spec")
    items = items_of(stage, name)
    filled_by = (
        str(spec.get("strategy") or "") if isinstance(spec, dict) and not items_of(stage, "steps") else ""
    )
    rows = _rows(items, into, said, name)
    if filled_by not in known_strategies():
        filled_by = ""
    return Section(_TITLES[name], path_text(into), rows, palette(name), "" if rows else filled_by)


def _rows(
    items: Iterable[Any], into: Path, said: list[tuple[str, str]], section: str, *, is_inside: bool = False
) -> tuple[Row, ...]:
    listed = list(items)
    return tuple(
        _item(one, (*into, n), len(listed), said, section, is_inside) for n, one in enumerate(listed)
    )


def _item(item: Any, at: Path, count: int, said: list[tuple[str, str]], section: str, is_inside: bool) -> Row:
    inner, where = children_of(item, at)
    kind = kind_of(item)
    children = _rows(inner, where, said, section, is_inside=True)
    holds = kind in ("parallel", "stepGroup")
    own = [one for one in said if not (holds and one[0].startswith(f"{path_text(where)}."))]
    more = {"into": path_text(where), "palette": palette(section)} if holds else {}
    return _row(
        item, at, count, own, detail=_detail(item, kind), is_inside=is_inside, children=children, **more
    )


def _row(item: Any, at: Path, count: int, said: list[tuple[str, str]], **more: Any) -> Row:
    body, kind, here = body_of(item), kind_of(item), path_text(at)
    title = (
        _PARALLEL if kind == "parallel" else str(body.get("name") or body.get("identifier") or more["detail"])
    )
    problems = tuple(message for path, message in said if path.startswith(f"{here}."))
    return Row(
        at=here,
        kind=kind,
        title=title,
        identifier=str(body.get("identifier") or ""),
        is_first=at[-1] == 0,
        is_last=at[-1] == count - 1,
        problems=problems,
        **more,
    )


def _detail(item: Any, kind: str) -> str:
    type_ = str(body_of(item).get("type") or "")
    known = known_steps().get(type_)
    words = {"stepGroup": "Group", "parallel": "Parallel", "": "Not known"}
    return words.get(kind) or (known.title if known else type_ or "Step")
