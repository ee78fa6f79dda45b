"""What people can do with the variables that one service has in one environment."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from deployments.catalog.rules import next_version, variable_problems
from deployments.models import Environment, Service, ServiceOverride
from rbac.audit import record
from rbac.models import User
from rbac.policy import require
from web.problems import BadInput, ChangedMeanwhile


def override_service(
    *,
    actor: User,
    environment: Environment,
    service: Service,
    variables: Mapping[str, Any],
    version: int | None = None,
) -> ServiceOverride | None:
    """Say which variables a service has in an environment and nowhere else; none at all removes them.

    `version` is the one that the writer began from, 0 for none. Raises `BadInput`, and `ChangedMeanwhile`
    where a version is given that is no longer the current one.
    """
    require(actor, "core_environment_edit", environment)
    _refuse(environment, service, variables)
    try:
        with transaction.atomic():
            return _write(actor, environment, service, variables, version)
    except IntegrityError as exc:
        raise ChangedMeanwhile("Somebody else overrides this service at the same time.") from exc


def _write(
    actor: User,
    environment: Environment,
    service: Service,
    variables: Mapping[str, Any],
    version: int | None,
) -> ServiceOverride | None:
    rows = ServiceOverride.objects.select_related("environment__scope", "service")
    found = rows.filter(environment=environment, service=service, infrastructure=None).first()
    if version is not None and version != (found.version if found else 0):
        raise ChangedMeanwhile("Somebody changed this after you opened it. Nothing was saved.")
    before = {"variables": sorted(found.variables)} if found else None
    if not variables:
        if found:
            record(actor=actor, action="override.delete", thing=found, before=before)
            found.delete()
        return None
    if found is None:
        found = ServiceOverride(environment=environment, service=service)
    else:
        next_version(found, version)
    found.variables = dict(variables)
    found.save()
    after = {"variables": sorted(found.variables)}
    record(actor=actor, action="override.update", thing=found, before=before, after=after)
    return found


def _refuse(environment: Environment, service: Service, variables: Mapping[str, Any]) -> None:
    errors = variable_problems(variables)
    one, other = environment.scope.path, service.scope.path
    if not (f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")):
        errors.append({"path": "service", "message": "No pipeline can deploy this service there."})
    if errors:
        raise BadInput("The variables cannot be saved like this.", errors=errors)
