"""Who sets what an expression names: words for people, and what one needs to see of it."""

from collections.abc import Mapping
from typing import Any

from steps.expression_names import DIGEST, FIXED

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
