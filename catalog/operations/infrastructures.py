"""Operations on the infrastructures of an environment."""

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from catalog.infrastructure_checks import list_field_problems
from catalog.models import Environment, Infrastructure
from catalog.operations.resources import increment_version
from catalog.usages import require_unused
from connectors.models import Connector
from connectors.operations.identifiers import (
    build_identifier_conflict,
    build_in_use_conflict,
    require_valid_identifier,
    validate_name,
)
from connectors.required_access import get_connector_requirements, require_access
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import require
from web.http.problems import BadInput
from web.managed_resources import proposes_change, require_unmanaged


@dataclass(frozen=True)
class InfrastructureSpec:
    """The fields of an infrastructure except its identifier."""

    name: str
    connector: Connector
    region: str
    cluster: str
    is_dynamic: bool = False
    """Whether region and cluster are mapped to what a provisioner makes (R188)."""


def create_infrastructure(
    *, actor: User, environment: Environment, identifier: str, spec: InfrastructureSpec
) -> Infrastructure:
    """Create an infrastructure in an environment. Raises `BadInput` or `Conflict`."""
    require(actor, "core_environment_edit", environment)
    require_valid_identifier(identifier)
    place = Infrastructure(environment=environment, identifier=identifier)
    _apply_spec(actor, place, spec)
    try:
        with transaction.atomic():
            place.save()
            record_audit_entry(
                actor=actor, action="infrastructure.create", thing=place, after=_build_audit_record(place)
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("infrastructure", identifier) from exc
    return place


@proposes_change("infrastructure")
def update_infrastructure(
    *, actor: User, infrastructure: Infrastructure, spec: InfrastructureSpec, version: int | None = None
) -> Infrastructure:
    """Replace all fields of an infrastructure except its identifier.

    Raises `VersionConflict` if `version` is given and outdated.
    """
    require(actor, "core_environment_edit", infrastructure)
    require_unmanaged(infrastructure)
    before = _build_audit_record(infrastructure)
    _apply_spec(actor, infrastructure, spec)
    with transaction.atomic():
        increment_version(infrastructure, version)
        infrastructure.save(update_fields=["name", "connector", "region", "cluster", "is_dynamic"])
        after = _build_audit_record(infrastructure)
        record_audit_entry(
            actor=actor, action="infrastructure.update", thing=infrastructure, before=before, after=after
        )
    return infrastructure


def delete_infrastructure(
    *, actor: User, infrastructure: Infrastructure, although_used: bool = False
) -> None:
    """Delete an infrastructure; deployed services keep running.

    Raises `ResourceInUse` while a pipeline references it, unless `although_used`.
    """
    require(actor, "core_environment_edit", infrastructure)
    require_unmanaged(infrastructure)
    if not although_used:
        require_unused(infrastructure, actor)
    try:
        with transaction.atomic():
            before = _build_audit_record(infrastructure)
            record_audit_entry(
                actor=actor, action="infrastructure.delete", thing=infrastructure, before=before
            )
            infrastructure.delete()
    except ProtectedError as exc:
        raise build_in_use_conflict(infrastructure, exc) from exc


def _apply_spec(actor: User, place: Infrastructure, spec: InfrastructureSpec) -> None:
    _validate_spec(spec)
    if spec.connector.scope.path not in place.environment.scope.ancestor_paths():
        message = (
            f"The connector is in {spec.connector.scope}. Use a connector in the scope of the environment "
            "or above."
        )
        raise BadInput(message, errors=[{"path": "connector", "message": message}])
    if (place.connector_id, place.region, place.cluster) != (spec.connector.pk, spec.region, spec.cluster):
        # R082: whoever puts a connector to use must be allowed to use it.
        require_access(actor, get_connector_requirements(spec.connector, path="connector"))
    place.name, place.connector = validate_name(spec.name), spec.connector
    place.region, place.cluster, place.is_dynamic = spec.region, spec.cluster, spec.is_dynamic


def _validate_spec(spec: InfrastructureSpec) -> None:
    problems = list(list_field_problems(spec.region, spec.cluster, is_dynamic=spec.is_dynamic))
    if problems:
        errors = [{"path": field, "message": message} for field, message in problems]
        raise BadInput(problems[0][1], errors=errors)


def _build_audit_record(place: Infrastructure) -> dict[str, Any]:
    return {
        "name": place.name,
        "connector": str(place.connector),
        "region": place.region,
        "cluster": place.cluster,
        "is_dynamic": place.is_dynamic,
    }
