"""Whether a write to Application Auto Scaling whose answer was lost took effect (DESIGN 5, rule 9)."""

from collections.abc import Mapping
from typing import Any

from steps.actions.base import AskAgain, CallRecord, DidNot, Happened, Rollout, Verdict
from steps.actions.scaling.state import ScalingState, policy_differs, read_state, target_differs
from steps.actions.timing import is_old_enough_to_deny


def adopt_scaling_write(rollout: Rollout, call: CallRecord) -> Verdict:
    """Judge a write by whether what scales the ECS service now is what the write asked for.

    Each of these writes may be repeated without harm, so a state that is as asked for is proof enough.
    """
    late = is_old_enough_to_deny(rollout, call)
    live = read_state(rollout, call.params["ResourceId"])
    if _SHOWS[call.operation](live, call.params):
        return Happened(_answer(live, call))
    return DidNot() if late else AskAgain()


def _answer(live: ScalingState, call: CallRecord) -> dict[str, Any]:
    policy = live.policy(call.params.get("PolicyName", ""))
    return {"PolicyARN": policy.arn} if policy and call.operation == "PutScalingPolicy" else {}


def _is_registered(live: ScalingState, params: Mapping[str, Any]) -> bool:
    if live.target is None or target_differs(params, live.target):
        return False
    asked = params.get("SuspendedState", {})
    return all(live.target.suspended.get(name) == value for name, value in asked.items())


def _is_put(live: ScalingState, params: Mapping[str, Any]) -> bool:
    policy = live.policy(params["PolicyName"])
    return policy is not None and not policy_differs(params, policy.raw)


def _is_deregistered(live: ScalingState, _params: Mapping[str, Any]) -> bool:
    return live.target is None


def _is_deleted(live: ScalingState, params: Mapping[str, Any]) -> bool:
    return live.policy(params["PolicyName"]) is None


_SHOWS = {
    "RegisterScalableTarget": _is_registered,
    "DeregisterScalableTarget": _is_deregistered,
    "PutScalingPolicy": _is_put,
    "DeleteScalingPolicy": _is_deleted,
}
