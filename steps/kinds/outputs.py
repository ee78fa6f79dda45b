"""Outputs of step kinds by name, including provisioner outputs as `<+provisioner.NAME>`."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from steps.expressions import has_expression
from steps.kinds.registry import get_step_kinds

SERVICE_OUTPUTS: Final = {
    "serviceName": "The name of the ECS service.",
    "serviceArn": "The ARN of the ECS service.",
    "deploymentId": "The id of the deployment that AWS made.",
    "desiredCount": "How many tasks are wanted.",
}
REVISION_OUTPUTS: Final = {
    "taskDefinitionArn": "The ARN of the task definition's revision.",
    "taskDefinitionFamily": "The family of the task definition.",
    "version": "The number of the revision.",
}
SCALING_OUTPUTS: Final = {
    "autoScaling": "What became of the auto scaling of the ECS service.",
    "scalingBounds": "The minimum and maximum of the scalable target before the step; unset without one.",
}
# Spec field of steps that declare their own outputs.
_OUTPUT_VARIABLES = "outputVariables"
# Outputs of an undone step.
_ROLLBACK_OUTPUTS = frozenset({"rollbackDeploymentId", "rollbackRunId", "restoredTaskDefinitionArn"})


def list_outputs(type_: str, spec: Any) -> dict[str, str]:
    """Return the outputs of a step by name with descriptions; those that its spec declares come last."""
    kind = get_step_kinds().get(type_)
    outputs = dict(kind.outputs) if kind else {}
    variables = spec.get(_OUTPUT_VARIABLES) if isinstance(spec, Mapping) else None
    outputs |= dict.fromkeys(_list_output_variables(variables), "An output variable of the step.")
    if kind and isinstance(spec, Mapping) and hasattr(kind.spec, "list_declared_outputs"):
        outputs |= kind.spec.list_declared_outputs(spec)
    return outputs


def list_all_outputs(type_: str, spec: Any) -> frozenset[str] | None:
    """Return every output that a step can have; None if only a run can determine them."""
    kind = get_step_kinds().get(type_)
    declares_outputs = kind is not None and _OUTPUT_VARIABLES in kind.spec.__dataclass_fields__
    if kind is None or kind.provisions or not (kind.outputs or declares_outputs):
        return None
    variables = spec.get(_OUTPUT_VARIABLES) if isinstance(spec, Mapping) else None
    if isinstance(variables, str) or any(has_expression(name) for name in _list_output_variables(variables)):
        return None
    extra_outputs = frozenset(kind.failure_outputs) | (_ROLLBACK_OUTPUTS if kind.undone_by else frozenset())
    return frozenset(list_outputs(type_, spec)) | extra_outputs


def _list_output_variables(variables: Any) -> list[str]:
    entries = variables if isinstance(variables, list) else ()
    names = (entry.get("name") for entry in entries if isinstance(entry, Mapping))
    return [name for name in names if isinstance(name, str)]


PROVISIONER_ROOT: Final = "provisioner"


def list_provisioner_types() -> list[str]:
    """Return the types of steps that create infrastructure."""
    return [name for name, kind in get_step_kinds().items() if kind.provisions]


def is_provisioner_path(path: str) -> bool:
    """Return whether a path is an output of a provisioner."""
    return path.partition(".")[0] == PROVISIONER_ROOT


def list_provisioner_outputs(steps: Iterable[tuple[str, Mapping[str, Any]]]) -> set[str] | None:
    """Return the outputs of provisioning steps by type and spec; None if only a run can determine them."""
    names: set[str] = set()
    for type_, spec in steps:
        outputs = list_all_outputs(type_, spec)
        if outputs is None:
            return None
        names |= outputs
    return names


def describe_path_problem(path: str, known_names: set[str] | None, *, has_any: bool) -> str:
    """Return the problem of `provisioner.NAME` after these steps; empty if it is valid."""
    name = path.partition(".")[2]
    if not name:
        return f"<+{path}> is incomplete: write <+provisioner.name>."
    if not has_any:
        return (
            f"<+{path}> is the output of a provisioner, and no step before this makes infrastructure: add "
            "one, such as ShellScriptProvision, under environment.provisioner.steps of the stage."
        )
    if known_names is None or name.partition(".")[0] in known_names:
        return ""
    matches = difflib.get_close_matches(name, sorted(known_names), n=1, cutoff=0.4)
    hint = f" Did you mean <+provisioner.{matches[0]}>?" if matches else ""
    return f"<+{path}> is no output of the provisioner.{hint}"
