"""Native: ECS deploys by the strategy of the service definition (blue/green, linear, canary)."""

from steps.strategies.registry import StrategySteps, build_step_document, strategy


@strategy("Native")
def native() -> StrategySteps:
    """Return one deploy step and its rollback step; ECS itself shifts the traffic."""
    return StrategySteps(
        steps=(build_step_document("EcsNativeDeploy", "ecsNativeDeploy", "ECS Native Deploy"),),
        rollback_steps=(
            build_step_document("EcsNativeRollback", "ecsNativeRollback", "ECS Native Rollback"),
        ),
    )
