"""What scales an ECS service, as an action found it and as the manifests want it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws.scaling import NOTHING_SUSPENDED, ScalableTarget, ScalingPolicy
from steps.actions.base import ActionFailed, Earlier, Rollout

SERVICE_NAME = "serviceName"
TARGETS, POLICIES = "scalable targets", "scaling policies"
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

    def to_memory(self) -> dict[str, Any]:
        """The state as JSON."""
        target = self.target.raw if self.target else None
        return {"target": target, "policies": [one.raw for one in self.policies]}

    @classmethod
    def from_memory(cls, kept: Mapping[str, Any] | None) -> "ScalingState":
        if not kept or kept["target"] is None:
            return cls()
        policies = tuple(ScalingPolicy.from_aws(one) for one in kept["policies"])
        return cls(ScalableTarget.from_aws(kept["target"]), policies)


@dataclass(frozen=True)
class Wanted:
    """What the manifests say of the auto scaling of an ECS service."""

    target: Mapping[str, Any] | None = None
    policies: tuple[Mapping[str, Any], ...] = ()

    def __bool__(self) -> bool:
        return self.target is not None or bool(self.policies)


def name_of_memory(of: str) -> str:
    """Under which name `SuspendAutoScaling` keeps what it found of the ECS service that fact `of` names."""
    return "scaling before" if of == SERVICE_NAME else f"scaling before of {of}"


def name_of_attached(of: str) -> str:
    """Under which name `AttachAutoScaling` keeps what it found."""
    return f"scaling before attaching to {of}"


def found_before(rollout: Rollout, of: str = SERVICE_NAME) -> ScalingState:
    """What scaled the ECS service before this step."""
    return ScalingState.from_memory(rollout.recall(name_of_memory(of)))


def is_dealt_with(rollout: Rollout) -> bool:
    """Whether this step has looked at the auto scaling of its ECS service; a canary, say, has none."""
    return rollout.recall(name_of_memory(SERVICE_NAME)) is not None


def read_state(rollout: Rollout, name: str) -> ScalingState:
    """What scales an ECS service now; raises `Denied` where that may not be read."""
    targets = rollout.scaling.targets(rollout.cluster, name)
    if not targets:
        return ScalingState()
    return ScalingState(targets[0], tuple(rollout.scaling.policies(rollout.cluster, name)))


def wanted_by(fetched: Rollout | Earlier) -> Wanted:
    """What the manifests that this step (or that earlier one) fetched say of auto scaling."""
    targets: Sequence[Mapping[str, Any]] = fetched.recall(TARGETS) or ()
    policies: Sequence[Mapping[str, Any]] = fetched.recall(POLICIES) or ()
    return Wanted(targets[-1] if targets else None, tuple(policies))


def bounds_for(wanted: Wanted, live: ScalingState) -> tuple[int, int] | None:
    """The least and the most tasks once the manifests are in force; None where nothing bounds them."""
    least = live.target.min_capacity if live.target else None
    most = live.target.max_capacity if live.target else None
    if wanted.target is not None:
        least = wanted.target.get("MinCapacity", least)
        most = wanted.target.get("MaxCapacity", most)
    return None if least is None or most is None else (int(least), int(most))


def refuse_policies_without_target(wanted: Wanted, live: ScalingState, name: str) -> None:
    """Raise `ActionFailed` where the manifests attach policies to nothing."""
    if wanted.policies and wanted.target is None and live.target is None:
        raise ActionFailed(
            "BAD_MANIFEST",
            f"The service has scaling policies, but Service {name} has no scalable target to attach them to. "
            "Add an EcsScalableTargetDefinition manifest to the service and run again.",
        )


def target_differs(wanted: Mapping[str, Any], live: ScalableTarget) -> bool:
    """Whether registering `wanted` would change bounds or role; what is suspended is another matter."""
    return any(key in wanted and wanted[key] != live.raw.get(key) for key in _TARGET_FIELDS)


def policy_differs(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two policies of one name differ; that a field is missing, or empty, or false, is the same."""
    return any(_core(one.get(key)) != _core(other.get(key)) for key in _POLICY_FIELDS)


def suspended_by(wanted: Wanted, before: ScalingState) -> dict[str, bool]:
    """What of the scaling is to be suspended in the end: as the manifest says, else as it was."""
    kept = before.target.suspended if before.target else NOTHING_SUSPENDED
    asked = (wanted.target or {}).get("SuspendedState") or {}
    return {**kept, **{name: bool(value) for name, value in asked.items()}}


def _core(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _core(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, False, "", [], {})}
    return [_core(inner) for inner in value] if isinstance(value, list) else value
