"""What people change in a pipeline by forms: stages, steps, groups, and what a strategy puts into a stage."""

from collections.abc import Collection
from copy import deepcopy
from typing import Any

from catalog.manifests.yaml_draft import NotEditable
from pipelines.editor.places import (
    SECTIONS,
    STAGES,
    Path,
    all_bodies,
    body_of,
    children_of,
    execution_path,
    found,
    identifier_from,
    item_at,
    items_at,
    items_of,
    kind_of,
    provisioner_items,
    provisioner_path,
    stage_path,
)
from steps.kinds.base import known_steps
from steps.strategies.base import known_strategies

_LISTS = tuple((name,) for name in SECTIONS)


def add_stage(tree: Any, name: str) -> Path:
    """Add a stage at the end that deploys to Amazon ECS; returns its path."""
    if not isinstance(tree, dict) or not isinstance(tree.get("pipeline"), dict):
        raise NotEditable("The text has no pipeline at its top; begin with `pipeline:`.")
    stages = items_at(tree, STAGES)
    taken = {str(body_of(one).get("identifier")) for one in stages}
    stage = {
        "name": name,
        "identifier": identifier_from(name, taken),
        "type": "Deployment",
        "spec": {"deploymentType": "ECS"},
    }
    stages.append({"stage": stage})
    return (*STAGES, len(stages) - 1)


def add_step(tree: Any, into: Path, type_: str) -> Path:
    """Add a step at the end of a list of items, and what undoes it to the rollback; returns its path."""
    kind = known_steps().get(type_)
    if kind is None:
        raise NotEditable(f"There is no step of type {type_}.")
    section = section_of(into)
    if section not in kind.sections:
        raise NotEditable(f"{kind.title} belongs under {kind.sections[0]}.")
    stage = found(tree, stage_path(into))
    around = section_path(into)[:-1]
    if around == execution_path(stage_path(into)):
        _make_execution(tree, stage_path(into))
    items = items_at(tree, into)
    items.append(new_step(stage, type_))
    at = (*into, len(items) - 1)
    if section == "steps" and kind.undone_by and not _has_type(stage, "rollbackSteps", kind.undone_by):
        undoing = items_at(tree, (*around, "rollbackSteps"))
        undoing.append(new_step(stage, kind.undone_by))
    return at


def new_step(stage: Any, type_: str) -> dict[str, Any]:
    """A step of a type with a name that is free in the stage."""
    kind = known_steps()[type_]
    taken = {str(one.get("identifier")) for one in all_bodies(stage)}
    identifier = identifier_from(type_[:1].lower() + type_[1:], taken)
    step = {"type": type_, "identifier": identifier, "name": _free_name(kind.title, stage)}
    return {"step": {**step, **({"spec": deepcopy(dict(kind.starter))} if kind.starter else {})}}


def _free_name(title: str, stage: Any) -> str:
    """What a new step is called, so that people tell it from the others of its kind."""
    taken = {str(one.get("name")) for one in all_bodies(stage)}
    name, number = title, 1
    while name in taken:
        number += 1
        name = f"{title} {number}"
    return name


def set_strategy(tree: Any, stage_at: Path, name: str) -> None:
    """Let a strategy fill a stage (R190, R212).

    Its steps and rollback steps take the place of another strategy's; what no strategy brings stays.
    """
    strategies = known_strategies()
    if name not in strategies:
        raise NotEditable(f"There is no strategy {name}; there are {', '.join(sorted(strategies))}.")
    stage = found(tree, stage_at)
    _make_execution(tree, stage_at)
    spec = body_of(stage)["spec"]
    spec.pop("strategy", None)
    filling = strategies[name]()
    theirs = {type_ for one in strategies.values() for type_ in _types(one().steps + one().rollback_steps)}
    for section, new in zip(SECTIONS, (filling.steps, filling.rollback_steps), strict=True):
        items = items_at(tree, (*execution_path(stage_at), section))
        places = [n for n, one in enumerate(items) if body_of(one).get("type") in theirs]
        at = places[0] if places else 0 if section == "steps" else len(items)
        old = {body_of(items[n]).get("type"): items[n] for n in places}
        items[:] = [one for n, one in enumerate(items) if n not in places]
        items[at:at] = [old.get(_type(one)) or deepcopy(dict(one)) for one in new]


def delete(tree: Any, at: Path) -> None:
    """Delete a stage, a step or a group, with the rollback steps that nothing needs any more."""
    items, number = item_at(tree, at)
    gone = items.pop(number)
    _drop_empty(tree, at[:-1])
    if len(at) == len(STAGES) + 1 or section_of(at) != "steps":
        return
    delete_partners(found(tree, stage_path(at)), types_inside(gone))


def delete_partners(stage: Any, gone: Collection[str]) -> None:
    """Delete the rollback steps of a stage, wherever they stand, that only steps of these types needed."""
    left = {str(one.get("type")) for one in all_bodies(stage)}
    kinds = known_steps()
    partners = {kinds[type_].undone_by for type_ in gone if type_ in kinds}
    for undoing in (items_of(stage, "rollbackSteps"), provisioner_items(stage, "rollbackSteps")):
        _delete_partners(undoing, partners, left)
    _drop_empty_provisioner(stage)


def _delete_partners(items: list[Any], partners: set[str], left: set[str]) -> None:
    """Delete the partners in a list, and in the groups inside it, that none of the types left needs."""
    for number in reversed(range(len(items))):
        item = items[number]
        inside = children_of(item, ())[0]
        before = len(inside)
        _delete_partners(inside, partners, left)
        if before and not inside:
            items.pop(number)
        elif kind_of(item) == "parallel" and len(inside) == 1 < before:
            items[number] = inside[0]
        elif _type(item) in partners and not left & set(known_steps()[_type(item)].undoes):
            items.pop(number)


def move(tree: Any, at: Path, by: int) -> Path:
    """Move an item up or down in its list; returns where it is now."""
    items, number = item_at(tree, at)
    to = min(max(number + by, 0), len(items) - 1)
    items.insert(to, items.pop(number))
    return (*at[:-1], to)


def beside_previous(tree: Any, at: Path) -> Path:
    """Let an item run at the same time as the one before it; returns where it is now."""
    items, number = item_at(tree, at)
    if not number:
        raise NotEditable("There is nothing before this that it could run beside.")
    item, before = items.pop(number), items[number - 1]
    if kind_of(before) == "parallel":
        children_of(before, ())[0].append(item)
    else:
        items[number - 1] = {"parallel": [before, item]}
    beside = children_of(items[number - 1], ())[0]
    return (*at[:-1], number - 1, "parallel", len(beside) - 1)


def into_group(tree: Any, at: Path) -> Path:
    """Put a group around an item; returns the path of the group."""
    items, number = item_at(tree, at)
    stage = found(tree, stage_path(at))
    taken = {str(one.get("identifier")) for one in all_bodies(stage)}
    group = {"identifier": identifier_from("group", taken), "name": "Group", "steps": [items[number]]}
    items[number] = {"stepGroup": group}
    return at


def take_out(tree: Any, at: Path) -> Path:
    """Take an item out of the group or the parallel block around it, to stand behind that; returns where."""
    items, number = item_at(tree, at)
    around = at[:-2] if at[-2] == "parallel" else at[:-3]
    if kind_of(found(tree, around)) not in ("parallel", "stepGroup"):
        raise NotEditable("This is in no group and in no parallel block.")
    outer, place = item_at(tree, around)
    item = items.pop(number)
    outer.insert(place + 1, item)
    _drop_empty(tree, at[:-1])
    return (*around[:-1], next(n for n, one in enumerate(outer) if one is item))


def section_of(path: Path) -> str:
    """`steps` or `rollbackSteps`: which of the two a path inside a stage leads into."""
    return str(section_path(path)[-1])


def section_path(path: Path) -> Path:
    """The list of a stage that a path leads into: of its execution, or of its provisioner."""
    stage_at = stage_path(path)
    for around in (execution_path(stage_at), provisioner_path(stage_at)):
        if path[: len(around)] == around and path[len(around) : len(around) + 1] in _LISTS:
            return path[: len(around) + 1]
    raise NotEditable("This is no place for a step.")


def _drop_empty_provisioner(stage: Any) -> None:
    """A provisioner whose last step is gone makes nothing: neither does the stage."""
    environment = (body_of(stage).get("spec") or {}).get("environment")
    if not isinstance(environment, dict):
        return
    said = environment.get("provisioner")
    if isinstance(said, dict) and said.get("steps") == []:
        environment.pop("provisioner")
    elif isinstance(said, dict) and said.get("rollbackSteps") == []:
        said.pop("rollbackSteps")


def _make_execution(tree: Any, stage_at: Path) -> None:
    """A stage that only names a strategy gets that strategy's steps written out before they are changed."""
    spec = found(tree, (*stage_at, "stage")).setdefault("spec", {})
    if not isinstance(spec, dict):
        raise NotEditable("spec of this stage is no mapping; mend it in the YAML.")
    named = known_strategies().get(str(spec.get("strategy")))
    if isinstance(spec.get("execution"), dict) and "steps" in spec["execution"]:
        return
    filling = named() if named else None
    spec["execution"] = {
        "steps": deepcopy(list(filling.steps)) if filling else [],
        "rollbackSteps": deepcopy(list(filling.rollback_steps)) if filling else [],
    }
    spec.pop("strategy", None)


def _drop_empty(tree: Any, items_path: Path) -> None:
    """Remove a group or a parallel block whose last item is gone; one beside nobody stands alone."""
    around = items_path[:-1] if items_path[-1] == "parallel" else items_path[:-2]
    if len(around) <= len(STAGES) + 1:
        return
    wrapper = found(tree, around)
    kind = kind_of(wrapper)
    if kind not in ("parallel", "stepGroup"):
        return
    inside = children_of(wrapper, ())[0]
    outer, place = item_at(tree, around)
    if not inside:
        outer.pop(place)
        _drop_empty(tree, around[:-1])
    elif kind == "parallel" and len(inside) == 1:
        outer[place] = inside[0]


def _has_type(stage: Any, section: str, type_: str) -> bool:
    items = [*items_of(stage, section), *provisioner_items(stage, section)]
    return any(type_ in types_inside(one) for one in items)


def types_inside(item: Any) -> set[str]:
    """The types of a step, or of all steps in a group or a parallel block."""
    inside = children_of(item, ())[0]
    return {str(body_of(item).get("type"))}.union(*(types_inside(one) for one in inside))


def _type(item: Any) -> str:
    return str(body_of(item).get("type"))


def _types(items: Any) -> set[str]:
    return {_type(one) for one in items}
