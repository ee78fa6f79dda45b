"""What a step takes over from an earlier one: its plan, or what it has applied."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from steps.actions.base import ActionFailed, Rollout
from steps.actions.provisions import Planned

_LOCK_FILE = ".terraform.lock.hcl"


def planned(rollout: Rollout, identifier: str, *, destroys: bool) -> Planned:
    """The plan that this execution has made. Raises `ActionFailed` where there is none, or another sort."""
    found = rollout.provisions.plan(identifier)
    if found is None:
        raise ActionFailed(
            "PLAN_MISSING",
            f"No step before this one has planned {identifier}, or its plan was applied already. Plan it "
            "with the same provisionerIdentifier before.",
        )
    if found.destroys not in (None, destroys):
        raise ActionFailed(
            "PLAN_OF_ANOTHER_SORT",
            f"The plan of {identifier} is to {'destroy' if found.destroys else 'apply'}. "
            "Change command of the step that plans.",
        )
    return found


def ready(used: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an earlier run for another one, which takes the same versions of providers."""
    rest = {name: one for name, one in used.items() if name != "lock"}
    if not used.get("lock"):
        return rest
    path = str(PurePosixPath(str(used["folder"])) / _LOCK_FILE)
    return {**rest, "files": {**used["files"], path: used["lock"]}}
