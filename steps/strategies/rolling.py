"""Rolling: all tasks are replaced, a part at a time (R190)."""

from steps.strategies.registry import StrategySteps, build_step_document, strategy


@strategy("Rolling")
def rolling() -> StrategySteps:
    """Return one deploy step and its rollback step."""
    return StrategySteps(
        steps=(build_step_document("EcsRollingDeploy", "ecsRollingDeploy", "ECS Rolling Deploy"),),
        rollback_steps=(
            build_step_document("EcsRollingRollback", "ecsRollingRollback", "ECS Rolling Rollback"),
        ),
    )
