"""Provisioners of a stage, with their steps (R185-R187)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from catalog.manifests.yaml_drafts import NotEditable
from pipelines.editor.edits import build_step, delete_unneeded_rollbacks, list_step_types
from pipelines.editor.tree_paths import (
    TreePath,
    get_body,
    get_kind,
    get_node,
    get_provisioner_path,
    list_execution_items,
    list_provisioner_items,
)
from steps.kinds.registry import get_step_kinds


@dataclass(frozen=True)
class ProvisionerOption:
    """A kind of provisioner: the types of its steps and rollback steps."""

    name: str
    steps: tuple[str, ...]
    rollback_steps: tuple[str, ...] = ()

    @property
    def is_available(self) -> bool:
        """Return whether this version has all of its step kinds."""
        return get_step_kinds().keys() >= {*self.steps, *self.rollback_steps}


_PROVISIONER_OPTIONS = (
    ProvisionerOption("Terraform", ("TerraformPlan", "TerraformApply"), ("TerraformRollback",)),
    ProvisionerOption("Terragrunt", ("TerragruntPlan", "TerragruntApply"), ("TerragruntRollback",)),
    ProvisionerOption("Terraform Cloud", ("TerraformCloudRun",), ("TerraformCloudRollback",)),
    ProvisionerOption("CloudFormation", ("CreateStack",), ("RollbackStack",)),
    ProvisionerOption("Shell Script", ("ShellScriptProvision",)),
)


def list_provisioners() -> list[ProvisionerOption]:
    """Return the provisioners that a stage can use."""
    return [option for option in _PROVISIONER_OPTIONS if option.is_available]


def has_provisioner(stage: Any) -> bool:
    """Return whether a stage has a provisioner."""
    spec = get_body(stage).get("spec")
    environment = spec.get("environment") if isinstance(spec, dict) else None
    return isinstance(environment, dict) and "provisioner" in environment


def set_provisioner(tree: Any, stage_at: TreePath, name: str) -> None:
    """Set the provisioner of a stage; its steps replace those of the previous one.

    Steps that belong to no provisioner, such as an approval, stay; rollback steps may be mixed with others.
    Raises `NotEditable`.
    """
    chosen = next((option for option in list_provisioners() if option.name == name), None)
    if chosen is None:
        names = ", ".join(option.name for option in list_provisioners())
        raise NotEditable(f"Unknown provisioner {name}. Use one of {names}.")
    stage = _get_stage(tree, stage_at)
    spec = get_body(stage).setdefault("spec", {"deploymentType": "ECS"})
    environment = spec.setdefault("environment", {}) if isinstance(spec, dict) else None
    provisioner = environment.setdefault("provisioner", {}) if isinstance(environment, dict) else None
    if not isinstance(provisioner, dict):
        raise NotEditable(
            "The spec.environment of this stage is not a mapping. Correct it in the YAML first."
        )
    provisioner_types = {
        type_ for option in _PROVISIONER_OPTIONS for type_ in (*option.steps, *option.rollback_steps)
    }
    old_types = {type_ for item in list_provisioner_items(stage, "steps") for type_ in list_step_types(item)}
    execution_types = {
        type_ for item in list_execution_items(stage, "rollbackSteps") for type_ in list_step_types(item)
    }
    undoing = tuple(type_ for type_ in chosen.rollback_steps if type_ not in execution_types)
    for section, types in (("steps", chosen.steps), ("rollbackSteps", undoing)):
        items = list_provisioner_items(stage, section)
        old = {_get_type(item): item for item in items if _get_type(item) in types}
        new_items = [item for item in items if _get_type(item) not in provisioner_types]
        provisioner[section] = new_items
        for number, type_ in enumerate(types):
            new_items.insert(number, old.get(type_) or build_step(stage, type_))
    if not provisioner["rollbackSteps"]:
        provisioner.pop("rollbackSteps")
    delete_unneeded_rollbacks(stage, old_types)


def delete_provisioner(tree: Any, stage_at: TreePath) -> None:
    """Delete the provisioner of a stage, which then deploys to static infrastructure.

    Raises `NotEditable`.
    """
    stage = _get_stage(tree, stage_at)
    if not has_provisioner(stage):
        raise NotEditable("This stage has no provisioner.")
    old_types = {type_ for item in list_provisioner_items(stage, "steps") for type_ in list_step_types(item)}
    get_node(tree, get_provisioner_path(stage_at)[:-1]).pop("provisioner")
    delete_unneeded_rollbacks(stage, old_types)


def get_provisioner_name(stage: Any) -> str:
    """Return the name of a stage's provisioner, judged by its steps."""
    types = set(_list_types(list_provisioner_items(stage, "steps")))
    return next((option.name for option in _PROVISIONER_OPTIONS if types & set(option.steps)), "")


def _list_types(items: list[Any]) -> Iterator[str]:
    for item in items:
        yield _get_type(item)


def _get_type(item: Any) -> str:
    return str(get_body(item).get("type") or "")


def _get_stage(tree: Any, at: TreePath) -> Any:
    stage = get_node(tree, at)
    if get_kind(stage) != "stage":
        raise NotEditable("Only a stage can have a provisioner.")
    return stage
