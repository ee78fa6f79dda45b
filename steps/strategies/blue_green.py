"""Blue/green: a second ECS service beside the live one, then the listeners change places (R190, R224)."""

from steps.strategies.base import Filling, step_document, strategy

LISTENERS = ("loadBalancer", "prodListener", "prodListenerRuleArn", "stageListener", "stageListenerRuleArn")


@strategy("BlueGreen")
def blue_green() -> Filling:
    """Create, swap, and the one step that undoes both; the listeners are variables of the environment."""
    return Filling(
        steps=(
            step_document(
                "EcsBlueGreenCreateService",
                "ecsBlueGreenCreateService",
                "ECS Blue Green Create Service",
                **{name: f"<+env.variables.{name}>" for name in LISTENERS},
            ),
            step_document(
                "EcsBlueGreenSwapTargetGroups",
                "ecsBlueGreenSwapTargetGroups",
                "ECS Blue Green Swap Target",
            ),
        ),
        rollback_steps=(
            step_document("EcsBlueGreenRollback", "ecsBlueGreenRollback", "ECS Blue Green Rollback"),
        ),
    )
