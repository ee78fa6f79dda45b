"""Scalable targets and scaling policies after the planned writes."""

from collections.abc import Mapping
from typing import Any

from aws.preview.live_reads import LiveAccount

_SERVICE = "application-autoscaling"
_TARGET_KEYS = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_SUSPENDED_FIELDS = ("DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended")


class ScalingOverlay:
    """Answers for the ECS services whose scaling the preview has touched; None stands for what is gone."""

    def __init__(self, live: LiveAccount) -> None:
        self._live = live
        self._targets: dict[tuple[str, ...], dict[str, Any] | None] = {}
        self._policies: dict[tuple[str, ...], dict[str, Any] | None] = {}

    def get_state_before(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing: a write says all that it does."""
        return {}

    def apply_write(self, operation: str, params: Mapping[str, Any], answer: dict[str, Any]) -> None:
        place = tuple(params[name] for name in _TARGET_KEYS)
        if operation == "RegisterScalableTarget":
            self._register_target(place, params)
        elif operation == "DeregisterScalableTarget":
            self._targets[place] = None
            for policy in self._read_live("DescribeScalingPolicies", place, "ScalingPolicies"):
                self._policies.setdefault((*place, policy["PolicyName"]), None)
            self._policies = {
                key: None if key[:3] == place else policy for key, policy in self._policies.items()
            }
        elif operation == "PutScalingPolicy":
            answer.setdefault("Alarms", [])
            self._policies[*place, params["PolicyName"]] = {**params, "PolicyARN": answer["PolicyARN"]}
        elif operation == "DeleteScalingPolicy":
            self._policies[*place, params["PolicyName"]] = None

    def _register_target(self, place: tuple[str, ...], params: Mapping[str, Any]) -> None:
        if place not in self._targets:
            found = self._read_live("DescribeScalableTargets", place, "ScalableTargets")
            self._targets[place] = found[0] if found else None
        before = self._targets[place] or {"SuspendedState": dict.fromkeys(_SUSPENDED_FIELDS, False)}
        suspended = {**before.get("SuspendedState", {}), **params.get("SuspendedState", {})}
        self._targets[place] = {**before, **params, "SuspendedState": suspended}

    def _read_live(self, operation: str, place: tuple[str, ...], member: str) -> list[dict[str, Any]]:
        namespace, resource, dimension = place
        named = (
            {"ResourceIds": [resource]}
            if operation == "DescribeScalableTargets"
            else {"ResourceId": resource}
        )
        params = {"ServiceNamespace": namespace, "ScalableDimension": dimension, **named}
        return list(self._live.read(_SERVICE, operation, params).get(member, ()))

    def answer_read(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        found = self._live.read(_SERVICE, operation, params)
        if operation == "DescribeScalableTargets":
            wanted = params.get("ResourceIds")
            touched = {k: t for k, t in self._targets.items() if wanted is None or k[1] in wanted}
            return {
                **found,
                "ScalableTargets": _merge_planned(found.get("ScalableTargets", ()), touched, _TARGET_KEYS),
            }
        if operation == "DescribeScalingPolicies":
            resource = params.get("ResourceId")
            touched = {k: p for k, p in self._policies.items() if resource in (None, k[1])}
            names = (*_TARGET_KEYS, "PolicyName")
            return {
                **found,
                "ScalingPolicies": _merge_planned(found.get("ScalingPolicies", ()), touched, names),
            }
        return found


def _merge_planned(
    found: Any, touched: Mapping[tuple[str, ...], dict[str, Any] | None], names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """What was found, with what was touched instead."""
    kept = {tuple(one.get(name) for name in names): one for one in found}
    return [one for one in {**kept, **touched}.values() if one is not None]
