"""Connectors and secrets that steps reference: lookup, required permissions, missing ones."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from connectors.models import Connector
from connectors.queries import describe_missing_secret, find_connector, find_secrets
from connectors.required_access import RequiredPermission, get_connector_requirements
from pipelines.definition.parser import PipelineSpec, StageSpec, StepSpec
from pipelines.definition.stage_targets import ReferenceProblem, build_step_path
from rbac.models import Scope
from steps.kinds.registry import BadStepError, get_step_kind, get_step_kinds

ConnectorReference = tuple[str, str]


def list_step_connectors(type_: str, spec: Mapping[str, Any]) -> tuple[ConnectorReference, ...]:
    """Return the connector references of a step, each with the required kind."""
    try:
        references: tuple[ConnectorReference, ...] = getattr(
            get_step_kind(type_).parse_spec(spec), "connector_references", ()
        )
    except BadStepError:
        return ()
    return references


def list_connector_needs(stage: StageSpec, scope: Scope, path: str) -> Iterator[RequiredPermission]:
    """Yield the permissions needed for the connectors of a stage's steps; missing ones are skipped."""
    yield from list_connector_reference_needs(
        (reference for step in stage.steps for reference in list_step_connectors(step.type, step.spec)),
        scope,
        path,
    )


def list_connector_reference_needs(
    named: Iterable[ConnectorReference], scope: Scope, path: str
) -> Iterator[RequiredPermission]:
    for reference, kind in dict.fromkeys(named):
        if (connector := find_connector(scope, reference, kind)) is not None:
            yield from get_connector_requirements(
                connector, hint=f"the connector {reference} of a step", path=path
            )


def find_missing_connectors(pipeline: PipelineSpec, scope: Scope) -> list[ReferenceProblem]:
    """Return the connector references of steps without a connector of the required kind."""
    named = [
        (place, step, reference)
        for place, step in _list_steps(pipeline)
        for reference in list_step_connectors(step.type, step.spec)
    ]
    connectors = {
        reference: find_connector(scope, *reference)
        for reference in dict.fromkeys(reference for _, _, reference in named)
    }
    return [
        ReferenceProblem(
            place,
            f"step {step.identifier}: no {Connector.Kind(kind).label} connector {reference} in "
            f"{scope.path}. Create it, or correct the reference: name, org.name or account.name.",
        )
        for place, step, (reference, kind) in named
        if connectors[reference, kind] is None
    ]


def list_step_secrets(type_: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the secret references of a step; none for an unknown kind, which only another version runs."""
    kind = get_step_kinds().get(type_)
    return () if kind is None else kind.list_secret_references(spec)


def list_secret_needs(stage: StageSpec, scope: Scope, path: str) -> Iterator[RequiredPermission]:
    """Yield the permissions needed for the secrets of a stage's steps; missing ones are skipped."""
    yield from list_secret_reference_needs(
        (ref for step in stage.steps for ref in list_step_secrets(step.type, step.spec)), scope, path
    )


def list_secret_reference_needs(refs: Iterator[str], scope: Scope, path: str) -> Iterator[RequiredPermission]:
    named = list(dict.fromkeys(refs))
    secrets = find_secrets(scope, named) if named else {}
    for ref in filter(secrets.__contains__, named):
        title = f"the secret {ref}"
        yield RequiredPermission("core_secret_access", secrets[ref], title, title, path)


def find_missing_secrets(pipeline: PipelineSpec, scope: Scope) -> list[ReferenceProblem]:
    """Return the secret references of steps without a secret; one query, or none without a reference."""
    named = [
        (place, step, ref)
        for place, step in _list_steps(pipeline)
        for ref in list_step_secrets(step.type, step.spec)
    ]
    secrets = find_secrets(scope, {ref for _, _, ref in named}) if named else {}
    return [
        ReferenceProblem(place, f"step {step.identifier}: {describe_missing_secret(scope, ref)}")
        for place, step, ref in named
        if ref not in secrets
    ]


def _list_steps(pipeline: PipelineSpec) -> Iterator[tuple[str, StepSpec]]:
    """Yield the steps of all stages, without rollback steps, each with its path."""
    for number, stage in enumerate(pipeline.stages):
        for step in stage.steps:
            yield build_step_path(number, step), step
