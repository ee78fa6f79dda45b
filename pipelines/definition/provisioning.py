"""Infrastructures that a stage makes itself: what they say, and which stages settle them (R184-R188)."""

from collections.abc import Iterator

from catalog.models import Infrastructure
from pipelines.completion.deferred_expressions import PLACE
from pipelines.definition.parser import StageSpec
from steps.conditions import read_condition
from steps.expressions import named_in
from steps.provisioner_outputs import is_provided, known_outputs, path_problem, provisioner_types


def said_of(place: Infrastructure) -> dict[str, str] | None:
    """Region and cluster of a dynamic infrastructure as they are written; None of another one."""
    return {"region": place.region, "cluster": place.cluster} if place.is_dynamic else None


def stage_faults(stage: StageSpec, place: Infrastructure) -> Iterator[str]:
    """Why a stage could never settle where it deploys, as sentences; nothing of a pre-existing place."""
    if not place.is_dynamic:
        return
    yield from _too_early(stage)
    steps = [step for step in stage.steps[: stage.provisioner_steps] if step.type in provisioner_types()]
    known = known_outputs((step.type, step.spec) for step in steps)
    for field in ("region", "cluster"):
        for _, path in named_in(getattr(place, field)):
            if is_provided(path) and (problem := path_problem(path, known, has_any=bool(steps))):
                yield f"infrastructure {place.identifier} maps its {field}: {problem}"


def _too_early(stage: StageSpec) -> Iterator[str]:
    """The steps of a provisioner that name where it all goes, which they themselves decide."""
    for step in stage.steps[: stage.provisioner_steps]:
        condition = (step.when or {}).get("condition")
        named = [path for _, path in named_in(step.spec)]
        named += read_condition(condition).paths if condition else ()
        for path in dict.fromkeys(one for one in named if one in PLACE):
            yield (
                f"step {step.identifier} names <+{path}>, which is known once the provisioner's steps have "
                "ended: say it in the step itself, as by a variable of the pipeline"
            )
