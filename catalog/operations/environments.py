"""What people can do with environments."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction

from catalog.models import Environment
from catalog.operations.rules import next_version, variable_problems
from catalog.usage import refuse_used
from connectors.operations.naming import check_identifier, clean_name, taken
from rbac.audit import record
from rbac.models import Scope, User
from rbac.policy import require
from web.problems import BadInput


@dataclass(frozen=True)
class EnvironmentSpec:
    """Everything that can be said of an environment beside its identifier."""

    name: str
    description: str = ""
    kind: str = Environment.Kind.PRE_PRODUCTION
    variables: Mapping[str, Any] = field(default_factory=dict)


def create_environment(*, actor: User, scope: Scope, identifier: str, spec: EnvironmentSpec) -> Environment:
    """Add an environment without infrastructures. Raises `BadInput` or `Conflict`."""
    require(actor, "core_environment_edit", scope)
    check_identifier(identifier)
    environment = Environment(scope=scope, identifier=identifier)
    _fill(environment, spec)
    try:
        with transaction.atomic():
            environment.save()
            record(actor=actor, action="environment.create", thing=environment, after=_record(environment))
    except IntegrityError as exc:
        raise taken("environment", identifier) from exc
    return environment


def update_environment(
    *, actor: User, environment: Environment, spec: EnvironmentSpec, version: int | None = None
) -> Environment:
    """Change what is said of an environment; executions keep what they began with.

    Raises `ChangedMeanwhile` where a `version` is given that is no longer the current one.
    """
    require(actor, "core_environment_edit", environment)
    before = _record(environment)
    _fill(environment, spec)
    with transaction.atomic():
        next_version(environment, version)
        environment.save(update_fields=["name", "description", "kind", "variables", "updated_at"])
        after = _record(environment)
        record(actor=actor, action="environment.update", thing=environment, before=before, after=after)
    return environment


def delete_environment(*, actor: User, environment: Environment, although_used: bool = False) -> None:
    """Remove an environment with its infrastructures; what is deployed there keeps running.

    Raises `StillUsed` while a pipeline means it, unless that is accepted by `although_used`.
    """
    require(actor, "core_environment_delete", environment)
    if not although_used:
        refuse_used(environment, actor)
    with transaction.atomic():
        record(actor=actor, action="environment.delete", thing=environment, before=_record(environment))
        environment.delete()


def _fill(environment: Environment, spec: EnvironmentSpec) -> None:
    errors = variable_problems(spec.variables)
    if spec.kind not in Environment.Kind.values:
        known = ", ".join(Environment.Kind.values)
        errors.append({"path": "kind", "message": f"Unknown kind of environment; known are {known}."})
    if errors:
        raise BadInput("The environment cannot be saved like this.", errors=errors)
    environment.name, environment.description = clean_name(spec.name), spec.description
    environment.kind, environment.variables = spec.kind, dict(spec.variables)


def _record(environment: Environment) -> dict[str, Any]:
    return {
        "name": environment.name,
        "kind": environment.kind,
        "variables": sorted(environment.variables),
    }
