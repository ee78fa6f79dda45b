"""Scalable target and policies of an ECS service: read, compared, writes confirmed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws.apis.scaling import NOTHING_SUSPENDED, ScalableTarget, ScalingPolicy
from steps.actions.base import ActionFailed
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import EarlierStep, StepContext

SERVICE_NAME = "serviceName"
SCALABLE_TARGETS, SCALING_POLICIES = "scalable targets", "scaling policies"
_TARGET_FIELDS = ("MinCapacity", "MaxCapacity", "RoleARN")
_POLICY_FIELDS = (
    "PolicyType",
    "TargetTrackingScalingPolicyConfiguration",
    "StepScalingPolicyConfiguration",
    "PredictiveScalingPolicyConfiguration",
)


@dataclass(frozen=True)
class ScalingState:
    """The scalable target of one ECS service and its policies; without a target there is no policy."""

    target: ScalableTarget | None = None
    policies: tuple[ScalingPolicy, ...] = ()

    def policy(self, name: str) -> ScalingPolicy | None:
        return next((one for one in self.policies if one.name == name), None)

    def to_record(self) -> dict[str, Any]:
        """Return the state as JSON."""
        target = self.target.raw if self.target else None
        return {"target": target, "policies": [one.raw for one in self.policies]}

    @classmethod
    def from_record(cls, kept: Mapping[str, Any] | None) -> "ScalingState":
        if not kept or kept["target"] is None:
            return cls()
        policies = tuple(ScalingPolicy.from_aws(one) for one in kept["policies"])
        return cls(ScalableTarget.from_aws(kept["target"]), policies)


@dataclass(frozen=True)
class ManifestScaling:
    """What the manifests say of the auto scaling of an ECS service."""

    target: Mapping[str, Any] | None = None
    policies: tuple[Mapping[str, Any], ...] = ()

    def __bool__(self) -> bool:
        return self.target is not None or bool(self.policies)


def get_suspended_key(of: str) -> str:
    """Under which name `SuspendAutoScaling` keeps what it found of the ECS service that fact `of` names."""
    return "scaling before" if of == SERVICE_NAME else f"scaling before of {of}"


def get_attached_key(of: str) -> str:
    """Under which name `AttachAutoScaling` keeps what it found."""
    return f"scaling before attaching to {of}"


def get_saved_scaling(context: StepContext, of: str = SERVICE_NAME) -> ScalingState:
    """What scaled the ECS service before this step."""
    return ScalingState.from_record(context.load_for_rollback(get_suspended_key(of)))


def has_saved_scaling(context: StepContext) -> bool:
    """Return whether this step has looked at the auto scaling of its ECS service; a canary, say, has none."""
    return context.load_for_rollback(get_suspended_key(SERVICE_NAME)) is not None


def read_scaling_state(context: StepContext, name: str) -> ScalingState:
    """What scales an ECS service now; raises `Denied` where that may not be read."""
    targets = context.scaling.list_targets(context.cluster, name)
    if not targets:
        return ScalingState()
    return ScalingState(targets[0], tuple(context.scaling.list_policies(context.cluster, name)))


def get_manifest_scaling(fetched: StepContext | EarlierStep) -> ManifestScaling:
    """What the manifests that this step (or that earlier one) fetched say of auto scaling."""
    targets: Sequence[Mapping[str, Any]] = fetched.load_for_rollback(SCALABLE_TARGETS) or ()
    policies: Sequence[Mapping[str, Any]] = fetched.load_for_rollback(SCALING_POLICIES) or ()
    return ManifestScaling(targets[-1] if targets else None, tuple(policies))


def compute_bounds(wanted: ManifestScaling, live: ScalingState) -> tuple[int, int] | None:
    """Return the least and the most tasks once the manifests are in force; None where nothing bounds them."""
    least = live.target.min_capacity if live.target else None
    most = live.target.max_capacity if live.target else None
    if wanted.target is not None:
        least = wanted.target.get("MinCapacity", least)
        most = wanted.target.get("MaxCapacity", most)
    return None if least is None or most is None else (int(least), int(most))


def refuse_policies_without_target(wanted: ManifestScaling, live: ScalingState, name: str) -> None:
    """Raise `ActionFailed` where the manifests attach policies to nothing."""
    if wanted.policies and wanted.target is None and live.target is None:
        raise ActionFailed(
            "BAD_MANIFEST",
            f"The service has scaling policies, but Service {name} has no scalable target to attach them to. "
            "Add an EcsScalableTargetDefinition manifest to the service and run again.",
        )


def is_target_changed(wanted: Mapping[str, Any], live: ScalableTarget) -> bool:
    """Whether registering `wanted` would change bounds or role; what is suspended is another matter."""
    return any(key in wanted and wanted[key] != live.raw.get(key) for key in _TARGET_FIELDS)


def is_policy_changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two policies of one name differ; that a field is missing, or empty, or false, is the same."""
    return any(_drop_empty(one.get(key)) != _drop_empty(other.get(key)) for key in _POLICY_FIELDS)


def compute_suspension(wanted: ManifestScaling, before: ScalingState) -> dict[str, bool]:
    """What of the scaling is to be suspended in the end: as the manifest says, else as it was."""
    kept = before.target.suspended if before.target else NOTHING_SUSPENDED
    asked = (wanted.target or {}).get("SuspendedState") or {}
    return {**kept, **{name: bool(value) for name, value in asked.items()}}


def _drop_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _drop_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, False, "", [], {})}
    return [_drop_empty(inner) for inner in value] if isinstance(value, list) else value


def confirm_scaling_write(context: StepContext, call: CallRecord) -> Confirmation:
    """Judge a write by whether what scales the ECS service now is what the write asked for.

    Each of these writes may be repeated without harm, so a state that is as asked for is proof enough.
    """
    late = is_past_read_lag(context, call)
    live = read_scaling_state(context, call.params["ResourceId"])
    if _CONFIRMED_BY[call.operation](live, call.params):
        return Applied(_build_answer(live, call))
    return NotApplied() if late else Unconfirmed()


def _build_answer(live: ScalingState, call: CallRecord) -> dict[str, Any]:
    policy = live.policy(call.params.get("PolicyName", ""))
    return {"PolicyARN": policy.arn} if policy and call.operation == "PutScalingPolicy" else {}


def _is_registered(live: ScalingState, params: Mapping[str, Any]) -> bool:
    if live.target is None or is_target_changed(params, live.target):
        return False
    asked = params.get("SuspendedState", {})
    return all(live.target.suspended.get(name) == value for name, value in asked.items())


def _is_put(live: ScalingState, params: Mapping[str, Any]) -> bool:
    policy = live.policy(params["PolicyName"])
    return policy is not None and not is_policy_changed(params, policy.raw)


def _is_deregistered(live: ScalingState, _params: Mapping[str, Any]) -> bool:
    return live.target is None


def _is_deleted(live: ScalingState, params: Mapping[str, Any]) -> bool:
    return live.policy(params["PolicyName"]) is None


_CONFIRMED_BY = {
    "RegisterScalableTarget": _is_registered,
    "DeregisterScalableTarget": _is_deregistered,
    "PutScalingPolicy": _is_put,
    "DeleteScalingPolicy": _is_deleted,
}
