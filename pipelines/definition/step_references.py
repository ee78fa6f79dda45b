"""Connectors and secrets that steps reference: lookup, required permissions, missing ones."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from connectors.models import Connector
from connectors.queries import SecretNotFound, find_connector, find_secret
from connectors.required_access import RequiredPermission, get_connector_requirements
from pipelines.definition.parser import PipelineSpec, StageSpec
from pipelines.definition.stage_targets import ReferenceProblem
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
    return [
        ReferenceProblem(
            f"pipeline.stages.{number}.stage.spec.execution",
            f"step {step.identifier}: no {Connector.Kind(kind).label} connector {reference} in "
            f"{scope.path}. Create it, or correct the reference: name, org.name or account.name.",
        )
        for number, stage in enumerate(pipeline.stages)
        for step in stage.steps
        for reference, kind in list_step_connectors(step.type, step.spec)
        if find_connector(scope, reference, kind) is None
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
    for ref in dict.fromkeys(refs):
        try:
            secret = find_secret(scope, ref)
        except SecretNotFound:
            continue
        title = f"the secret {ref}"
        yield RequiredPermission("core_secret_access", secret, title, title, path)


def find_missing_secrets(pipeline: PipelineSpec, scope: Scope) -> list[ReferenceProblem]:
    """Return the secret references of steps without a secret."""
    return [
        ReferenceProblem(
            f"pipeline.stages.{number}.stage.spec.execution", f"step {step.identifier}: {problem}"
        )
        for number, stage in enumerate(pipeline.stages)
        for step in stage.steps
        for ref in list_step_secrets(step.type, step.spec)
        if (problem := _describe_missing_secret(scope, ref))
    ]


def _describe_missing_secret(scope: Scope, ref: str) -> str:
    try:
        find_secret(scope, ref)
    except SecretNotFound as missing:
        return str(missing)
    return ""
