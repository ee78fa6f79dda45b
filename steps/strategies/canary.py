"""Canary: one task of the new version beside the old ones first, then all of them (R218, R219)."""

from steps.strategies.base import Filling, step_document, strategy


@strategy("Canary")
def canary() -> Filling:
    """Deploy one, delete it, replace all; undone from the last phase to the first (R217)."""
    return Filling(
        steps=(
            step_document("EcsCanaryDeploy", "ecsCanaryDeploy", "ECS Canary Deploy"),
            step_document("EcsCanaryDelete", "ecsCanaryDelete", "ECS Canary Delete"),
            step_document("EcsRollingDeploy", "ecsRollingDeploy", "ECS Rolling Deploy"),
        ),
        rollback_steps=(
            step_document("EcsRollingRollback", "ecsRollingRollback", "ECS Rolling Rollback"),
            step_document("EcsCanaryDelete", "ecsCanaryRollback", "ECS Canary Delete"),
        ),
    )
