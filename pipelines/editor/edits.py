"""Edits of a pipeline tree: stages, steps, groups and strategies."""

from collections.abc import Collection
from copy import deepcopy
from typing import Any

from catalog.manifests.yaml_drafts import NotEditable
from pipelines.editor.tree_paths import (
    SECTIONS,
    STAGES_PATH,
    TreePath,
    build_unique_identifier,
    get_body,
    get_children,
    get_execution_path,
    get_kind,
    get_list_position,
    get_node,
    get_or_create_list,
    get_provisioner_path,
    get_stage_path,
    iterate_bodies,
    list_execution_items,
    list_provisioner_items,
)
from steps.kinds.registry import get_step_kinds
from steps.strategies.registry import get_strategies

_SECTION_PATHS = tuple((name,) for name in SECTIONS)


def add_stage(tree: Any, name: str) -> TreePath:
    """Add a stage that deploys to Amazon ECS at the end; return its path."""
    if not isinstance(tree, dict) or not isinstance(tree.get("pipeline"), dict):
        raise NotEditable("The YAML must start with `pipeline:`.")
    stages = get_or_create_list(tree, STAGES_PATH)
    identifiers = {str(get_body(item).get("identifier")) for item in stages}
    stage = {
        "name": name,
        "identifier": build_unique_identifier(name, identifiers),
        "type": "Deployment",
        "spec": {"deploymentType": "ECS"},
    }
    stages.append({"stage": stage})
    return (*STAGES_PATH, len(stages) - 1)


def add_step(tree: Any, into: TreePath, type_: str) -> TreePath:
    """Add a step at the end of a list, and its rollback steps to the stage; return its path."""
    kind = get_step_kinds().get(type_)
    if kind is None:
        raise NotEditable(f"Unknown step type {type_}.")
    section = get_section(into)
    if section not in kind.sections:
        raise NotEditable(f"{kind.title} is only allowed under {kind.sections[0]}.")
    stage = get_node(tree, get_stage_path(into))
    around = get_section_path(into)[:-1]
    if around == get_execution_path(get_stage_path(into)):
        _write_out_strategy(tree, get_stage_path(into))
    items = get_or_create_list(tree, into)
    items.append(build_step(stage, type_))
    at = (*into, len(items) - 1)
    if section == "steps" and kind.undone_by and not _has_step_type(stage, "rollbackSteps", kind.undone_by):
        undoing = get_or_create_list(tree, (*around, "rollbackSteps"))
        undoing.append(build_step(stage, kind.undone_by))
    return at


def build_step(stage: Any, type_: str) -> dict[str, Any]:
    """Build a step of a type with a name that is unique in the stage."""
    kind = get_step_kinds()[type_]
    identifiers = {str(body.get("identifier")) for body in iterate_bodies(stage)}
    identifier = build_unique_identifier(type_[:1].lower() + type_[1:], identifiers)
    step = {"type": type_, "identifier": identifier, "name": _build_unique_name(kind.title, stage)}
    return {"step": {**step, **({"spec": deepcopy(dict(kind.starter))} if kind.starter else {})}}


def _build_unique_name(title: str, stage: Any) -> str:
    """Return a unique name for a new step."""
    names = {str(body.get("name")) for body in iterate_bodies(stage)}
    name, number = title, 1
    while name in names:
        number += 1
        name = f"{title} {number}"
    return name


def set_strategy(tree: Any, stage_at: TreePath, name: str) -> None:
    """Set the strategy of a stage (R190, R212).

    Its steps and rollback steps replace those of the previous strategy; other steps stay.
    """
    strategies = get_strategies()
    if name not in strategies:
        raise NotEditable(f"Unknown strategy {name}. Use one of {', '.join(sorted(strategies))}.")
    stage = get_node(tree, stage_at)
    _write_out_strategy(tree, stage_at)
    spec = get_body(stage)["spec"]
    spec.pop("strategy", None)
    filling = strategies[name]()
    strategy_types = {
        type_
        for strategy in strategies.values()
        for type_ in _list_types(strategy().steps + strategy().rollback_steps)
    }
    for section, new in zip(SECTIONS, (filling.steps, filling.rollback_steps), strict=True):
        items = get_or_create_list(tree, (*get_execution_path(stage_at), section))
        places = [n for n, item in enumerate(items) if get_body(item).get("type") in strategy_types]
        at = places[0] if places else 0 if section == "steps" else len(items)
        old = {get_body(items[n]).get("type"): items[n] for n in places}
        items[:] = [item for n, item in enumerate(items) if n not in places]
        items[at:at] = [old.get(_get_type(item)) or deepcopy(dict(item)) for item in new]


def delete_item(tree: Any, at: TreePath) -> None:
    """Delete a stage, step or group, with rollback steps that are no longer needed."""
    items, number = get_list_position(tree, at)
    item = items.pop(number)
    _delete_empty_group(tree, at[:-1])
    if len(at) == len(STAGES_PATH) + 1 or get_section(at) != "steps":
        return
    delete_unneeded_rollbacks(get_node(tree, get_stage_path(at)), list_step_types(item))


def delete_unneeded_rollbacks(stage: Any, deleted_types: Collection[str]) -> None:
    """Delete the rollback steps of a stage that only steps of these types needed."""
    remaining_types = {str(body.get("type")) for body in iterate_bodies(stage)}
    kinds = get_step_kinds()
    partners = {kinds[type_].undone_by for type_ in deleted_types if type_ in kinds}
    for undoing in (
        list_execution_items(stage, "rollbackSteps"),
        list_provisioner_items(stage, "rollbackSteps"),
    ):
        _delete_rollbacks_in(undoing, partners, remaining_types)
    _delete_empty_provisioner(stage)


def _delete_rollbacks_in(items: list[Any], partners: set[str], remaining_types: set[str]) -> None:
    """Delete rollback steps that no remaining type needs, in a list and its groups."""
    for number in reversed(range(len(items))):
        item = items[number]
        inside = get_children(item, ())[0]
        before = len(inside)
        _delete_rollbacks_in(inside, partners, remaining_types)
        if before and not inside:
            items.pop(number)
        elif get_kind(item) == "parallel" and len(inside) == 1 < before:
            items[number] = inside[0]
        elif _get_type(item) in partners and not remaining_types & set(
            get_step_kinds()[_get_type(item)].undoes
        ):
            items.pop(number)


def move_item(tree: Any, at: TreePath, by: int) -> TreePath:
    """Move an item up or down in its list; return its new path."""
    items, number = get_list_position(tree, at)
    to = min(max(number + by, 0), len(items) - 1)
    items.insert(to, items.pop(number))
    return (*at[:-1], to)


def make_parallel(tree: Any, at: TreePath) -> TreePath:
    """Make an item run in parallel with the previous one; return its new path."""
    items, number = get_list_position(tree, at)
    if not number:
        raise NotEditable("There is no previous step to run in parallel with.")
    item, before = items.pop(number), items[number - 1]
    if get_kind(before) == "parallel":
        get_children(before, ())[0].append(item)
    else:
        items[number - 1] = {"parallel": [before, item]}
    branches = get_children(items[number - 1], ())[0]
    return (*at[:-1], number - 1, "parallel", len(branches) - 1)


def wrap_in_group(tree: Any, at: TreePath) -> TreePath:
    """Wrap an item in a group; return the path of the group."""
    items, number = get_list_position(tree, at)
    stage = get_node(tree, get_stage_path(at))
    identifiers = {str(body.get("identifier")) for body in iterate_bodies(stage)}
    group = {
        "identifier": build_unique_identifier("group", identifiers),
        "name": "Group",
        "steps": [items[number]],
    }
    items[number] = {"stepGroup": group}
    return at


def move_out(tree: Any, at: TreePath) -> TreePath:
    """Move an item out of its group or parallel block, to the position after it; return its new path."""
    items, number = get_list_position(tree, at)
    around = at[:-2] if at[-2] == "parallel" else at[:-3]
    if get_kind(get_node(tree, around)) not in ("parallel", "stepGroup"):
        raise NotEditable("This step is not in a group or parallel block.")
    outer, place = get_list_position(tree, around)
    item = items.pop(number)
    outer.insert(place + 1, item)
    _delete_empty_group(tree, at[:-1])
    return (*around[:-1], next(n for n, sibling in enumerate(outer) if sibling is item))


def get_section(path: TreePath) -> str:
    """Return the section of a path inside a stage: `steps` or `rollbackSteps`."""
    return str(get_section_path(path)[-1])


def get_section_path(path: TreePath) -> TreePath:
    """Return the path of the section: of the execution or of the provisioner."""
    stage_at = get_stage_path(path)
    for around in (get_execution_path(stage_at), get_provisioner_path(stage_at)):
        if path[: len(around)] == around and path[len(around) : len(around) + 1] in _SECTION_PATHS:
            return path[: len(around) + 1]
    raise NotEditable("A step cannot be added here.")


def _delete_empty_provisioner(stage: Any) -> None:
    """Delete a provisioner without steps."""
    environment = (get_body(stage).get("spec") or {}).get("environment")
    if not isinstance(environment, dict):
        return
    provisioner = environment.get("provisioner")
    if isinstance(provisioner, dict) and provisioner.get("steps") == []:
        environment.pop("provisioner")
    elif isinstance(provisioner, dict) and provisioner.get("rollbackSteps") == []:
        provisioner.pop("rollbackSteps")


def _write_out_strategy(tree: Any, stage_at: TreePath) -> None:
    """Write out the default steps of a stage's strategy, so that they can be changed."""
    body = get_node(tree, (*stage_at, "stage"))
    if not isinstance(body, dict):
        raise NotEditable("This stage is not a mapping. Correct it in the YAML.")
    spec = body.setdefault("spec", {})
    if not isinstance(spec, dict):
        raise NotEditable("The spec of this stage is not a mapping. Correct it in the YAML.")
    named = get_strategies().get(str(spec.get("strategy")))
    if isinstance(spec.get("execution"), dict) and "steps" in spec["execution"]:
        return
    filling = named() if named else None
    spec["execution"] = {
        "steps": deepcopy(list(filling.steps)) if filling else [],
        "rollbackSteps": deepcopy(list(filling.rollback_steps)) if filling else [],
    }
    spec.pop("strategy", None)


def _delete_empty_group(tree: Any, items_path: TreePath) -> None:
    """Delete an empty group or parallel block; unwrap a parallel block with one item."""
    around = items_path[:-1] if items_path[-1] == "parallel" else items_path[:-2]
    if len(around) <= len(STAGES_PATH) + 1:
        return
    wrapper = get_node(tree, around)
    kind = get_kind(wrapper)
    if kind not in ("parallel", "stepGroup"):
        return
    inside = get_children(wrapper, ())[0]
    outer, place = get_list_position(tree, around)
    if not inside:
        outer.pop(place)
        _delete_empty_group(tree, around[:-1])
    elif kind == "parallel" and len(inside) == 1:
        outer[place] = inside[0]


def _has_step_type(stage: Any, section: str, type_: str) -> bool:
    items = [*list_execution_items(stage, section), *list_provisioner_items(stage, section)]
    return any(type_ in list_step_types(item) for item in items)


def list_step_types(item: Any) -> set[str]:
    """Return the type of a step, or the types of all steps in a group or parallel block."""
    inside = get_children(item, ())[0]
    return {str(get_body(item).get("type"))}.union(*(list_step_types(child) for child in inside))


def _get_type(item: Any) -> str:
    return str(get_body(item).get("type"))


def _list_types(items: Any) -> set[str]:
    return {_get_type(item) for item in items}
