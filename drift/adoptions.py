"""What a person can do to take over an ECS service: have it read, then adopt it as it runs."""

from dataclasses import dataclass

import yaml
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.operations.naming import check_identifier
from delegates.clock import database_now
from deployments.authoring import save_pipeline
from deployments.catalog import ServiceSpec, create_service
from deployments.models import Infrastructure
from deployments.starters import new_pipeline
from drift.adopting import Proposal
from drift.clusters import ask_for
from drift.models import Adoption
from drift.queries import EDIT
from drift.tasks import look_soon
from instances.models import SeenService
from rbac.audit import record
from rbac.models import User
from rbac.policy import require
from web.problems import BadInput, Conflict

States = Adoption.State


@dataclass(frozen=True)
class AdoptionSpec:
    """What a person chooses of what is made: the service's identifier and name, and the strategy."""

    identifier: str
    name: str
    strategy: str = ""


def unknown_services(infrastructure: Infrastructure) -> QuerySet[SeenService]:
    """The ECS services of its cluster that Slipway does not deploy, as sync has seen them."""
    adopted = Adoption.objects.filter(seen=OuterRef("pk"), state=States.ADOPTED, service__isnull=False)
    return (
        SeenService.objects.filter(
            cluster__connector=infrastructure.connector_id,
            cluster__region=infrastructure.region,
            cluster__cluster=infrastructure.cluster,
            service=None,
            gone_at=None,
            status="ACTIVE",
        )
        .exclude(Exists(adopted))
        .select_related("cluster")
    )


def read_for_adoption(*, actor: User, infrastructure: Infrastructure, ecs_service: str) -> Adoption:
    """Have an ECS service read back; what was read before is read anew.

    Raises `BadInput` where there is none of that name that is not Slipway's, and `LacksAccess`.
    """
    require(actor, EDIT, infrastructure)
    refuse_lacking(actor, needs_of_connector(infrastructure.connector, path="connector"))
    seen = unknown_services(infrastructure).filter(name=ecs_service).first()
    if seen is None:
        message = (
            f"There is no ECS service {ecs_service[:255]} in this cluster that is not Slipway's already. "
            "A new one is listed about a minute after it was made."
        )
        raise BadInput(message, errors=[{"path": "ecs_service", "message": message}])
    now = database_now()
    fresh = {
        "state": States.READING, "reason": "", "documents": "", "warnings": [], "task_definition": "",
        "asked_by": actor, "asked_at": now, "read_at": None, "adopted_at": None, "service": None,
        "pipeline": None,
    }  # fmt: skip
    with transaction.atomic():
        adoption, _ = Adoption.objects.update_or_create(
            infrastructure=infrastructure, seen=seen, defaults=fresh
        )
        compared = ask_for(seen.cluster, now)
        record(actor=actor, action="adoption.read", thing=adoption, after={"ecs_service": seen.name})
        transaction.on_commit(lambda: look_soon(compared.pk))
    return adoption


def adopt(*, actor: User, adoption: Adoption, spec: AdoptionSpec) -> Adoption:
    """Make a service with the manifests that were read, and a pipeline that deploys it; nothing is called.

    All of it is made, or nothing. Raises `Conflict` where it is not ready or changed since it was read,
    `BadInput` for what cannot be made, `Forbidden` and `LacksAccess`.
    """
    require(actor, EDIT, adoption)
    scope = adoption.scope
    proposal = _proposal(adoption)
    check_identifier(spec.identifier)
    strategy = spec.strategy or proposal.strategies[0]
    if strategy not in proposal.strategies:
        message = f"must be one of {', '.join(proposal.strategies)}"
        raise BadInput("The strategy does not fit.", errors=[{"path": "strategy", "message": message}])
    place = adoption.infrastructure
    with transaction.atomic():
        _take(adoption)
        service = create_service(
            actor=actor,
            scope=scope,
            identifier=spec.identifier,
            spec=ServiceSpec(
                name=spec.name,
                description=f"Taken over from ECS service {adoption.seen.name}.",
                image=proposal.image.image,
                tag=proposal.image.tag or "latest",
                manifests=proposal.manifests,
            ),
        )
        text = new_pipeline(
            strategy,
            service=spec.identifier,
            environment=place.environment.identifier,
            infrastructure=place.identifier,
            title=spec.name,
        )
        pipeline = save_pipeline(actor=actor, scope=scope, yaml=_asking(text))
        Adoption.objects.filter(pk=adoption.pk).update(service=service, pipeline=pipeline)
        SeenService.objects.filter(pk=adoption.seen_id).update(service=service, infrastructure=place)
        compared = ask_for(adoption.seen.cluster, database_now())
        after = {"service": str(service), "pipeline": str(pipeline), "strategy": strategy}
        record(actor=actor, action="adoption.adopt", thing=adoption, after=after)
        transaction.on_commit(lambda: look_soon(compared.pk))
    adoption.refresh_from_db()
    return adoption


def _proposal(adoption: Adoption) -> Proposal:
    if adoption.state != States.READY:
        raise Conflict(f"This is {adoption.get_state_display().lower()}: it cannot be adopted now.")
    seen = adoption.seen
    if seen.task_definition != adoption.task_definition or seen.gone_at is not None:
        raise Conflict("The ECS service has changed since it was read. Read it again, then adopt it.")
    return Proposal.of(adoption)


def _take(adoption: Adoption) -> None:
    """Of two who adopt at once, one does."""
    now = database_now()
    rows = Adoption.objects.filter(pk=adoption.pk, state=States.READY)
    if not rows.update(state=States.ADOPTED, adopted_at=now):
        raise Conflict("Somebody else has adopted it meanwhile.")


def _asking(text: str) -> str:
    """The same pipeline, asking at each run for what nobody can read back: a listener, say."""
    document = yaml.safe_load(text)
    for stage in document["pipeline"]["stages"]:
        for one in stage["stage"]["spec"]["execution"]["steps"]:
            for name, value in (one["step"].get("spec") or {}).items():
                if isinstance(value, str) and value.startswith("my-"):
                    one["step"]["spec"][name] = "<+input>"
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
