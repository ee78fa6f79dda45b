"""Outlines of executions that have not started, and headings of step groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.definition.nesting import PARALLEL
from pipelines.definition.parser import GroupSpec, StageSpec, StepSpec
from pipelines.definition.stage_targets import StageTarget


@dataclass(frozen=True)
class OutlineGroup:
    """A group in a list of steps; `parent` is the key of the surrounding group."""

    kind: str
    name: str
    parent: Any

    @property
    def text(self) -> str:
        return "Parallel" if self.kind == PARALLEL else f"Group {self.name}"


def build_headings(keys: Iterable[Any], groups: Mapping[Any, OutlineGroup]) -> list[dict[str, Any]]:
    """Return for each step its depth and the headings before it, from the keys of the groups."""
    headings: list[dict[str, Any]] = []
    opened: list[Any] = []
    for key in keys:
        path = _get_group_path(key, groups)
        shared_depth = next(
            (n for n, (a, b) in enumerate(zip(path, opened, strict=False)) if a != b), len(opened)
        )
        heads = [
            {"text": groups[group_key].text, "depth": depth}
            for depth, group_key in enumerate(path)
            if depth >= shared_depth
        ]
        headings.append({"depth": len(path), "heads": heads})
        opened = path
    return headings


def add_provisioner_headings(
    places: Sequence[Mapping[str, Any]], sections: Sequence[str], provisioning: int
) -> list[dict[str, Any]]:
    """Add a heading before the provisioner steps, and one before the steps after them.

    `sections` are those of the steps, in order; `provisioning` is the number of provisioner steps.
    """
    forward = [n for n, section in enumerate(sections) if section == "EXECUTION"]
    named = {0: "Provisioner", provisioning: "Deployment"} if provisioning else {}
    texts = {forward[n]: text for n, text in named.items() if n < len(forward)}
    return [
        {**place, "heads": [*([{"text": texts[n], "depth": 0}] if n in texts else []), *place["heads"]]}
        for n, place in enumerate(places)
    ]


def _get_group_path(key: Any, groups: Mapping[Any, OutlineGroup]) -> list[Any]:
    path: list[Any] = []
    while key is not None:
        path.insert(0, key)
        key = groups[key].parent
    return path


def build_outline(targets: list[StageTarget]) -> list[dict[str, Any]]:
    """Build the plan of a run that has not started, in the shape of an execution's stages."""
    return [
        {
            "identifier": target.spec.identifier,
            "name": target.spec.name,
            "status": "QUEUED",
            "service": target.service.identifier,
            "environment": target.environment.identifier,
            "infrastructure": target.infrastructure.identifier,
            "region": target.infrastructure.region,
            "cluster": target.infrastructure.cluster,
            "steps": _build_steps(target.spec),
        }
        for target in targets
    ]


def _build_steps(stage: StageSpec) -> list[dict[str, Any]]:
    steps = [
        *_build_section(stage.steps, stage.groups, "EXECUTION"),
        *_build_section(stage.rollback_steps, stage.rollback_groups, "ROLLBACK"),
    ]
    return add_provisioner_headings(steps, [step["section"] for step in steps], stage.provisioner_step_count)


def _build_section(
    steps: Sequence[StepSpec], groups: Sequence[GroupSpec], section: str
) -> list[dict[str, Any]]:
    around = {n: OutlineGroup(group.kind, group.name, group.parent) for n, group in enumerate(groups)}
    places = build_headings([step.group for step in steps], around)
    return [{**_build_step(step, section), **place} for step, place in zip(steps, places, strict=True)]


def _build_step(spec: StepSpec, section: str) -> dict[str, Any]:
    units = [
        {
            "name": u.title,
            "status": "QUEUED",
            "actions": [{"title": a.title, "state": "WAITING"} for a in u.actions],
        }
        for u in (spec.units if section == "EXECUTION" else ())
    ]
    return {
        "identifier": spec.identifier,
        "name": spec.name,
        "type": spec.type,
        "section": section,
        "status": "QUEUED",
        "units": units,
    }
