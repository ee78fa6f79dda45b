"""Canary: one task of the new version first, then all of them (R218, R219)."""

from steps.strategies.registry import StrategySteps, build_step_document, strategy


@strategy("Canary")
def canary() -> StrategySteps:
    """Return the steps of a canary deployment; their undos run in reverse order (R217)."""
    return StrategySteps(
        steps=(
            build_step_document("EcsCanaryDeploy", "ecsCanaryDeploy", "ECS Canary Deploy"),
            build_step_document("EcsCanaryDelete", "ecsCanaryDelete", "ECS Canary Delete"),
            build_step_document("EcsRollingDeploy", "ecsRollingDeploy", "ECS Rolling Deploy"),
        ),
        rollback_steps=(
            build_step_document("EcsRollingRollback", "ecsRollingRollback", "ECS Rolling Rollback"),
            build_step_document("EcsCanaryDelete", "ecsCanaryRollback", "ECS Canary Delete"),
        ),
    )
