"""Secrets among the parameters of a stack: the journal keeps their references, AWS gets their values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aws import cloudformation
from aws.errors import Undelivered
from connectors.secrets import SecretMissing, find_secret
from deployments.engine.world import Door
from rbac.models import Scope
from steps.variables import secret_in


@dataclass(frozen=True)
class _Revealing:
    """A door whose calls leave with the values of secrets."""

    door: Door
    scope: Scope = field(repr=False)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.door.call(service, operation, as_sent(self.scope, service, params))


def door_with_secrets(door: Door, service: str, scope: Scope) -> Door:
    """The door for calls of a service from here."""
    return _Revealing(door, scope) if service == cloudformation.SERVICE else door


def as_sent(scope: Scope, service: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as AWS gets them. Raises `Undelivered` where a secret is missing."""
    if service != cloudformation.SERVICE or "Parameters" not in params:
        return dict(params)
    return {**params, "Parameters": [_revealed(scope, one) for one in params["Parameters"]]}


def _revealed(scope: Scope, parameter: Mapping[str, Any]) -> dict[str, Any]:
    reference = secret_in(str(parameter.get("ParameterValue", "")))
    if not reference:
        return dict(parameter)
    try:
        return {**parameter, "ParameterValue": find_secret(scope, reference).value}
    except SecretMissing as missing:
        raise Undelivered("SECRET_MISSING", str(missing)) from missing
