"""Blue/green: a second ECS service takes over when the listeners are swapped (R190, R224)."""

from steps.strategies.registry import StrategySteps, build_step_document, strategy

LISTENER_VARIABLES = (
    "loadBalancer",
    "prodListener",
    "prodListenerRuleArn",
    "stageListener",
    "stageListenerRuleArn",
)


@strategy("BlueGreen")
def blue_green() -> StrategySteps:
    """Return the create, swap and rollback steps; the listeners are variables of the environment."""
    return StrategySteps(
        steps=(
            build_step_document(
                "EcsBlueGreenCreateService",
                "ecsBlueGreenCreateService",
                "ECS Blue Green Create Service",
                **{name: f"<+env.variables.{name}>" for name in LISTENER_VARIABLES},
            ),
            build_step_document(
                "EcsBlueGreenSwapTargetGroups",
                "ecsBlueGreenSwapTargetGroups",
                "ECS Blue Green Swap Target",
            ),
        ),
        rollback_steps=(
            build_step_document("EcsBlueGreenRollback", "ecsBlueGreenRollback", "ECS Blue Green Rollback"),
        ),
    )
