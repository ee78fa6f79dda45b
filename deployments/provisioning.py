"""Infrastructures that a stage makes itself: what they say, and which stages settle them (R184-R188)."""

import re
from collections.abc import Iterator
from typing import Final

from aws.regions import regions
from deployments.late import PLACE
from deployments.models import Infrastructure
from deployments.pipelines import StageSpec
from steps.conditions import read_condition
from steps.expressions import BadExpressionError, has_expression, is_path, named_in, resolve
from steps.provisioner_outputs import is_provided, known_outputs, path_problem, provisioner_types

CLUSTER: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,254}\Z"
NOT_A_CLUSTER = "A cluster's name has letters, digits, - and _, 255 at most; an ARN is not a name."


def said_of(place: Infrastructure) -> dict[str, str] | None:
    """Region and cluster of a dynamic infrastructure as they are written; None of another one."""
    return {"region": place.region, "cluster": place.cluster} if place.is_dynamic else None


def region_problem(region: str) -> str:
    """What is wrong with a region, or nothing: it becomes part of the address that is called."""
    known = {one.name for one in regions()}
    return "" if region in known else f"{region[:100] or 'Nothing'} is not a region of AWS."


def cluster_problem(cluster: str) -> str:
    """What is wrong with the name of a cluster, or nothing."""
    return "" if re.match(CLUSTER, cluster) else NOT_A_CLUSTER


def field_problems(region: str, cluster: str, *, is_dynamic: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with the fields of an infrastructure, as (field, sentence)."""
    if is_dynamic and not (has_expression(region) or has_expression(cluster)):
        yield "cluster", "Map region and cluster to outputs, such as <+provisioner.cluster_name>."
        return
    for field, value, problem_of in (
        ("region", region, region_problem),
        ("cluster", cluster, cluster_problem),
    ):
        if is_dynamic and has_expression(value):
            problem = _expression_problem(value)
        elif has_expression(value):
            problem = "An expression can stand here where the infrastructure is dynamically provisioned."
        else:
            problem = problem_of(value)
        if problem:
            yield field, problem


def _expression_problem(text: str) -> str:
    try:
        resolve(text, {}, later=lambda path: True)
    except BadExpressionError as bad:
        return bad.message
    for _, path in named_in(text):
        if not is_path(path):
            return f"<+{path[:100]}> is not a path such as <+provisioner.cluster_name>."
        if path.partition(".")[0] == "infra":
            return f"<+{path}> would name itself: map an output, such as <+provisioner.cluster_name>."
    return ""


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
