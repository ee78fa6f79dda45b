"""Auto scaling in blue/green deployments: attachment in the swap, restore with a recreated service."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.apis.scaling import ScalableTarget
from aws.errors import Denied
from steps.actions.auto_scaling import AttachAutoScaling, ResumeAutoScaling
from steps.actions.base import action
from steps.actions.blue_green.traffic import CREATE_STEP_TYPE
from steps.actions.context import StepContext
from steps.actions.scaling_state import ScalingState, compute_bounds, get_manifest_scaling, read_scaling_state

OLD_SERVICE = "oldServiceName"
"""Output with the name of the ECS service that was live when the deployment began."""
_POLICY_KEYS = ("PolicyName", "PolicyType", "TargetTracking", "StepScaling", "PredictiveScaling")
ATTACH_IN_SWAP, SWAPPED = "attach scaling in swap", "swapped"


def read_scaling_if_allowed(context: StepContext, name: str) -> ScalingState:
    """Return the scaling state of an ECS service; empty if access is denied."""
    try:
        return read_scaling_state(context, name)
    except Denied as denied:
        context.log(f"{denied.display_message} Slipway assumes that {name} has no auto scaling.", "warning")
        return ScalingState()


def compute_stage_count(context: StepContext, live: Mapping[str, Any], scaling: ScalingState) -> int:
    """Return the task count of the live service, within the new service's bounds (P07)."""
    # If no task runs, the desired count is the better estimate.
    count = int(live["running"] or live["desired"])
    bounds = compute_bounds(get_manifest_scaling(context), scaling)
    return count if bounds is None else min(max(count, bounds[0]), bounds[1])


def restore_scaling(context: StepContext, name: str, before: ScalingState) -> None:
    """Attach the saved auto scaling to a recreated ECS service; AWS deletes it with the service."""
    if before.target is None or read_scaling_state(context, name).target is not None:
        return
    context.log(f"Registering Scalable Target on service {name}, as before..")
    context.scaling.register_target(context.cluster, name, _build_target_definition(before.target))
    for policy in before.policies:
        fields = {key: value for key, value in policy.raw.items() if key.startswith(_POLICY_KEYS)}
        context.scaling.put_policy(context.cluster, name, fields)


def _build_target_definition(target: ScalableTarget) -> dict[str, Any]:
    return {
        "MinCapacity": target.min_capacity,
        "MaxCapacity": target.max_capacity,
        "SuspendedState": target.suspended,
    }


@action
@dataclass(frozen=True)
class AttachAutoScalingInSwap(AttachAutoScaling):
    """Attach the auto scaling of the manifests after the swap, if the create step says so (R239)."""

    fetch_step_type: str = CREATE_STEP_TYPE
    activate: bool = True

    def start(self, context: StepContext) -> None:
        created = context.get_earlier_step(CREATE_STEP_TYPE)
        if created is not None and created.load_for_rollback(ATTACH_IN_SWAP):
            super().start(context)


@action
@dataclass(frozen=True)
class ResumeUnlessSwapped(ResumeAutoScaling):
    """Resume auto scaling of the live service if the step ends before traffic has left it."""

    service_output: str = OLD_SERVICE

    def start(self, context: StepContext) -> None:
        if not context.get_output(SWAPPED):
            super().start(context)
