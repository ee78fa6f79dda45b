"""The secrets that steps of a pipeline use: who may, whether they are there, and who uses one."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from connectors.downstream import Need
from connectors.models import Secret
from connectors.secrets import SecretMissing, find_secret
from connectors.uses import Thing, Use, Uses, uses
from deployments.models import Pipeline, StageExecution
from deployments.pipelines import BadPipelineError, PipelineSpec, StageSpec, read_pipeline
from deployments.steps.base import step_kind
from deployments.targets import Missing
from rbac.models import Scope
from rbac.policy import Principal, at_or_below, visible_to

# Reading a pipeline takes milliseconds; a page does not read more of them than this.
MOST_READ = 200


def secrets_of_step(type_: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The references of the secrets that a step uses."""
    return step_kind(type_).secrets_of(spec)


def needs_of_secrets(stage: StageSpec, scope: Scope, path: str) -> Iterator[Need]:
    """Yield what it takes to use the secrets of a stage's steps; missing ones are left out."""
    yield from _needs(
        (ref for step in stage.steps for ref in secrets_of_step(step.type, step.spec)), scope, path
    )


def needs_of_frozen_secrets(stage: StageExecution) -> Iterator[Need]:
    """Yield the same for a stage of an execution."""
    steps = stage.steps.all()
    refs = (ref for step in steps for ref in secrets_of_step(step.type, step.spec))
    yield from _needs(refs, stage.execution.scope, "")


def _needs(refs: Iterator[str], scope: Scope, path: str) -> Iterator[Need]:
    for ref in dict.fromkeys(refs):
        try:
            secret = find_secret(scope, ref)
        except SecretMissing:
            continue
        title = f"the secret {ref}"
        yield Need("core_secret_access", secret, title, title, path)


def bad_secrets(pipeline: PipelineSpec, scope: Scope) -> list[Missing]:
    """The references of steps that lead to no secret."""
    return [
        Missing(f"pipeline.stages.{number}.stage.spec.execution", f"step {step.identifier}: {problem}")
        for number, stage in enumerate(pipeline.stages)
        for step in stage.steps
        for ref in secrets_of_step(step.type, step.spec)
        if (problem := _problem(scope, ref))
    ]


def _problem(scope: Scope, ref: str) -> str:
    try:
        find_secret(scope, ref)
    except SecretMissing as missing:
        return str(missing)
    return ""


@uses
def pipelines_with(thing: Thing, principal: Principal) -> Uses:
    """The pipelines with a step that uses this secret."""
    if not isinstance(thing, Secret):
        return Uses()
    found = [one.pk for one in _near(thing)[:MOST_READ] if _names(one, thing)]
    pipelines = Pipeline.objects.filter(pk__in=found).select_related("scope")
    seen = visible_to(principal, "core_pipeline_view", pipelines).order_by("scope__path", "identifier")
    shown = tuple(Use(f"pipeline {one.name}", reverse("pipeline", args=[one.pk])) for one in seen)
    return Uses(shown, hidden=len(found) - len(shown))


def _near(secret: Secret) -> "QuerySet[Pipeline]":
    rows = Pipeline.objects.filter(at_or_below(secret.scope, "scope"), yaml__contains=secret.identifier)
    return rows.select_related("scope").order_by("scope__path", "identifier")


def _names(pipeline: Pipeline, secret: Secret) -> bool:
    try:
        stages = read_pipeline(pipeline.yaml).stages
    except BadPipelineError:
        return False
    refs = {ref for stage in stages for step in stage.steps for ref in secrets_of_step(step.type, step.spec)}
    return any(_is(pipeline.scope, ref, secret) for ref in refs)


def _is(scope: Scope, ref: str, secret: Secret) -> bool:
    try:
        return find_secret(scope, ref) == secret
    except SecretMissing:
        return False
