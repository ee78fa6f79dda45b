"""Where a stack is: in the region that the step names, else in that of the stage."""

from steps.actions.base import ActionFailed, Rollout


def region_of(rollout: Rollout, name: str) -> str:
    """The region of a stack. Raises `ActionFailed` where nothing says it yet."""
    if not rollout.region:
        raise ActionFailed(
            "REGION_MISSING",
            f"Nothing says in which region the stack {name} is: the infrastructure gets its region from what "
            "is provisioned. Write region under the spec of the step.",
        )
    return rollout.region
