"""Rolling: replace all tasks, a part at a time (R190)."""

from steps.strategies.base import Filling, step_document, strategy


@strategy("Rolling")
def rolling() -> Filling:
    """One deploy step, and the step that undoes it."""
    return Filling(
        steps=(step_document("EcsRollingDeploy", "ecsRollingDeploy", "ECS Rolling Deploy"),),
        rollback_steps=(step_document("EcsRollingRollback", "ecsRollingRollback", "ECS Rolling Rollback"),),
    )
