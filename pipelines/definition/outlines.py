"""The outline of a run that has not begun: its stages, steps, units and actions by name."""

from collections.abc import Sequence
from typing import Any

from pipelines.definition.headings import Around, headings, parted
from pipelines.definition.parser import GroupSpec, StageSpec, StepSpec
from pipelines.definition.targets import Target


def outlined(targets: list[Target]) -> list[dict[str, Any]]:
    """The plan of a run that has not begun, in the shape of an execution's stages."""
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
            "steps": _steps(target.spec),
        }
        for target in targets
    ]


def _steps(stage: StageSpec) -> list[dict[str, Any]]:
    steps = [
        *_placed(stage.steps, stage.groups, "EXECUTION"),
        *_placed(stage.rollback_steps, stage.rollback_groups, "ROLLBACK"),
    ]
    return parted(steps, [step["section"] for step in steps], stage.provisioner_steps)


def _placed(steps: Sequence[StepSpec], groups: Sequence[GroupSpec], section: str) -> list[dict[str, Any]]:
    around = {n: Around(one.kind, one.name, one.parent) for n, one in enumerate(groups)}
    places = headings([step.group for step in steps], around)
    return [{**_step(step, section), **place} for step, place in zip(steps, places, strict=True)]


def _step(spec: StepSpec, section: str) -> dict[str, Any]:
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
