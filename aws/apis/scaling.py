"""Client for Application Auto Scaling of ECS services."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aws.caller import Caller, paginate

DIMENSION = "ecs:service:DesiredCount"
NAMESPACE = "ecs"
TARGETS_PER_CALL = 50
SCALE_IN_SUSPENDED = "DynamicScalingInSuspended"
_SUSPENDABLE_ACTIVITIES = (
    SCALE_IN_SUSPENDED,
    "DynamicScalingOutSuspended",
    "ScheduledScalingSuspended",
)
NOTHING_SUSPENDED = dict.fromkeys(_SUSPENDABLE_ACTIVITIES, False)
ALL_SUSPENDED = dict.fromkeys(_SUSPENDABLE_ACTIVITIES, True)


def build_resource_id(cluster: str, service: str) -> str:
    """Return the resource id of an ECS service in Application Auto Scaling (R258); both may be ARNs."""
    return f"service/{cluster.rsplit('/', 1)[-1]}/{service.rsplit('/', 1)[-1]}"


@dataclass(frozen=True)
class ScalableTarget:
    """Scaling bounds of an ECS service, and its suspended activities."""

    resource_id: str
    dimension: str
    min_capacity: int
    max_capacity: int
    suspended: dict[str, bool]
    raw: dict[str, Any] = field(repr=False)

    @property
    def is_suspended(self) -> bool:
        """Return whether all scaling is suspended."""
        return self.suspended == ALL_SUSPENDED

    @classmethod
    def from_aws(cls, raw: Mapping[str, Any]) -> Self:
        return cls(
            resource_id=raw.get("ResourceId", ""),
            dimension=raw.get("ScalableDimension", DIMENSION),
            min_capacity=raw.get("MinCapacity", 0),
            max_capacity=raw.get("MaxCapacity", 0),
            suspended={
                name: bool(raw.get("SuspendedState", {}).get(name, False)) for name in _SUSPENDABLE_ACTIVITIES
            },
            raw=dict(raw),
        )


@dataclass(frozen=True)
class ScalingPolicy:
    """A policy attached to a scalable target; `configuration` is its target tracking or step part."""

    name: str
    arn: str
    type: str
    configuration: dict[str, Any]
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def from_aws(cls, raw: Mapping[str, Any]) -> Self:
        tracking = raw.get("TargetTrackingScalingPolicyConfiguration")
        return cls(
            name=raw.get("PolicyName", ""),
            arn=raw.get("PolicyARN", ""),
            type=raw.get("PolicyType", ""),
            configuration=tracking or raw.get("StepScalingPolicyConfiguration") or {},
            raw=dict(raw),
        )


@dataclass(frozen=True)
class ScalingClient:
    """Speaks Application Auto Scaling through a caller, about ECS services only."""

    caller: Caller

    def list_targets(self, cluster: str, service: str) -> list[ScalableTarget]:
        params = {"ResourceIds": [build_resource_id(cluster, service)], "ScalableDimension": DIMENSION}
        targets = self._list_all("DescribeScalableTargets", params, "ScalableTargets")
        return [ScalableTarget.from_aws(target) for target in targets]

    def list_policies(self, cluster: str, service: str) -> list[ScalingPolicy]:
        params = {"ResourceId": build_resource_id(cluster, service), "ScalableDimension": DIMENSION}
        policies = self._list_all("DescribeScalingPolicies", params, "ScalingPolicies")
        return [ScalingPolicy.from_aws(policy) for policy in policies]

    def suspend(self, target: ScalableTarget) -> None:
        """Suspend all scaling; target, policies and alarms stay, because deregistering would delete them."""
        self._set_suspended(target, ALL_SUSPENDED)

    def suspend_scale_in(self, target: ScalableTarget) -> None:
        """Suspend the removal of tasks by policies; everything else goes on as it is."""
        self._set_suspended(target, {**target.suspended, SCALE_IN_SUSPENDED: True})

    def resume(self, target: ScalableTarget, suspended: Mapping[str, bool] | None = None) -> None:
        """Restore the suspended state to `suspended`, or to the state in `target`."""
        self._set_suspended(target, target.suspended if suspended is None else suspended)

    def register_target(self, cluster: str, service: str, definition: Mapping[str, Any]) -> None:
        """Register or change a scalable target; AWS moves the desired count into its bounds at once."""
        self._call("RegisterScalableTarget", self._build_params(cluster, service, definition))

    def put_policy(self, cluster: str, service: str, definition: Mapping[str, Any]) -> str:
        """Create or update a policy by name, and return its ARN."""
        response = self._call("PutScalingPolicy", self._build_params(cluster, service, definition))
        return str(response.get("PolicyARN", ""))

    def delete_policy(self, cluster: str, service: str, name: str) -> None:
        self._call("DeleteScalingPolicy", self._build_params(cluster, service, {"PolicyName": name}))

    def deregister_target(self, cluster: str, service: str) -> None:
        """Remove the scalable target and, with it, its policies and scheduled actions."""
        self._call("DeregisterScalableTarget", self._build_params(cluster, service, {}))

    def _build_params(self, cluster: str, service: str, definition: Mapping[str, Any]) -> dict[str, Any]:
        target = {"ResourceId": build_resource_id(cluster, service), "ScalableDimension": DIMENSION}
        return {**definition, **target, "ServiceNamespace": NAMESPACE}

    def _set_suspended(self, target: ScalableTarget, state: Mapping[str, bool]) -> None:
        resource = {"ResourceId": target.resource_id, "ScalableDimension": target.dimension}
        params = {"ServiceNamespace": NAMESPACE, **resource, "SuspendedState": dict(state)}
        self._call("RegisterScalableTarget", params)

    def _list_all(self, operation: str, params: Mapping[str, Any], result_key: str) -> list[dict[str, Any]]:
        request = {"ServiceNamespace": NAMESPACE, **params}
        service = "application-autoscaling"
        return list(
            paginate(self.caller, service, operation, request, result_key=result_key, cursor_key="NextToken")
        )

    def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.caller.call("application-autoscaling", operation, params)
