"""Scalable target and policies of an ECS service: reads, comparison, confirmation of writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """Scalable target of one ECS service and its policies; without a target there are no policies."""

    target: ScalableTarget | None = None
    policies: tuple[ScalingPolicy, ...] = ()

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Return the minimum and maximum capacity; None without a target."""
        return (self.target.min_capacity, self.target.max_capacity) if self.target else None

    def policy(self, name: str) -> ScalingPolicy | None:
        return next((policy for policy in self.policies if policy.name == name), None)

    def to_record(self) -> dict[str, Any]:
        """Return the state as JSON."""
        target = self.target.raw if self.target else None
        return {"target": target, "policies": [policy.raw for policy in self.policies]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> "ScalingState":
        if not record or record["target"] is None:
            return cls()
        policies = tuple(ScalingPolicy.from_aws(policy) for policy in record["policies"])
        return cls(ScalableTarget.from_aws(record["target"]), policies)


@dataclass(frozen=True)
class ManifestScaling:
    """Auto scaling of an ECS service according to the manifests."""

    target: Mapping[str, Any] | None = None
    policies: tuple[Mapping[str, Any], ...] = ()

    def __bool__(self) -> bool:
        return self.target is not None or bool(self.policies)


def get_suspended_key(service_output: str) -> str:
    """Return the rollback key of the scaling state that `SuspendAutoScaling` saves."""
    return "scaling before" if service_output == SERVICE_NAME else f"scaling before of {service_output}"


def get_attached_key(service_output: str) -> str:
    """Return the rollback key of the scaling state that `AttachAutoScaling` saves."""
    return f"scaling before attaching to {service_output}"


def get_found_key(service_output: str, policy: str = "") -> str:
    """Return the rollback key of the target, or the policy, that the first write of it found."""
    key = f"scaling found by the first write to {service_output}"
    return f"{key}: policy {policy}" if policy else key


def get_suspension_key(service_output: str) -> str:
    """Return the rollback key of the state of a target that was registered after this step had begun."""
    return f"scaling before the first suspension of {service_output}"


# Field of the state saved by `AttachAutoScaling`; a state of an earlier release has none.
RECORDS_WRITES = "records_writes"


@dataclass(frozen=True)
class WrittenScaling:
    """Scaling that `AttachAutoScaling` wrote, as its first writes found it; None did not exist."""

    is_target_written: bool = False
    target: ScalableTarget | None = None
    policies: Mapping[str, ScalingPolicy | None] = field(default_factory=dict)


def save_found_scaling(
    context: StepContext, service_output: str, found: ScalableTarget | ScalingPolicy | None, policy: str = ""
) -> None:
    """Save what a write found. Call this after the write: a refused one leaves nothing to undo."""
    context.save_for_rollback(get_found_key(service_output, policy), {"found": found.raw if found else None})


def load_written_scaling(
    context: StepContext, service_output: str, scaling: ManifestScaling
) -> WrittenScaling:
    """Return the scaling that this step wrote; a step of an earlier release may have written all of it."""
    names = [policy["PolicyName"] for policy in scaling.policies]
    record = context.load_for_rollback(get_attached_key(service_output))
    if record is not None and not record.get(RECORDS_WRITES):
        before = ScalingState.from_record(record)
        return WrittenScaling(True, before.target, {name: before.policy(name) for name in names})
    target = context.load_for_rollback(get_found_key(service_output))
    policies = {name: context.load_for_rollback(get_found_key(service_output, name)) for name in names}
    return WrittenScaling(
        target is not None,
        ScalableTarget.from_aws(target["found"]) if target and target["found"] else None,
        {
            name: ScalingPolicy.from_aws(policy["found"]) if policy["found"] else None
            for name, policy in policies.items()
            if policy is not None
        },
    )


def get_scaling_before_suspension(context: StepContext, service_output: str) -> ScalingState:
    """Return the scaling state from before this step, or of a target that others registered since."""
    record = context.load_for_rollback(get_suspension_key(service_output))
    return ScalingState.from_record(record) if record else get_saved_scaling(context, service_output)


def get_saved_scaling(context: StepContext, service_output: str = SERVICE_NAME) -> ScalingState:
    """Return the scaling state of the ECS service from before this step."""
    return ScalingState.from_record(context.load_for_rollback(get_suspended_key(service_output)))


# Bounds that this attempt of the step found; others may have changed those that its first attempt saved.
BOUNDS_OUTPUT = "scalingBounds"


def get_bounds(context: StepContext) -> tuple[int, int] | None:
    """Return the bounds that others last gave the ECS service, which a rollback leaves; else None."""
    written = load_written_scaling(context, SERVICE_NAME, ManifestScaling())
    if written.is_target_written:
        return ScalingState(written.target).bounds
    bounds = context.get_output(BOUNDS_OUTPUT)
    if bounds is None:
        return get_saved_scaling(context).bounds
    return (int(bounds[0]), int(bounds[1])) if bounds else None


def has_saved_scaling(context: StepContext) -> bool:
    """Return whether this step has saved the scaling state of its ECS service; a canary has none."""
    return context.load_for_rollback(get_suspended_key(SERVICE_NAME)) is not None


def is_target_of_step(context: StepContext) -> bool:
    """Return whether the ECS service got its first scalable target from this step."""
    written = load_written_scaling(context, SERVICE_NAME, ManifestScaling())
    return written.is_target_written and written.target is None


def read_scaling_state(context: StepContext, name: str) -> ScalingState:
    """Return the current scaling state of an ECS service; raises `Denied` without read access."""
    targets = context.scaling.list_targets(context.cluster, name)
    if not targets:
        return ScalingState()
    return ScalingState(targets[0], tuple(context.scaling.list_policies(context.cluster, name)))


def get_manifest_scaling(fetched: StepContext | EarlierStep) -> ManifestScaling:
    """Return the auto scaling in the manifests that this step, or an earlier one, fetched."""
    targets: Sequence[Mapping[str, Any]] = fetched.load_for_rollback(SCALABLE_TARGETS) or ()
    policies: Sequence[Mapping[str, Any]] = fetched.load_for_rollback(SCALING_POLICIES) or ()
    return ManifestScaling(targets[-1] if targets else None, tuple(policies))


def compute_bounds(scaling: ManifestScaling, live: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the minimum and maximum capacity after the manifests are applied; None if unbounded."""
    least, most = live or (None, None)
    if scaling.target is not None:
        least = scaling.target.get("MinCapacity", least)
        most = scaling.target.get("MaxCapacity", most)
    return None if least is None or most is None else (int(least), int(most))


def refuse_policies_without_target(scaling: ManifestScaling, live: ScalingState, name: str) -> None:
    """Raise `ActionFailed` if the manifests have policies but there is no scalable target."""
    if scaling.policies and scaling.target is None and live.target is None:
        raise ActionFailed(
            "BAD_MANIFEST",
            f"The service has scaling policies, but Service {name} has no scalable target to attach them to. "
            "Add an EcsScalableTargetDefinition manifest to the service and run again.",
        )


def is_target_changed(target: Mapping[str, Any], live: ScalableTarget) -> bool:
    """Return whether registering `target` would change bounds or role; suspension is not compared."""
    return any(key in target and target[key] != live.raw.get(key) for key in _TARGET_FIELDS)


def is_policy_changed(policy: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two policies differ; a missing, an empty and a false field are equal."""
    return any(_drop_empty(policy.get(key)) != _drop_empty(other.get(key)) for key in _POLICY_FIELDS)


def compute_suspension(scaling: ManifestScaling, before: ScalingState) -> dict[str, bool]:
    """Return the final suspended processes: those of the manifest, else the saved ones."""
    saved = before.target.suspended if before.target else NOTHING_SUSPENDED
    requested = (scaling.target or {}).get("SuspendedState") or {}
    return {**saved, **{name: bool(value) for name, value in requested.items()}}


def _drop_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        fields = {key: _drop_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in fields.items() if inner not in (None, False, "", [], {})}
    return [_drop_empty(inner) for inner in value] if isinstance(value, list) else value


def confirm_scaling_write(context: StepContext, call: CallRecord) -> Confirmation:
    """Confirm a write by comparing the current scaling state with its parameters.

    Each of these writes is idempotent, so an equal state is proof enough.
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
    requested = params.get("SuspendedState", {})
    return all(live.target.suspended.get(name) == value for name, value in requested.items())


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
