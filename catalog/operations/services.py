"""Operations on services."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction

from catalog.artifacts.image_sources import describe_source_problem, find_source_connector
from catalog.manifests.locations import clean_location
from catalog.models import Artifact, Manifest, Service
from catalog.operations.manifests import ManifestSpec, list_manifest_problems, require_store_access
from catalog.operations.resources import increment_version, list_variable_problems
from catalog.overrides.policy_checks import require_allowed_service
from catalog.usages import require_deployable, require_unused
from connectors.operations.identifiers import (
    build_identifier_conflict,
    require_valid_identifier,
    validate_name,
)
from connectors.required_access import get_connector_requirements, require_access
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import can, require
from web.http.problems import BadInput
from web.managed_resources import proposes_change, require_unmanaged

IMAGE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}\Z"
TAG_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z"


@dataclass(frozen=True)
class ServiceSpec:
    """The fields of a service except its identifier."""

    name: str
    description: str = ""
    variables: Mapping[str, Any] | None = None
    required_variables: Sequence[str] = ()
    image: str = ""
    tag: str = "latest"
    source: Mapping[str, str] = field(default_factory=dict)
    manifests: Sequence[ManifestSpec] = ()


def read_service_spec(service: Service) -> ServiceSpec:
    """Return the fields of a stored service, so that some of them can be replaced."""
    artifact = Artifact.objects.filter(service=service).first()
    return ServiceSpec(
        name=service.name,
        description=service.description,
        variables=service.variables,
        required_variables=service.required_variables,
        image=artifact.image if artifact else "",
        tag=artifact.tag if artifact else "latest",
        source=artifact.source if artifact else {},
        manifests=[
            ManifestSpec(
                manifest.identifier,
                manifest.kind,
                manifest.store,
                tuple(manifest.paths),
                manifest.content,
                place=manifest.place,
            )
            for manifest in service.manifests.order_by("pk")
        ],
    )


def create_service(*, actor: User, scope: Scope, identifier: str, spec: ServiceSpec) -> Service:
    """Create a service with its artifact and manifests. Raises `BadInput`, `PolicyViolated` or `Conflict`."""
    require(actor, "core_service_edit", scope)
    require_valid_identifier(identifier)
    _validate_spec(spec)
    require_store_access(actor, scope, spec.manifests)
    _require_source_access(actor, scope, spec.source)
    service = Service(scope=scope, identifier=identifier)
    try:
        with transaction.atomic():
            _apply_spec(service, spec)
            require_deployable(service, actor)
            require_allowed_service(service)
            record_audit_entry(
                actor=actor, action="service.create", thing=service, after=_build_audit_record(service)
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("service", identifier) from exc
    return service


@proposes_change("service")
def update_service(
    *, actor: User, service: Service, spec: ServiceSpec, version: int | None = None
) -> Service:
    """Replace all fields of a service except its identifier; executions keep their snapshot.

    Raises `PolicyViolated`, and `VersionConflict` if `version` is given and outdated.
    """
    require(actor, "core_service_edit", service)
    require_unmanaged(service)
    _validate_spec(spec)
    require_store_access(actor, service.scope, spec.manifests)
    _require_source_access(actor, service.scope, spec.source)
    with transaction.atomic():
        before = _build_audit_record(service)
        increment_version(service, version)
        _apply_spec(service, spec)
        require_deployable(service, actor)
        require_allowed_service(service)
        record_audit_entry(
            actor=actor,
            action="service.update",
            thing=service,
            before=before,
            after=_build_audit_record(service),
        )
    return service


def delete_service(*, actor: User, service: Service, although_used: bool = False) -> None:
    """Delete a service; deployed ECS services keep running.

    Raises `ResourceInUse` while a pipeline references it, unless `although_used`.
    """
    require(actor, "core_service_delete", service)
    require_unmanaged(service)
    if not although_used:
        require_unused(service, actor)
    with transaction.atomic():
        record_audit_entry(
            actor=actor, action="service.delete", thing=service, before=_build_audit_record(service)
        )
        service.delete()


def _apply_spec(service: Service, spec: ServiceSpec) -> None:
    service.name, service.description = validate_name(spec.name), spec.description
    service.variables = dict(spec.variables or {})
    service.required_variables = sorted(set(spec.required_variables))
    service.save()
    service.manifests.all().delete()
    Manifest.objects.bulk_create(
        Manifest(
            service=service,
            identifier=manifest.identifier,
            kind=manifest.kind,
            store=manifest.store,
            paths=list(manifest.paths),
            content=manifest.content,
            place=clean_location(manifest.store, manifest.place),
        )
        for manifest in spec.manifests
    )
    Artifact.objects.filter(service=service).delete()
    if spec.image:
        Artifact.objects.create(service=service, image=spec.image, tag=spec.tag, source=dict(spec.source))


def _require_source_access(actor: User, scope: Scope, source: Mapping[str, str]) -> None:
    """Require access to the connector of an image source (R082)."""
    if not source:
        return
    connector = find_source_connector(scope, source)
    if connector is None or not can(actor, "core_connector_view", connector):
        message = f"no connector {source['connector']} for {source['type']} in this scope or above"
        raise BadInput(
            "The connector does not exist.", errors=[{"path": "artifact.source", "message": message}]
        )
    require_access(actor, get_connector_requirements(connector, path="artifact.source"))


def _validate_spec(spec: ServiceSpec) -> None:
    variables = spec.variables or {}
    errors = list_variable_problems(variables)
    errors += [
        {"path": f"required_variables.{name}", "message": "is not a variable of the service"}
        for name in spec.required_variables
        if name not in variables
    ]
    errors += list_manifest_problems(spec.manifests)
    if problem := describe_source_problem(spec.source):
        errors.append({"path": "artifact.source", "message": problem})
    if errors:
        raise BadInput("Could not save the service.", errors=errors)


def _build_audit_record(service: Service) -> dict[str, Any]:
    artifact = Artifact.objects.filter(service=service).first()
    return {
        "name": service.name,
        "variables": sorted(service.variables),
        "required_variables": service.required_variables,
        "artifact": str(artifact) if artifact else None,
        "manifests": [
            {
                "identifier": manifest.identifier,
                "kind": manifest.kind,
                "store": manifest.store,
                "paths": manifest.paths,
                "place": manifest.place,
            }
            for manifest in service.manifests.order_by("pk")
        ],
    }
