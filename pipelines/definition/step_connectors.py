"""The connectors that steps name themselves: who may use them, whether they are there, and who uses one."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from connectors.downstream import Need, needs_of_connector
from connectors.models import Connector
from connectors.queries import find_connector
from connectors.uses import Thing, Uses, uses
from pipelines.definition.parser import PipelineSpec, StageSpec, StepSpec
from pipelines.definition.targets import Missing
from pipelines.usage import by_pipelines
from rbac.models import Scope
from rbac.policy import Principal
from steps.kinds.base import BadStepError, step_kind

Named = tuple[str, str]


def connectors_of_step(type_: str, spec: Mapping[str, Any]) -> tuple[Named, ...]:
    """The references of connectors that a step uses, each with the kind that it must be of."""
    try:
        found: tuple[Named, ...] = getattr(step_kind(type_).spec_from(spec), "connector_references", ())
    except BadStepError:
        return ()
    return found


def needs_of_step_connectors(stage: StageSpec, scope: Scope, path: str) -> Iterator[Need]:
    """Yield what it takes to use the connectors of a stage's steps; missing ones are left out."""
    yield from needs_of_connector_references(
        (one for step in stage.steps for one in connectors_of_step(step.type, step.spec)), scope, path
    )


def needs_of_connector_references(named: Iterable[Named], scope: Scope, path: str) -> Iterator[Need]:
    for reference, kind in dict.fromkeys(named):
        if (found := find_connector(scope, reference, kind)) is not None:
            yield from needs_of_connector(found, hint=f"the connector {reference} of a step", path=path)


def bad_connectors(pipeline: PipelineSpec, scope: Scope) -> list[Missing]:
    """The references of steps that lead to no connector of the kind that they need."""
    return [
        Missing(
            f"pipeline.stages.{number}.stage.spec.execution",
            f"step {step.identifier}: there is no {Connector.Kind(kind).label} connector {reference} in "
            f"{scope.path}: make it, or write its reference as name, org.name or account.name.",
        )
        for number, stage in enumerate(pipeline.stages)
        for step in stage.steps
        for reference, kind in connectors_of_step(step.type, step.spec)
        if find_connector(scope, reference, kind) is None
    ]


@uses
def pipelines_by_steps(thing: Thing, principal: Principal) -> Uses:
    """The pipelines with a step that names this connector."""
    if not isinstance(thing, Connector) or thing.kind == Connector.Kind.AWS:
        return Uses()

    def names(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        named = {one for step in steps for one in connectors_of_step(step.type, step.spec)}
        return any(find_connector(scope, *one) == thing for one in named)

    return by_pipelines(thing.scope, thing.identifier, names, principal)
