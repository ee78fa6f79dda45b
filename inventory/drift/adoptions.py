"""What a person can do to take over an ECS service: have it read, then adopt it as it runs."""

from dataclasses import dataclass
from typing import Final, NoReturn

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from catalog.models import Infrastructure, Service
from catalog.operations import ServiceSpec, create_service
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.operations.naming import check_identifier
from inventory.drift.adopting import Proposal
from inventory.drift.clusters import ask_for
from inventory.drift.documents.comparing import choices, differences
from inventory.drift.documents.refusing import refusals_of_service
from inventory.drift.elsewhere import owner_elsewhere, told_of, with_others
from inventory.drift.pairs import held_by, partner_of
from inventory.drift.pipelines import pipeline_text
from inventory.drift.queries import EDIT
from inventory.drift.running import running_documents
from inventory.drift.tasks import look_soon
from inventory.drift.traffic.fitting import Choice
from inventory.models.drift import Adoption
from inventory.models.instances import SeenService
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.audit import record
from rbac.models import User
from rbac.policy import Principal, require
from web.clock import database_now
from web.problems import BadInput, Conflict

States = Adoption.State
ASK: Final = "<+input>"
"""Instead of a choice: the pipeline asks for load balancer and listeners at each run."""


@dataclass(frozen=True)
class AdoptionSpec:
    """What a person chooses of what is made: the service's identifier and name, and the strategy.

    `traffic` is the key of a `Choice`, for BlueGreen; empty means the one that is sure.
    """

    identifier: str
    name: str
    strategy: str = ""
    traffic: str = ""


def unknown_services(infrastructure: Infrastructure) -> QuerySet[SeenService]:
    """The ECS services of its cluster that nobody deploys by this connector.

    Each has `is_elsewhere`: whether somebody does by another one.
    """
    adopted = Adoption.objects.filter(seen=OuterRef("pk"), state=States.ADOPTED, service__isnull=False)
    rows = SeenService.objects.filter(
        cluster__connector=infrastructure.connector_id,
        cluster__region=infrastructure.region,
        cluster__cluster=infrastructure.cluster,
        service=None,
        gone_at=None,
        status="ACTIVE",
    ).exclude(Exists(adopted))
    return with_others(rows.select_related("cluster"))


def read_for_adoption(*, actor: User, infrastructure: Infrastructure, ecs_service: str) -> Adoption:
    """Have an ECS service read back; what was read before is read anew.

    Raises `BadInput` where there is none of that name that is not Slipway's, and `LacksAccess`.
    """
    require(actor, EDIT, infrastructure)
    refuse_lacking(actor, needs_of_connector(infrastructure.connector, path="connector"))
    seen = _unowned(actor, infrastructure, ecs_service)
    now = database_now()
    fresh = {
        "state": States.READING, "reason": "", "documents": "", "warnings": [], "traffic": {},
        "task_definition": "", "asked_by": actor, "asked_at": now, "read_at": None, "adopted_at": None,
        "adopted_by": None, "held": "", "service": None, "pipeline": None,
    }  # fmt: skip
    with transaction.atomic():
        known = Adoption.objects.filter(infrastructure=infrastructure, seen=seen)
        taken = known.filter(state=States.ADOPTED, service__isnull=False)
        # Never over an adoption of the same moment.
        if not known.exclude(pk__in=taken.values("pk")).update(**fresh):
            _begin(infrastructure, seen, fresh)
        adoption = known.select_related("infrastructure__environment__scope", "seen__cluster").get()
        compared = ask_for(seen.cluster, now)
        record(actor=actor, action="adoption.read", thing=adoption, after={"ecs_service": seen.name})
        transaction.on_commit(lambda: look_soon(compared.pk))
    return adoption


def _begin(infrastructure: Infrastructure, seen: SeenService, fresh: dict[str, object]) -> None:
    try:
        with transaction.atomic():
            Adoption.objects.create(infrastructure=infrastructure, seen=seen, **fresh)
    except IntegrityError as exc:
        raise Conflict("Somebody else reads or adopts it at this moment. Look at the list again.") from exc


def _unowned(actor: User, infrastructure: Infrastructure, name: str) -> SeenService:
    here = SeenService.objects.filter(
        cluster__connector=infrastructure.connector_id,
        cluster__region=infrastructure.region,
        cluster__cluster=infrastructure.cluster,
        gone_at=None,
        name=name,
    )
    any_of_it = here.select_related("cluster").first()
    if any_of_it is not None and (owner := owner_elsewhere(any_of_it)) is not None:
        raise _bad_service(told_of(owner, actor))
    seen = unknown_services(infrastructure).filter(name=name).first()
    if seen is None:
        raise _bad_service(
            f"There is no ECS service {name[:255]} in this cluster that is not Slipway's already. "
            "A new one is listed about a minute after it was made."
        )
    return seen


def _bad_service(message: str) -> BadInput:
    return BadInput(message, errors=[{"path": "ecs_service", "message": message}])


def adopt(*, actor: User, adoption: Adoption, spec: AdoptionSpec) -> Adoption:
    """Make a service with the manifests that were read, and a pipeline that deploys it; nothing is called.

    All of it is made, or nothing; asked for again by the same person, the same is answered. Raises `Conflict`
    where it is not ready or changed since it was read, `BadInput` for what cannot be made, `Forbidden` and
    `LacksAccess`.
    """
    require(actor, EDIT, adoption)
    if _is_done(actor, adoption, spec):
        return adoption
    proposal = _proposal(actor, adoption)
    check_identifier(spec.identifier)
    strategy, choice = _strategy(proposal, spec), None
    if proposal.is_pair:
        choice = _choice(proposal, spec)
    with transaction.atomic():
        service = _service(actor, adoption, proposal, spec)
        text = pipeline_text(strategy, adoption.infrastructure, service, choice)
        pipeline = save_pipeline(actor=actor, scope=adoption.scope, yaml=text)
        _take(actor, adoption, service, pipeline)
        own(adoption.seen, service, adoption.infrastructure)
        compared = ask_for(adoption.seen.cluster, database_now())
        after = {"service": str(service), "pipeline": str(pipeline), "strategy": strategy}
        record(actor=actor, action="adoption.adopt", thing=adoption, after=after)
        transaction.on_commit(lambda: look_soon(compared.pk))
    adoption.refresh_from_db()
    return adoption


def _is_done(actor: User, adoption: Adoption, spec: AdoptionSpec) -> bool:
    """Whether this is the same request once more: its answer may have been lost."""
    service = adoption.service
    is_same = service is not None and service.identifier == spec.identifier
    return adoption.state == States.ADOPTED and is_same and adoption.adopted_by_id == actor.pk


def _service(actor: User, adoption: Adoption, proposal: Proposal, spec: AdoptionSpec) -> Service:
    return create_service(
        actor=actor,
        scope=adoption.scope,
        identifier=spec.identifier,
        spec=ServiceSpec(
            name=spec.name,
            description=f"Taken over from ECS service {adoption.seen.name}.",
            image=proposal.image.image,
            tag=proposal.image.tag or "latest",
            manifests=proposal.manifests,
        ),
    )


def _strategy(proposal: Proposal, spec: AdoptionSpec) -> str:
    strategy = spec.strategy or proposal.strategies[0]
    if strategy in proposal.strategies:
        return strategy
    message = f"must be one of {', '.join(proposal.strategies)}"
    raise BadInput("The strategy does not fit.", errors=[{"path": "strategy", "message": message}])


def _choice(proposal: Proposal, spec: AdoptionSpec) -> Choice | None:
    fit = proposal.fit
    if spec.traffic == ASK or not fit.choices:
        return None
    found = fit.chosen(spec.traffic) if spec.traffic else fit.only
    if found is not None:
        return found
    message = (
        "is none of those that were found; read the ECS service again if the load balancer has changed"
        if spec.traffic
        else f"choose one of {len(fit.choices)} that fit, or {ASK} to be asked at each run"
    )
    raise BadInput("Choose the listener rules.", errors=[{"path": "traffic", "message": message}])


def _proposal(actor: User, adoption: Adoption) -> Proposal:
    if reason := why_not(actor, adoption):
        raise Conflict(reason)
    return Proposal.of(adoption)


def why_not(reader: Principal, adoption: Adoption) -> str:
    """What keeps what was read from being adopted now; empty if nothing does."""
    if adoption.state == States.ADOPTED:
        return _told_of_others(adoption)
    if adoption.state != States.READY:
        return f"This is {adoption.get_state_display().lower()}: it cannot be adopted now."
    seen = adoption.seen
    if seen.gone_at is not None or seen.status != "ACTIVE":
        return "The ECS service is not there any more: somebody has deleted it in AWS."
    if (owner := owner_elsewhere(seen)) is not None:
        return told_of(owner, reader)
    if refused := [*refusals_of_service(seen.answered)]:
        return refused[0]
    if seen.task_definition != adoption.task_definition or _differs(Proposal.of(adoption), seen):
        return "The ECS service has changed since it was read. Read it again, then adopt it."
    return ""


def _differs(proposal: Proposal, seen: SeenService) -> bool:
    """Whether its settings are not those that were read; what scales it is not asked again."""
    read = proposal.documents
    now = running_documents(seen, task_definition=None, target=read.target, policies=read.policies)
    return any(differences(read, now, chosen=choices(read, now)))


def _told_of_others(adoption: Adoption) -> str:
    person = adoption.adopted_by
    who = person.get_username() if person else "Somebody else"
    return f"{who} has adopted it meanwhile. Nothing was made for you."


def _take(actor: User, adoption: Adoption, service: Service, pipeline: Pipeline) -> None:
    """Of several who adopt at once, by whatever infrastructure or connector, one does."""
    rows = Adoption.objects.filter(pk=adoption.pk, state=States.READY)
    try:
        with transaction.atomic():
            taken = rows.update(
                state=States.ADOPTED,
                adopted_at=database_now(),
                adopted_by=actor,
                held=held_by(adoption.seen),
                service=service,
                pipeline=pipeline,
            )
    except IntegrityError as exc:
        _refuse_late(adoption, exc)
    if not taken:
        _refuse_late(adoption)


def _refuse_late(adoption: Adoption, cause: Exception | None = None) -> NoReturn:
    others = Adoption.objects.filter(held=held_by(adoption.seen), state=States.ADOPTED)
    winner = others.select_related("adopted_by").first()
    raise Conflict(_told_of_others(winner or adoption)) from cause


def own(seen: SeenService, service: Service | None, place: Infrastructure | None) -> None:
    """Say whose an ECS service is, and the other one of its pair, until the next sync says the same."""
    partner = partner_of(seen)
    both = [seen.pk, *([partner.pk] if partner else [])]
    SeenService.objects.filter(pk__in=both).update(service=service, infrastructure=place)
