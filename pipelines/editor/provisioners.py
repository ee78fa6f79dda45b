"""The provisioners that a stage can be given, with the steps that each brings (R185-R187)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from catalog.manifests.yaml_draft import NotEditable
from pipelines.editor.edits import delete_partners, new_step, types_inside
from pipelines.editor.places import (
    Path,
    body_of,
    found,
    items_of,
    kind_of,
    provisioner_items,
    provisioner_path,
)
from steps.kinds.base import known_steps


@dataclass(frozen=True)
class Provisioner:
    """One way to make infrastructure: the types of its steps, and of what takes it down or back again."""

    name: str
    steps: tuple[str, ...]
    rollback_steps: tuple[str, ...] = ()

    @property
    def is_there(self) -> bool:
        """Whether this version has all of its steps."""
        return known_steps().keys() >= {*self.steps, *self.rollback_steps}


_PROVISIONERS = (
    Provisioner("Terraform", ("TerraformPlan", "TerraformApply"), ("TerraformRollback",)),
    Provisioner("Terragrunt", ("TerragruntPlan", "TerragruntApply"), ("TerragruntRollback",)),
    Provisioner("Terraform Cloud", ("TerraformCloudRun",), ("TerraformCloudRollback",)),
    Provisioner("CloudFormation", ("CreateStack",), ("RollbackStack",)),
    Provisioner("Shell Script", ("ShellScriptProvision",)),
)


def provisioners() -> list[Provisioner]:
    """Those that a stage can choose from."""
    return [one for one in _PROVISIONERS if one.is_there]


def provisions(stage: Any) -> bool:
    """Whether a stage makes its infrastructure itself."""
    spec = body_of(stage).get("spec")
    environment = spec.get("environment") if isinstance(spec, dict) else None
    return isinstance(environment, dict) and "provisioner" in environment


def set_provisioner(tree: Any, stage_at: Path, name: str) -> None:
    """Let a stage make its infrastructure: the steps of the provisioner take the place of another's.

    Steps that no provisioner brings, such as an approval among them, stay; what undoes them may stand among
    the other rollback steps. Raises `NotEditable`.
    """
    chosen = next((one for one in provisioners() if one.name == name), None)
    if chosen is None:
        known = ", ".join(one.name for one in provisioners())
        raise NotEditable(f"There is no provisioner {name}; there are {known}.")
    stage = _stage(tree, stage_at)
    spec = body_of(stage).setdefault("spec", {"deploymentType": "ECS"})
    environment = spec.setdefault("environment", {}) if isinstance(spec, dict) else None
    said = environment.setdefault("provisioner", {}) if isinstance(environment, dict) else None
    if not isinstance(said, dict):
        raise NotEditable("spec.environment of this stage is no mapping; mend it in the YAML first.")
    theirs = {type_ for one in _PROVISIONERS for type_ in (*one.steps, *one.rollback_steps)}
    gone = {type_ for one in provisioner_items(stage, "steps") for type_ in types_inside(one)}
    elsewhere = {type_ for one in items_of(stage, "rollbackSteps") for type_ in types_inside(one)}
    undoing = tuple(type_ for type_ in chosen.rollback_steps if type_ not in elsewhere)
    for section, types in (("steps", chosen.steps), ("rollbackSteps", undoing)):
        items = provisioner_items(stage, section)
        old = {_type(one): one for one in items if _type(one) in types}
        kept = [one for one in items if _type(one) not in theirs]
        said[section] = kept
        for number, type_ in enumerate(types):
            kept.insert(number, old.get(type_) or new_step(stage, type_))
    if not said["rollbackSteps"]:
        said.pop("rollbackSteps")
    delete_partners(stage, gone)


def drop_provisioner(tree: Any, stage_at: Path) -> None:
    """Let a stage deploy to what is there already: the steps of its provisioner go. Raises `NotEditable`."""
    stage = _stage(tree, stage_at)
    if not provisions(stage):
        raise NotEditable("This stage has no provisioner.")
    gone = {type_ for one in provisioner_items(stage, "steps") for type_ in types_inside(one)}
    found(tree, provisioner_path(stage_at)[:-1]).pop("provisioner")
    delete_partners(stage, gone)


def provisioner_of(stage: Any) -> str:
    """The name of the provisioner that a stage has, as far as its steps tell."""
    types = set(_types(provisioner_items(stage, "steps")))
    return next((one.name for one in _PROVISIONERS if types & set(one.steps)), "")


def _types(items: list[Any]) -> Iterator[str]:
    for one in items:
        yield _type(one)


def _type(item: Any) -> str:
    return str(body_of(item).get("type") or "")


def _stage(tree: Any, at: Path) -> Any:
    stage = found(tree, at)
    if kind_of(stage) != "stage":
        raise NotEditable("Only a stage has a provisioner.")
    return stage
