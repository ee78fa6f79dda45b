"""Scalable targets and scaling policies after the planned writes."""

from collections.abc import Mapping
from typing import Any

from aws.preview.live_reads import LiveAccount

_SERVICE = "application-autoscaling"
_TARGET_KEYS = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_SUSPENDED_FIELDS = ("DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended")


class ScalingOverlay:
    """Overlay of the ECS services whose scaling the preview changed; None means deleted."""

    def __init__(self, live: LiveAccount) -> None:
        self._live = live
        self._targets: dict[tuple[str, ...], dict[str, Any] | None] = {}
        self._policies: dict[tuple[str, ...], dict[str, Any] | None] = {}

    def get_state_before(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return None: a write contains its complete effect."""
        return {}

    def apply_write(self, operation: str, params: Mapping[str, Any], response: dict[str, Any]) -> None:
        target_key = tuple(params[name] for name in _TARGET_KEYS)
        if operation == "RegisterScalableTarget":
            self._register_target(target_key, params)
        elif operation == "DeregisterScalableTarget":
            self._targets[target_key] = None
            for policy in self._read_live("DescribeScalingPolicies", target_key, "ScalingPolicies"):
                self._policies.setdefault((*target_key, policy["PolicyName"]), None)
            self._policies = {
                key: None if key[:3] == target_key else policy for key, policy in self._policies.items()
            }
        elif operation == "PutScalingPolicy":
            response.setdefault("Alarms", [])
            self._policies[*target_key, params["PolicyName"]] = {**params, "PolicyARN": response["PolicyARN"]}
        elif operation == "DeleteScalingPolicy":
            self._policies[*target_key, params["PolicyName"]] = None

    def _register_target(self, target_key: tuple[str, ...], params: Mapping[str, Any]) -> None:
        if target_key not in self._targets:
            targets = self._read_live("DescribeScalableTargets", target_key, "ScalableTargets")
            self._targets[target_key] = targets[0] if targets else None
        before = self._targets[target_key] or {"SuspendedState": dict.fromkeys(_SUSPENDED_FIELDS, False)}
        suspended = {**before.get("SuspendedState", {}), **params.get("SuspendedState", {})}
        self._targets[target_key] = {**before, **params, "SuspendedState": suspended}

    def _read_live(
        self, operation: str, target_key: tuple[str, ...], result_key: str
    ) -> list[dict[str, Any]]:
        namespace, resource, dimension = target_key
        resource_params = (
            {"ResourceIds": [resource]}
            if operation == "DescribeScalableTargets"
            else {"ResourceId": resource}
        )
        params = {"ServiceNamespace": namespace, "ScalableDimension": dimension, **resource_params}
        return list(self._live.read(_SERVICE, operation, params).get(result_key, ()))

    def answer_read(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        response = self._live.read(_SERVICE, operation, params)
        if operation == "DescribeScalableTargets":
            resource_ids = params.get("ResourceIds")
            touched = {
                key: target
                for key, target in self._targets.items()
                if resource_ids is None or key[1] in resource_ids
            }
            return {
                **response,
                "ScalableTargets": _merge_planned(response.get("ScalableTargets", ()), touched, _TARGET_KEYS),
            }
        if operation == "DescribeScalingPolicies":
            resource = params.get("ResourceId")
            touched = {key: policy for key, policy in self._policies.items() if resource in (None, key[1])}
            names = (*_TARGET_KEYS, "PolicyName")
            return {
                **response,
                "ScalingPolicies": _merge_planned(response.get("ScalingPolicies", ()), touched, names),
            }
        return response


def _merge_planned(
    live_items: Any, planned: Mapping[tuple[str, ...], dict[str, Any] | None], names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the real resources, replaced by planned ones."""
    live_by_key = {tuple(item.get(name) for name in names): item for item in live_items}
    return [item for item in {**live_by_key, **planned}.values() if item is not None]
