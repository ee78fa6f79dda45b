"""Cleanup step: deletes an ECS service that an earlier deployment left behind (P05)."""

from dataclasses import dataclass

from steps.actions.leftover_services import DeleteLeftover
from steps.kinds.registry import Plan, step, unit


@dataclass(frozen=True)
class EcsCleanUpSpec:
    """Settings of a clean-up: the ECS service, and the stage listener and rule."""

    service: str
    """The ECS service to delete."""
    stageListener: str = ""
    """The stage listener, whose traffic does not protect the ECS service from deletion."""
    stageListenerRuleArn: str = ""
    """The rule of the stage listener; empty for its default rule."""


@step(
    "EcsCleanUp",
    title="ECS Clean Up",
    spec=EcsCleanUpSpec,
    timeout_minutes=30,
    outputs={"serviceName": "The ECS service that was deleted."},
    needs_cluster=True,
)
def ecs_clean_up(spec: EcsCleanUpSpec) -> Plan:
    """Delete one leftover ECS service, unless a check finds that it receives production traffic."""
    yield unit("Clean up", DeleteLeftover(spec.service, spec.stageListener, spec.stageListenerRuleArn))
