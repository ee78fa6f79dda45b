"""Operations that preview an import, and create all of it or nothing."""

from dataclasses import dataclass, replace

from django.db import transaction

from catalog.models import Environment, Infrastructure, Service
from catalog.operations import (
    EnvironmentSpec,
    InfrastructureSpec,
    create_environment,
    create_infrastructure,
    create_service,
)
from catalog.usages import describe_takeover
from connectors.models import Connector
from connectors.queries import find_connector
from pipelines.imports.proposals import TOOLS, ImportProposal, ImportSpec, build_proposal
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import can, filter_visible, require
from web.http.problems import BadInput, Conflict


@dataclass(frozen=True)
class CreatedImport:
    """The resources of an import; environment and infrastructure may have existed.

    `takeovers` says which pipelines use them in place of resources of scopes above.
    """

    service: Service
    infrastructure: Infrastructure
    pipeline: Pipeline
    takeovers: tuple[str, ...]


def preview_import(*, actor: User, scope: Scope, spec: ImportSpec) -> ImportProposal:
    """Return what an import would create, after creating it on trial: nothing stays.

    Raises what `create_import` raises for the same input.
    """
    _require_permissions(actor, scope)
    proposal = build_proposal(spec)
    with transaction.atomic():
        created = _create(actor, scope, proposal, list(spec.files))
        transaction.set_rollback(True)
    return replace(proposal, takeovers=created.takeovers)


def create_import(*, actor: User, scope: Scope, spec: ImportSpec, digest: str) -> CreatedImport:
    """Create service, infrastructure and pipeline of an import in one transaction; AWS is not called.

    `digest` is that of the previewed proposal. Raises `ImportRefused` for the files, `Conflict` if the
    proposal differs from its preview, and what the operations of each resource raise.
    """
    _require_permissions(actor, scope)
    proposal = build_proposal(spec)
    if proposal.digest != digest:
        raise Conflict("The import differs from its preview. Preview it again, then create it.")
    with transaction.atomic():
        return _create(actor, scope, proposal, list(spec.files))


def _require_permissions(actor: User, scope: Scope) -> None:
    """Require the permissions before the files are read, which takes time."""
    require(actor, "core_service_edit", scope)
    require(actor, "core_pipeline_edit", scope)


def _create(actor: User, scope: Scope, proposal: ImportProposal, files: list[str]) -> CreatedImport:
    environment, is_new = _get_or_create_environment(actor, scope, proposal)
    infrastructure = _get_or_create_infrastructure(actor, environment, proposal)
    service = create_service(actor=actor, scope=scope, identifier=proposal.identifier, spec=proposal.service)
    # Before the pipeline of the import is there, which uses them too.
    takeovers = tuple(
        takeover
        for thing in (service, *([environment] if is_new else ()))
        if (takeover := describe_takeover(thing, actor))
    )
    pipeline = save_pipeline(actor=actor, scope=scope, yaml=proposal.pipeline)
    after = {
        "tool": proposal.tool,
        "files": files,
        "infrastructure": str(infrastructure),
        "pipeline": str(pipeline),
    }
    record_audit_entry(actor=actor, action="service.import", thing=service, after=after)
    return CreatedImport(service, infrastructure, pipeline, takeovers)


def _get_or_create_environment(
    actor: User, scope: Scope, proposal: ImportProposal
) -> tuple[Environment, bool]:
    """Return the environment with the identifier, and whether it is new."""
    rows = Environment.objects.filter(scope=scope, identifier=proposal.environment).select_related("scope")
    environment = filter_visible(actor, "core_environment_view", rows).first()
    if environment is not None:
        return environment, False
    spec = EnvironmentSpec(name=proposal.environment, description=_describe_origin(proposal))
    return create_environment(actor=actor, scope=scope, identifier=proposal.environment, spec=spec), True


def _get_or_create_infrastructure(
    actor: User, environment: Environment, proposal: ImportProposal
) -> Infrastructure:
    """Return the infrastructure with the identifier, which must be for the same cluster, or create it."""
    existing = environment.infrastructures.filter(identifier=proposal.infrastructure).first()
    if existing is None:
        return create_infrastructure(
            actor=actor,
            environment=environment,
            identifier=proposal.infrastructure,
            spec=InfrastructureSpec(
                name=proposal.cluster or proposal.infrastructure,
                connector=_get_connector(actor, environment.scope, proposal.connector),
                region=proposal.region,
                cluster=proposal.cluster,
            ),
        )
    if (existing.region, existing.cluster) != (proposal.region, proposal.cluster):
        message = (
            f"is for the cluster {existing.cluster} in {existing.region}, and the files are for "
            f"{proposal.cluster} in {proposal.region or 'no region'}: choose another infrastructure"
        )
        raise _build_error("infrastructure", message)
    return existing


def _get_connector(actor: User, scope: Scope, reference: str) -> Connector:
    connector = find_connector(scope, reference, Connector.Kind.AWS) if reference else None
    if connector is None or not can(actor, "core_connector_view", connector):
        raise _build_error("connector", "must be an AWS connector in this scope or above")
    return connector


def _build_error(path: str, message: str) -> BadInput:
    return BadInput("The import is not valid.", errors=[{"path": path, "message": message}])


def _describe_origin(proposal: ImportProposal) -> str:
    return f"Created by an import from {TOOLS[proposal.tool]}."
