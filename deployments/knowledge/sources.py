"""Who sets what an expression names: words for people, and what one needs to see of it."""

from collections.abc import Mapping
from typing import Any

from deployments.knowledge.words import DIGEST, FIXED
from deployments.models import Environment, StageExecution
from deployments.targets import nearest_service
from rbac.policy import Principal, can

_VARIABLES: Mapping[str, str] = {
    "pipeline.variables": "Variables of the pipeline",
    "service.variables": "Variables of the service",
    "env.variables": "Variables of the environment",
    "serviceVariables": "Variables that count for the service",
    "variables": "Variables that count, with the pipeline's",
}
_ROOTS: Mapping[str, str] = {
    "pipeline": "Pipeline",
    "stage": "Stage",
    "service": "Service",
    "env": "Environment",
    "infra": "Infrastructure",
    "primary": "Image",
    "execution": "Run",
    "provisioner": "Provisioner",
}
_OF_SERVICE = frozenset({"service.variables", "serviceVariables", "variables"})
_OF_ENVIRONMENT = frozenset({"env.variables", "serviceVariables", "variables"})


def source_of(path: str, values: Mapping[str, Any]) -> str:
    """Who sets a value; `values` are those of the stage, which know the names of things."""
    before = next((one for one in _VARIABLES if path.startswith(f"{one}.")), "")
    if before:
        return _VARIABLES[before]
    root = path.partition(".")[0]
    name = values.get(root, {}).get("name", "") if root in values else ""
    return f"{_ROOTS.get(root, root)} {name}".strip()


def about_of(path: str) -> str:
    """A sentence about one of the fixed names; nothing of the others."""
    return FIXED.get(path) or DIGEST.get(path, "")


def unseen_roots(stage: StageExecution, person: Principal) -> frozenset[str]:
    """The beginnings of paths whose values a person may not see: variables of what they may not view."""
    scope = stage.execution.scope
    service = nearest_service(scope, stage.values.get("service", {}).get("identifier", ""))
    path, _, identifier = stage.environment.rpartition("/")
    environment = (
        Environment.objects.filter(scope__path=path, identifier=identifier).select_related("scope").first()
    )
    # What was deleted since hung in the scope of the run, as far as anybody knows.
    sees_service = can(person, "core_service_view", service or scope)
    sees_environment = can(person, "core_environment_view", environment or scope)
    return (frozenset() if sees_service else _OF_SERVICE) | (
        frozenset() if sees_environment else _OF_ENVIRONMENT
    )
