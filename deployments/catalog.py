"""What people can do with services, environments and infrastructures: what pipelines refer to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from connectors.models import Connector
from connectors.operations.naming import check_identifier, clean_name, still_used, taken
from deployments.manifests.stores import is_store, store_names
from deployments.models import Artifact, Environment, Infrastructure, Manifest, Service
from rbac.audit import record
from rbac.models import Scope, User
from rbac.policy import require
from web.problems import BadInput

MOST_MANIFESTS = 50


@dataclass(frozen=True)
class ManifestSpec:
    """One manifest of a service as somebody describes it."""

    identifier: str
    kind: str
    store: str = "FileStore"
    paths: tuple[str, ...] = ()
    content: str = ""


@dataclass(frozen=True)
class ServiceSpec:
    """Everything that can be said of a service beside its identifier."""

    name: str
    description: str = ""
    variables: Mapping[str, Any] | None = None
    image: str = ""
    tag: str = "latest"
    manifests: Sequence[ManifestSpec] = ()


@dataclass(frozen=True)
class InfrastructureSpec:
    """Everything that can be said of an infrastructure beside its identifier."""

    name: str
    connector: Connector
    region: str
    cluster: str


def create_service(*, actor: User, scope: Scope, identifier: str, spec: ServiceSpec) -> Service:
    """Add a service with its artifact and manifests. Raises `BadInput` or `Conflict`."""
    require(actor, "core_service_edit", scope)
    check_identifier(identifier)
    _check_service(spec)
    service = Service(scope=scope, identifier=identifier)
    try:
        with transaction.atomic():
            _fill_service(service, spec)
            record(actor=actor, action="service.create", thing=service, after=_service_record(service))
    except IntegrityError as exc:
        raise taken("service", identifier) from exc
    return service


def update_service(*, actor: User, service: Service, spec: ServiceSpec) -> Service:
    """Replace everything about a service but its identifier; executions keep what they began with."""
    require(actor, "core_service_edit", service)
    _check_service(spec)
    with transaction.atomic():
        before = _service_record(service)
        service.version += 1
        _fill_service(service, spec)
        record(
            actor=actor, action="service.update", thing=service, before=before, after=_service_record(service)
        )
    return service


def delete_service(*, actor: User, service: Service) -> None:
    """Remove a service; what is deployed keeps running."""
    require(actor, "core_service_delete", service)
    with transaction.atomic():
        record(actor=actor, action="service.delete", thing=service, before=_service_record(service))
        service.delete()


def create_environment(
    *,
    actor: User,
    scope: Scope,
    identifier: str,
    name: str,
    description: str = "",
    kind: str = Environment.Kind.PRE_PRODUCTION,
) -> Environment:
    """Add an environment without infrastructures. Raises `BadInput` or `Conflict`."""
    require(actor, "core_environment_edit", scope)
    check_identifier(identifier)
    environment = Environment(scope=scope, identifier=identifier, kind=_known_kind(kind))
    environment.name, environment.description = clean_name(name), description
    try:
        with transaction.atomic():
            environment.save()
            after = _environment_record(environment)
            record(actor=actor, action="environment.create", thing=environment, after=after)
    except IntegrityError as exc:
        raise taken("environment", identifier) from exc
    return environment


def update_environment(
    *, actor: User, environment: Environment, name: str, description: str = "", kind: str
) -> Environment:
    """Change what is said of an environment."""
    require(actor, "core_environment_edit", environment)
    before = _environment_record(environment)
    environment.name, environment.description = clean_name(name), description
    environment.kind = _known_kind(kind)
    environment.version += 1
    with transaction.atomic():
        environment.save(update_fields=["name", "description", "kind", "version", "updated_at"])
        after = _environment_record(environment)
        record(actor=actor, action="environment.update", thing=environment, before=before, after=after)
    return environment


def delete_environment(*, actor: User, environment: Environment) -> None:
    """Remove an environment with its infrastructures; what is deployed there keeps running."""
    require(actor, "core_environment_delete", environment)
    with transaction.atomic():
        before = _environment_record(environment)
        record(actor=actor, action="environment.delete", thing=environment, before=before)
        environment.delete()


def create_infrastructure(
    *, actor: User, environment: Environment, identifier: str, spec: InfrastructureSpec
) -> Infrastructure:
    """Add a place to an environment. Raises `BadInput` or `Conflict`."""
    require(actor, "core_environment_edit", environment)
    check_identifier(identifier)
    place = Infrastructure(environment=environment, identifier=identifier)
    try:
        with transaction.atomic():
            _fill_infrastructure(actor, place, spec)
            after = _infrastructure_record(place)
            record(actor=actor, action="infrastructure.create", thing=place, after=after)
    except IntegrityError as exc:
        raise taken("infrastructure", identifier) from exc
    return place


def update_infrastructure(
    *, actor: User, infrastructure: Infrastructure, spec: InfrastructureSpec
) -> Infrastructure:
    """Replace everything about a place but its identifier."""
    require(actor, "core_environment_edit", infrastructure)
    before = _infrastructure_record(infrastructure)
    with transaction.atomic():
        _fill_infrastructure(actor, infrastructure, spec)
        after = _infrastructure_record(infrastructure)
        record(actor=actor, action="infrastructure.update", thing=infrastructure, before=before, after=after)
    return infrastructure


def delete_infrastructure(*, actor: User, infrastructure: Infrastructure) -> None:
    """Remove a place from its environment; what is deployed there keeps running."""
    require(actor, "core_environment_edit", infrastructure)
    try:
        with transaction.atomic():
            before = _infrastructure_record(infrastructure)
            record(actor=actor, action="infrastructure.delete", thing=infrastructure, before=before)
            infrastructure.delete()
    except ProtectedError as exc:
        raise still_used(infrastructure, exc) from exc


def _fill_service(service: Service, spec: ServiceSpec) -> None:
    service.name, service.description = clean_name(spec.name), spec.description
    service.variables = dict(spec.variables or {})
    service.save()
    service.manifests.all().delete()
    Manifest.objects.bulk_create(
        Manifest(
            service=service,
            identifier=one.identifier,
            kind=one.kind,
            store=one.store,
            paths=list(one.paths),
            content=one.content,
        )
        for one in spec.manifests
    )
    Artifact.objects.filter(service=service).delete()
    if spec.image:
        Artifact.objects.create(service=service, image=spec.image, tag=spec.tag)


def _check_service(spec: ServiceSpec) -> None:
    errors = [
        {"path": f"variables.{name}", "message": "must be a text, a number, true or false"}
        for name, value in (spec.variables or {}).items()
        if not isinstance(value, str | int | float | bool)
    ]
    if len(spec.manifests) > MOST_MANIFESTS:
        errors.append({"path": "manifests", "message": f"may be {MOST_MANIFESTS} at most"})
    seen: set[str] = set()
    for number, manifest in enumerate(spec.manifests):
        if message := _manifest_problem(manifest, seen):
            errors.append({"path": f"manifests.{number}", "message": message})
        seen.add(manifest.identifier)
    if errors:
        raise BadInput("The service cannot be saved like this.", errors=errors)


def _manifest_problem(manifest: ManifestSpec, seen: set[str]) -> str:
    if manifest.identifier in seen:
        return f"the identifier {manifest.identifier} is given twice"
    if manifest.kind not in Manifest.Kind.values:
        return f"unknown kind; known are {', '.join(Manifest.Kind.values)}"
    if not is_store(manifest.store):
        return f"unknown store; known are {', '.join(store_names())}"
    if manifest.store == "FileStore" and not manifest.paths:
        return "a manifest in the file store needs at least one path"
    if manifest.store == "Inline" and not manifest.content:
        return "an inline manifest needs its content"
    return ""


def _fill_infrastructure(actor: User, place: Infrastructure, spec: InfrastructureSpec) -> None:
    if spec.connector.scope.path not in place.environment.scope.ancestor_paths():
        message = f"The connector lies in {spec.connector.scope}, which is not above the environment."
        raise BadInput(message, errors=[{"path": "connector", "message": message}])
    if place.connector_id != spec.connector.pk:
        # R082: whoever puts a connector to use must be allowed to use it.
        require(actor, "core_connector_access", spec.connector)
    place.name, place.connector = clean_name(spec.name), spec.connector
    place.region, place.cluster = spec.region, spec.cluster
    place.save()


def _known_kind(kind: str) -> str:
    if kind not in Environment.Kind.values:
        message = f"Unknown kind of environment; known are {', '.join(Environment.Kind.values)}."
        raise BadInput(message, errors=[{"path": "kind", "message": message}])
    return kind


def _service_record(service: Service) -> dict[str, Any]:
    artifact = Artifact.objects.filter(service=service).first()
    return {
        "name": service.name,
        "variables": sorted(service.variables),
        "artifact": str(artifact) if artifact else None,
        "manifests": [
            {"identifier": one.identifier, "kind": one.kind, "store": one.store, "paths": one.paths}
            for one in service.manifests.order_by("pk")
        ],
    }


def _environment_record(environment: Environment) -> dict[str, Any]:
    return {"name": environment.name, "kind": environment.kind}


def _infrastructure_record(place: Infrastructure) -> dict[str, Any]:
    return {
        "name": place.name,
        "connector": str(place.connector),
        "region": place.region,
        "cluster": place.cluster,
    }
