"""Canary steps: deploy one task of the new version, and delete it (R218-R223)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from guards.limits import CANARY_TASKS
from steps.actions.base import BadStepSettingError
from steps.actions.canary import CreateCanary, DeleteCanary, PlanCanary
from steps.actions.canary_traffic import (
    MOST_PERCENT,
    AttachCanaryGroup,
    ReturnCanaryTraffic,
    SaveCanaryRule,
    ShareCanaryTraffic,
)
from steps.actions.ecs_service.deployment_health import FailFast
from steps.actions.ecs_service.steady_state import WaitForSteadyState
from steps.actions.ecs_service.updates import SaveCurrentService
from steps.actions.manifests import FetchManifests
from steps.actions.task_definitions import LIVE_SERVICE, RegisterTaskDefinition
from steps.kinds.outputs import REVISION_OUTPUTS, SERVICE_OUTPUTS
from steps.kinds.registry import Plan, step, unit


@dataclass(frozen=True)
class CanaryTraffic:
    """Share of the production traffic for a canary, with the rule and the target group that it takes."""

    percent: int = 0
    """Percent of the traffic of the rule; 0 leaves the canary in the target group of the service."""
    listener: str = ""
    """The ARN of the listener for production traffic, of an application load balancer."""
    listenerRuleArn: str = ""
    """The rule of that listener; empty for its default rule."""
    targetGroup: str = ""
    """The ARN of a target group for the canary alone, which no rule forwards to."""
    tasks: int = 1
    """The number of tasks of the canary."""

    @classmethod
    def from_document(cls, values: Any) -> Self:
        """Parse `traffic` of a step; ARNs may be expressions. Raises `BadStepSettingError`."""
        names = cls.__dataclass_fields__
        if not isinstance(values, Mapping) or not set(values) <= set(names):
            raise BadStepSettingError(f"traffic is a mapping with {', '.join(names)}", ("traffic",))
        for name, most in (("percent", MOST_PERCENT), ("tasks", CANARY_TASKS)):
            number = values.get(name, 1)
            if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
                raise BadStepSettingError(
                    f"{name} of traffic is a whole number from 1 to {most}", ("traffic", name)
                )
        for name in ("listener", "listenerRuleArn", "targetGroup"):
            if not isinstance(values.get(name, ""), str):
                raise BadStepSettingError(f"{name} of traffic is a text", ("traffic", name))
        if missing := [name for name in ("percent", "listener", "targetGroup") if not values.get(name)]:
            raise BadStepSettingError(f"traffic needs {', '.join(missing)}", ("traffic", missing[0]))
        return cls(**values)


@dataclass(frozen=True)
class EcsCanaryDeploySpec:
    """Settings of a canary: its share of the traffic, and conditions that fail it early.

    Without a share it always has one task (R220).
    """

    traffic: CanaryTraffic = field(default_factory=CanaryTraffic)
    failFast: FailFast = field(default_factory=FailFast)


@dataclass(frozen=True)
class EcsCanaryDeleteSpec:
    """Settings of the deletion of a canary: none."""


@step(
    "EcsCanaryDeploy",
    title="ECS Canary Deploy",
    spec=EcsCanaryDeploySpec,
    undone_by="EcsCanaryDelete",
    outputs={
        **REVISION_OUTPUTS,
        **SERVICE_OUTPUTS,
        "trafficPercent": "The percent of the rule's traffic that the canary receives, if it has a share.",
    },
    needs_cluster=True,
)
def ecs_canary_deploy(spec: EcsCanaryDeploySpec) -> Plan:
    """Run one task of the new version in its own ECS service, next to the live one."""
    traffic = spec.traffic
    rule = SaveCanaryRule(
        percent=traffic.percent,
        listener=traffic.listener,
        rule=traffic.listenerRuleArn,
        group=traffic.targetGroup,
        tasks=traffic.tasks,
    )
    yield unit("Fetch manifests", FetchManifests())
    yield unit(
        "Prepare rollback data",
        *((rule,) if traffic.percent else ()),
        PlanCanary(),
        SaveCurrentService(definition="canary definition"),
    )
    yield unit(
        "Deploy",
        RegisterTaskDefinition(live=LIVE_SERVICE),
        *((AttachCanaryGroup(),) if traffic.percent else ()),
        CreateCanary(definition="canary definition"),
        WaitForSteadyState(fail_fast=spec.failFast),
        *((ShareCanaryTraffic(),) if traffic.percent else ()),
    )


@step(
    "EcsCanaryDelete",
    title="ECS Canary Delete",
    spec=EcsCanaryDeleteSpec,
    outputs={"serviceName": "The name of the canary."},
    needs_cluster=True,
    undoes=("EcsCanaryDeploy",),
    goes_forward=True,
)
def ecs_canary_delete(spec: EcsCanaryDeleteSpec) -> Plan:
    """Delete the canary. Under rollbackSteps: the place where a canary deployment is undone."""
    yield unit("Deploy", ReturnCanaryTraffic(), DeleteCanary())
