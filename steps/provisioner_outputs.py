"""What `<+provisioner.NAME>` may name, and what it comes to in a run (R189)."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from steps.kinds.base import known_steps
from steps.kinds.outputs import all_outputs

ROOT: Final = "provisioner"


def provisioner_types() -> list[str]:
    """The types of steps that make infrastructure."""
    return [name for name, kind in known_steps().items() if kind.provisions]


def is_provided(path: str) -> bool:
    """Whether a path names an output of a provisioner."""
    return path.partition(".")[0] == ROOT


def known_outputs(steps: Iterable[tuple[str, Mapping[str, Any]]]) -> set[str] | None:
    """The outputs that provisioning steps can have, by type and spec; None where only a run tells."""
    found: set[str] = set()
    for type_, spec in steps:
        told = all_outputs(type_, spec)
        if told is None:
            return None
        found |= told
    return found


def path_problem(path: str, known: set[str] | None, *, has_any: bool) -> str:
    """What is wrong with `provisioner.NAME` behind these steps, or nothing."""
    name = path.partition(".")[2]
    if not name:
        return f"<+{path}> says too little: write <+provisioner.name>."
    if not has_any:
        return (
            f"<+{path}> is the output of a provisioner, and no step before this makes infrastructure: add "
            "one, such as ShellScriptProvision, under environment.provisioner.steps of the stage."
        )
    if known is None or name.partition(".")[0] in known:
        return ""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.4)
    hint = f" Did you mean <+provisioner.{near[0]}>?" if near else ""
    return f"<+{path}> is no output of the provisioner.{hint}"


def needs_place(type_: str) -> bool:
    """Whether a step looks into the cluster, which the provisioner of its stage has still to make."""
    return type_.startswith("Ecs")
