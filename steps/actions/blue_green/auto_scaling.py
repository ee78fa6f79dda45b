"""Auto scaling in blue/green deployments: scale-in while traffic moves, attachment in the swap, restores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.apis.scaling import SCALE_IN_SUSPENDED, ScalableTarget
from aws.errors import Denied
from steps.actions.auto_scaling import (
    SUSPENDED,
    AttachAutoScaling,
    ResumeAutoScaling,
    SuspendAutoScaling,
    get_scaling_output,
)
from steps.actions.base import action
from steps.actions.blue_green.traffic import CREATE_STEP_TYPE
from steps.actions.blue_green.traffic_shares import SHIFT_STEP_TYPE
from steps.actions.context import StepContext
from steps.actions.scaling_state import (
    ScalingState,
    compute_bounds,
    get_manifest_scaling,
    get_suspended_key,
    read_scaling_state,
)

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
    bounds = compute_bounds(get_manifest_scaling(context), scaling.bounds)
    return count if bounds is None else min(max(count, bounds[0]), bounds[1])


def restore_target(context: StepContext, name: str, before: ScalingState) -> bool:
    """Register the saved target of a recreated ECS service, which AWS deletes with the service.

    Returns whether it was not there.
    """
    if before.target is None or read_scaling_state(context, name).target is not None:
        return False
    context.log(f"Registering Scalable Target on service {name}, as before..")
    context.scaling.register_target(context.cluster, name, _build_target_definition(before.target))
    return True


def restore_policies(context: StepContext, name: str, before: ScalingState) -> None:
    """Attach the saved policies that a recreated ECS service does not have."""
    if not before.policies:
        return
    live = read_scaling_state(context, name)
    for policy in before.policies:
        if live.policy(policy.name) is None:
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


def save_scaling_before_shifts(context: StepContext) -> None:
    """Save the scaling of the live service from before earlier shift steps: a rollback ends with that."""
    key = get_suspended_key(OLD_SERVICE)
    records = [step.load_for_rollback(key) for step in context.list_earlier_steps(SHIFT_STEP_TYPE)]
    if found := [record for record in records if record is not None]:
        context.save_for_rollback(key, found[-1])


@action
@dataclass(frozen=True)
class HoldScaleIn(SuspendAutoScaling):
    """Suspend the scale-in of the live service while it gives traffic away: a rollback needs all its tasks.

    It goes on scaling out. The swap suspends the rest, a rollback restores all of it.
    """

    repeats = False

    service_output: str = OLD_SERVICE

    @property
    def title(self) -> str:
        return "Suspend scale-in of the live service"

    def start(self, context: StepContext) -> None:
        name = context.get_output(self.service_output)
        if not name:
            return
        scaling = read_scaling_if_allowed(context, name)
        context.save_for_rollback(get_suspended_key(self.service_output), scaling.to_record())
        if scaling.target is None or scaling.target.suspended[SCALE_IN_SUSPENDED]:
            return
        try:
            context.scaling.suspend_scale_in(scaling.target)
        except Denied as denied:
            context.log(
                f"{denied.display_message} Service {name} may scale in while it has less traffic.", "warning"
            )
            return
        context.log(f"Scale-in of service {name} is suspended until the swap or a rollback; it scales out on")
        context.set_outputs(**{get_scaling_output(self.service_output): SUSPENDED})
