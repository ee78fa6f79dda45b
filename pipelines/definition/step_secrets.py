"""The secrets that steps of a pipeline use: who may, whether they are there, and who uses one."""

from collections.abc import Iterator, Mapping
from typing import Any

from connectors.downstream import Need
from connectors.models import Secret
from connectors.secrets import SecretMissing, find_secret
from connectors.uses import Thing, Uses, uses
from pipelines.definition.parser import PipelineSpec, StageSpec, StepSpec
from pipelines.definition.targets import Missing
from pipelines.usage import by_pipelines
from rbac.models import Scope
from rbac.policy import Principal
from steps.kinds.base import step_kind


def secrets_of_step(type_: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The references of the secrets that a step uses."""
    return step_kind(type_).secrets_of(spec)


def needs_of_secrets(stage: StageSpec, scope: Scope, path: str) -> Iterator[Need]:
    """Yield what it takes to use the secrets of a stage's steps; missing ones are left out."""
    yield from needs_of_secret_references(
        (ref for step in stage.steps for ref in secrets_of_step(step.type, step.spec)), scope, path
    )


def needs_of_secret_references(refs: Iterator[str], scope: Scope, path: str) -> Iterator[Need]:
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

    def names(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        refs = {ref for step in steps for ref in secrets_of_step(step.type, step.spec)}
        return any(_is(scope, ref, thing) for ref in refs)

    return by_pipelines(thing.scope, thing.identifier, names, principal)


def _is(scope: Scope, ref: str, secret: Secret) -> bool:
    try:
        return find_secret(scope, ref) == secret
    except SecretMissing:
        return False
