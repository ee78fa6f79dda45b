"""Operations that read an ECS service for adoption and adopt it."""

from dataclasses import dataclass
from typing import Final, NoReturn

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from catalog.models import Infrastructure, Service
from catalog.operations import ServiceSpec, create_service
from connectors.operations.identifiers import require_valid_identifier
from connectors.required_access import get_connector_requirements, require_access
from inventory.adoption.manifests import render_pipeline
from inventory.adoption.owners import annotate_other_owners, describe_other_owner, get_other_owner
from inventory.adoption.pairs import get_partner, get_reserved_arn
from inventory.adoption.proposals import AdoptionProposal, build_documents_to_keep
from inventory.adoption.refusals import check_service
from inventory.adoption.traffic.options import TrafficOption
from inventory.drift.clusters import advance_due_date
from inventory.drift.documents.differences import find_aws_defaults, find_differences
from inventory.models.adoption import Adoption
from inventory.models.instances import EcsServiceRecord
from inventory.queries.drift import EDIT_ENVIRONMENT
from inventory.tasks import queue_drift_scan
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import Principal, require
from steps.actions.ecs_service.snapshots import ECS
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

AdoptionStates = Adoption.State
RUNTIME_INPUT: Final = "<+input>"
"""The value that makes the pipeline ask for load balancer and listeners at each run."""


@dataclass(frozen=True)
class AdoptionSpec:
    """The choices for an adoption: identifier and name of the service, and the strategy.

    `traffic` is the key of a `TrafficOption` for blue/green; empty means the certain one.
    """

    identifier: str
    name: str
    strategy: str = ""
    traffic: str = ""


def list_unmanaged_services(infrastructure: Infrastructure) -> QuerySet[EcsServiceRecord]:
    """Return the ECS services of the cluster that Slipway does not deploy through this connector.

    Each has `is_elsewhere`: whether it is deployed through another connector.
    """
    adopted = Adoption.objects.filter(
        ecs_service=OuterRef("pk"), state=AdoptionStates.ADOPTED, service__isnull=False
    )
    rows = EcsServiceRecord.objects.filter(
        cluster__connector=infrastructure.connector_id,
        cluster__region=infrastructure.region,
        cluster__cluster=infrastructure.cluster,
        service=None,
        gone_at=None,
        status="ACTIVE",
    ).exclude(Exists(adopted))
    return annotate_other_owners(rows.select_related("cluster"))


def read_for_adoption(*, actor: User, infrastructure: Infrastructure, ecs_service: str) -> Adoption:
    """Request that an ECS service is read for adoption; an earlier read is replaced.

    Raises `BadInput` for an unknown or managed service, and `MissingAccess`.
    """
    require(actor, EDIT_ENVIRONMENT, infrastructure)
    require_access(actor, get_connector_requirements(infrastructure.connector, path="connector"))
    record = _get_unmanaged_service(actor, infrastructure, ecs_service)
    now = get_database_time()
    columns = {
        "state": AdoptionStates.READING, "reason": "", "documents": "", "warnings": [], "traffic": {},
        "task_definition": "", "requested_by": actor, "requested_at": now, "read_at": None,
        "adopted_at": None, "adopted_by": None, "reserved_arn": "", "service": None, "pipeline": None,
    }  # fmt: skip
    with transaction.atomic():
        existing = Adoption.objects.filter(infrastructure=infrastructure, ecs_service=record)
        adopted = existing.filter(state=AdoptionStates.ADOPTED, service__isnull=False)
        # A concurrent adoption must not be overwritten.
        if not existing.exclude(pk__in=adopted.values("pk")).update(**columns):
            _create_or_reset_adoption(infrastructure, record, columns)
        adoption = existing.select_related("infrastructure__environment__scope", "ecs_service__cluster").get()
        scan = advance_due_date(record.cluster, now)
        record_audit_entry(
            actor=actor, action="adoption.read", thing=adoption, after={"ecs_service": record.name}
        )
        transaction.on_commit(lambda: queue_drift_scan(scan.pk))
    return adoption


def _create_or_reset_adoption(
    infrastructure: Infrastructure, record: EcsServiceRecord, columns: dict[str, object]
) -> None:
    try:
        with transaction.atomic():
            Adoption.objects.create(infrastructure=infrastructure, ecs_service=record, **columns)
    except IntegrityError as exc:
        raise Conflict("Another user is reading or adopting this ECS service. Reload the list.") from exc


def _get_unmanaged_service(actor: User, infrastructure: Infrastructure, name: str) -> EcsServiceRecord:
    in_cluster = EcsServiceRecord.objects.filter(
        cluster__connector=infrastructure.connector_id,
        cluster__region=infrastructure.region,
        cluster__cluster=infrastructure.cluster,
        gone_at=None,
        name=name,
    )
    existing = in_cluster.select_related("cluster").first()
    if existing is not None and (owner := get_other_owner(existing)) is not None:
        raise _build_service_error(describe_other_owner(owner, actor))
    record = list_unmanaged_services(infrastructure).filter(name=name).first()
    if record is None:
        raise _build_service_error(
            f"No ECS service {name[:255]} to adopt in this cluster. New ECS services are listed "
            "about one minute after they are created."
        )
    return record


def _build_service_error(message: str) -> BadInput:
    return BadInput(message, errors=[{"path": "ecs_service", "message": message}])


def adopt_service(*, actor: User, adoption: Adoption, spec: AdoptionSpec) -> Adoption:
    """Create a service from the manifests and a pipeline that deploys it; nothing is called in AWS.

    It is atomic, and repeating it by the same person returns the same result. Raises `Conflict` where it
    is not ready or has changed since it was read, `BadInput`, `Forbidden` and `MissingAccess`.
    """
    require(actor, EDIT_ENVIRONMENT, adoption)
    if _is_repeated_request(actor, adoption, spec):
        return adoption
    proposal = _get_proposal(actor, adoption)
    require_valid_identifier(spec.identifier)
    strategy, option = _choose_strategy(proposal, spec), None
    if proposal.is_pair:
        option = _choose_traffic_option(proposal, spec)
    with transaction.atomic():
        service = _create_service(actor, adoption, proposal, spec)
        handed_over = adoption.ecs_service.name if proposal.controller != ECS else ""
        text = render_pipeline(strategy, adoption.infrastructure, service, option, handed_over=handed_over)
        pipeline = save_pipeline(actor=actor, scope=adoption.scope, yaml=text)
        _claim_adoption(actor, adoption, service, pipeline)
        assign_owner(adoption.ecs_service, service, adoption.infrastructure)
        scan = advance_due_date(adoption.ecs_service.cluster, get_database_time())
        after = {"service": str(service), "pipeline": str(pipeline), "strategy": strategy}
        record_audit_entry(actor=actor, action="adoption.adopt", thing=adoption, after=after)
        transaction.on_commit(lambda: queue_drift_scan(scan.pk))
    adoption.refresh_from_db()
    return adoption


def _is_repeated_request(actor: User, adoption: Adoption, spec: AdoptionSpec) -> bool:
    """Return whether this repeats a request whose response may have been lost."""
    service = adoption.service
    is_same = service is not None and service.identifier == spec.identifier
    return adoption.state == AdoptionStates.ADOPTED and is_same and adoption.adopted_by_id == actor.pk


def _create_service(
    actor: User, adoption: Adoption, proposal: AdoptionProposal, spec: AdoptionSpec
) -> Service:
    return create_service(
        actor=actor,
        scope=adoption.scope,
        identifier=spec.identifier,
        spec=ServiceSpec(
            name=spec.name,
            description=f"Adopted from ECS service {adoption.ecs_service.name}.",
            image=proposal.image.image,
            tag=proposal.image.tag or "latest",
            manifests=proposal.manifests,
        ),
    )


def _choose_strategy(proposal: AdoptionProposal, spec: AdoptionSpec) -> str:
    strategy = spec.strategy or proposal.strategies[0]
    if strategy in proposal.strategies:
        return strategy
    message = f"must be one of {', '.join(proposal.strategies)}"
    raise BadInput(
        ("The strategy is not available for this ECS service."),
        errors=[{"path": "strategy", "message": message}],
    )


def _choose_traffic_option(proposal: AdoptionProposal, spec: AdoptionSpec) -> TrafficOption | None:
    options = proposal.traffic_options
    if spec.traffic == RUNTIME_INPUT or not options.options:
        return None
    option = options.get_option(spec.traffic) if spec.traffic else options.certain_option
    if option is not None:
        return option
    message = (
        "is not one of the listener rules found; if the load balancer has changed, read the ECS service again"
        if spec.traffic
        else f"choose one of the {len(options.options)} options, or {RUNTIME_INPUT} to set it at each run"
    )
    raise BadInput("Choose the listener rules.", errors=[{"path": "traffic", "message": message}])


def _get_proposal(actor: User, adoption: Adoption) -> AdoptionProposal:
    if reason := describe_adoption_obstacle(actor, adoption):
        raise Conflict(reason)
    return AdoptionProposal.of(adoption)


def describe_adoption_obstacle(reader: Principal, adoption: Adoption) -> str:
    """Describe why the proposal cannot be adopted now; empty if it can."""
    if adoption.state == AdoptionStates.ADOPTED:
        return _describe_other_owner(adoption)
    if adoption.state != AdoptionStates.READY:
        return f'The adoption is in the state "{adoption.get_state_display()}" and cannot be completed now.'
    ecs_service = adoption.ecs_service
    if ecs_service.gone_at is not None or ecs_service.status != "ACTIVE":
        return "The ECS service no longer exists: it was deleted in AWS."
    if (owner := get_other_owner(ecs_service)) is not None:
        return describe_other_owner(owner, reader)
    if reasons := [*check_service(ecs_service.description)]:
        return reasons[0]
    if ecs_service.task_definition != adoption.task_definition or _has_changed(
        AdoptionProposal.of(adoption), ecs_service
    ):
        return "The ECS service has changed since it was read. Read it again, then adopt it."
    return ""


def _has_changed(proposal: AdoptionProposal, ecs_service: EcsServiceRecord) -> bool:
    """Return whether its settings differ from the proposal; auto scaling is not read again."""
    expected = proposal.documents
    actual = build_documents_to_keep(
        ecs_service, task_definition=None, target=expected.target, policies=expected.policies
    )
    return any(find_differences(expected, actual, aws_defaults=find_aws_defaults(expected, actual)))


def _describe_other_owner(adoption: Adoption) -> str:
    person = adoption.adopted_by
    name = person.get_username() if person else "Another user"
    return f"{name} has already adopted this ECS service. Nothing was created."


def _claim_adoption(actor: User, adoption: Adoption, service: Service, pipeline: Pipeline) -> None:
    """Mark the adoption as adopted; of concurrent requests, one succeeds."""
    rows = Adoption.objects.filter(pk=adoption.pk, state=AdoptionStates.READY)
    try:
        with transaction.atomic():
            updated = rows.update(
                state=AdoptionStates.ADOPTED,
                adopted_at=get_database_time(),
                adopted_by=actor,
                reserved_arn=get_reserved_arn(adoption.ecs_service),
                service=service,
                pipeline=pipeline,
            )
    except IntegrityError as exc:
        _raise_already_adopted(adoption, exc)
    if not updated:
        _raise_already_adopted(adoption)


def _raise_already_adopted(adoption: Adoption, cause: Exception | None = None) -> NoReturn:
    conflicts = Adoption.objects.filter(
        reserved_arn=get_reserved_arn(adoption.ecs_service), state=AdoptionStates.ADOPTED
    )
    winner = conflicts.select_related("adopted_by").first()
    raise Conflict(_describe_other_owner(winner or adoption)) from cause


def assign_owner(
    ecs_service: EcsServiceRecord, service: Service | None, infrastructure: Infrastructure | None
) -> None:
    """Set the owner of an ECS service and its partner until the next sync."""
    partner = get_partner(ecs_service)
    both = [ecs_service.pk, *([partner.pk] if partner else [])]
    EcsServiceRecord.objects.filter(pk__in=both).update(service=service, infrastructure=infrastructure)
