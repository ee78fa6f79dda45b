"""What people can do with the infrastructures of an environment."""

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from catalog.infrastructure_fields import field_problems
from catalog.models import Environment, Infrastructure
from catalog.operations.rules import next_version
from catalog.usage import refuse_used
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.models import Connector
from connectors.operations.naming import check_identifier, clean_name, still_used, taken
from rbac.audit import record
from rbac.models import User
from rbac.policy import require
from web.problems import BadInput


@dataclass(frozen=True)
class InfrastructureSpec:
    """Everything that can be said of an infrastructure beside its identifier."""

    name: str
    connector: Connector
    region: str
    cluster: str
    is_dynamic: bool = False
    """Whether region and cluster are mapped to what a provisioner makes (R188)."""


def create_infrastructure(
    *, actor: User, environment: Environment, identifier: str, spec: InfrastructureSpec
) -> Infrastructure:
    """Add a place to an environment. Raises `BadInput` or `Conflict`."""
    require(actor, "core_environment_edit", environment)
    check_identifier(identifier)
    place = Infrastructure(environment=environment, identifier=identifier)
    _fill(actor, place, spec)
    try:
        with transaction.atomic():
            place.save()
            record(actor=actor, action="infrastructure.create", thing=place, after=_record(place))
    except IntegrityError as exc:
        raise taken("infrastructure", identifier) from exc
    return place


def update_infrastructure(
    *, actor: User, infrastructure: Infrastructure, spec: InfrastructureSpec, version: int | None = None
) -> Infrastructure:
    """Replace everything about a place but its identifier.

    Raises `ChangedMeanwhile` where a `version` is given that is no longer the current one.
    """
    require(actor, "core_environment_edit", infrastructure)
    before = _record(infrastructure)
    _fill(actor, infrastructure, spec)
    with transaction.atomic():
        next_version(infrastructure, version)
        infrastructure.save(update_fields=["name", "connector", "region", "cluster", "is_dynamic"])
        after = _record(infrastructure)
        record(actor=actor, action="infrastructure.update", thing=infrastructure, before=before, after=after)
    return infrastructure


def delete_infrastructure(
    *, actor: User, infrastructure: Infrastructure, although_used: bool = False
) -> None:
    """Remove a place from its environment; what is deployed there keeps running.

    Raises `StillUsed` while a pipeline means it, unless that is accepted by `although_used`.
    """
    require(actor, "core_environment_edit", infrastructure)
    if not although_used:
        refuse_used(infrastructure, actor)
    try:
        with transaction.atomic():
            before = _record(infrastructure)
            record(actor=actor, action="infrastructure.delete", thing=infrastructure, before=before)
            infrastructure.delete()
    except ProtectedError as exc:
        raise still_used(infrastructure, exc) from exc


def _fill(actor: User, place: Infrastructure, spec: InfrastructureSpec) -> None:
    _refuse_bad_place(spec)
    if spec.connector.scope.path not in place.environment.scope.ancestor_paths():
        message = f"The connector lies in {spec.connector.scope}, which is not above the environment."
        raise BadInput(message, errors=[{"path": "connector", "message": message}])
    if (place.connector_id, place.region, place.cluster) != (spec.connector.pk, spec.region, spec.cluster):
        # R082: whoever puts a connector to use must be allowed to use it.
        refuse_lacking(actor, needs_of_connector(spec.connector, path="connector"))
    place.name, place.connector = clean_name(spec.name), spec.connector
    place.region, place.cluster, place.is_dynamic = spec.region, spec.cluster, spec.is_dynamic


def _refuse_bad_place(spec: InfrastructureSpec) -> None:
    found = list(field_problems(spec.region, spec.cluster, is_dynamic=spec.is_dynamic))
    if found:
        errors = [{"path": field, "message": message} for field, message in found]
        raise BadInput(found[0][1], errors=errors)


def _record(place: Infrastructure) -> dict[str, Any]:
    return {
        "name": place.name,
        "connector": str(place.connector),
        "region": place.region,
        "cluster": place.cluster,
        "is_dynamic": place.is_dynamic,
    }
