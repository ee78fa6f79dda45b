"""Operations on environments."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction

from catalog.models import Environment
from catalog.operations.resources import increment_version, list_variable_problems
from catalog.usages import require_unused
from connectors.operations.identifiers import (
    build_identifier_conflict,
    require_valid_identifier,
    validate_name,
)
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import require
from web.http.problems import BadInput
from web.managed_resources import proposes_change, require_unmanaged


@dataclass(frozen=True)
class EnvironmentSpec:
    """The fields of an environment except its identifier."""

    name: str
    description: str = ""
    kind: str = Environment.Kind.PRE_PRODUCTION
    variables: Mapping[str, Any] = field(default_factory=dict)


def create_environment(*, actor: User, scope: Scope, identifier: str, spec: EnvironmentSpec) -> Environment:
    """Create an environment without infrastructures. Raises `BadInput` or `Conflict`."""
    require(actor, "core_environment_edit", scope)
    require_valid_identifier(identifier)
    environment = Environment(scope=scope, identifier=identifier)
    _apply_spec(environment, spec)
    try:
        with transaction.atomic():
            environment.save()
            record_audit_entry(
                actor=actor,
                action="environment.create",
                thing=environment,
                after=_build_audit_record(environment),
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("environment", identifier) from exc
    return environment


@proposes_change("environment")
def update_environment(
    *, actor: User, environment: Environment, spec: EnvironmentSpec, version: int | None = None
) -> Environment:
    """Update an environment; executions keep their snapshot.

    Raises `VersionConflict` if `version` is given and outdated.
    """
    require(actor, "core_environment_edit", environment)
    require_unmanaged(environment)
    before = _build_audit_record(environment)
    _apply_spec(environment, spec)
    with transaction.atomic():
        increment_version(environment, version)
        environment.save(update_fields=["name", "description", "kind", "variables", "updated_at"])
        after = _build_audit_record(environment)
        record_audit_entry(
            actor=actor, action="environment.update", thing=environment, before=before, after=after
        )
    return environment


def delete_environment(*, actor: User, environment: Environment, although_used: bool = False) -> None:
    """Delete an environment with its infrastructures; deployed services keep running.

    Raises `ResourceInUse` while a pipeline references it, unless `although_used`.
    """
    require(actor, "core_environment_delete", environment)
    require_unmanaged(environment)
    if not although_used:
        require_unused(environment, actor)
    with transaction.atomic():
        record_audit_entry(
            actor=actor,
            action="environment.delete",
            thing=environment,
            before=_build_audit_record(environment),
        )
        environment.delete()


def _apply_spec(environment: Environment, spec: EnvironmentSpec) -> None:
    errors = list_variable_problems(spec.variables)
    if spec.kind not in Environment.Kind.values:
        kinds = ", ".join(Environment.Kind.values)
        errors.append({"path": "kind", "message": f"Unknown environment type. Use one of {kinds}."})
    if errors:
        raise BadInput("Could not save the environment.", errors=errors)
    environment.name, environment.description = validate_name(spec.name), spec.description
    environment.kind, environment.variables = spec.kind, dict(spec.variables)


def _build_audit_record(environment: Environment) -> dict[str, Any]:
    return {
        "name": environment.name,
        "kind": environment.kind,
        "variables": sorted(environment.variables),
    }
