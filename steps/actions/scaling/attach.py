"""The action that puts the auto scaling of the manifests onto an ECS service."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.scaling import NOTHING_SUSPENDED, ScalableTarget, ScalingPolicy
from steps.actions.base import Action, CallRecord, Check, Earlier, Rollout, Verdict, action
from steps.actions.scaling.adopt import adopt_scaling_write
from steps.actions.scaling.state import (
    SERVICE_NAME,
    ScalingState,
    Wanted,
    name_of_attached,
    policy_differs,
    read_state,
    refuse_policies_without_target,
    target_differs,
    wanted_by,
)

NONE = "does not exist"
_KEPT = ("Alarms", "CreationTime", "PolicyARN", "ResourceId", "ScalableDimension", "ServiceNamespace")


@action
@dataclass(frozen=True)
class AttachAutoScaling(Action):
    """Register the scalable target and put the policies of the manifests, where they differ (R203, R256).

    `of` is the fact that holds the name of the ECS service, `fetched_by` the type of the earlier step that
    fetched the manifests, empty for this one. With `activate`, scaling that an earlier deployment has left
    suspended goes on. Policies that the manifests do not name are left alone.
    """

    has_undo = True

    of: str = SERVICE_NAME
    fetched_by: str = ""
    activate: bool = False

    @property
    def title(self) -> str:
        return "Attach auto scaling"

    def start(self, rollout: Rollout) -> None:
        name, wanted = rollout.know(self.of), self._wanted(rollout)
        if not name or not wanted:
            return
        before = read_state(rollout, name)
        rollout.remember(name_of_attached(self.of), before.to_memory())
        refuse_policies_without_target(wanted, before, name)
        self._register(rollout, name, wanted, before.target)
        for policy in wanted.policies:
            _put(rollout, name, policy, before.policy(policy["PolicyName"]))
        ours = {policy["PolicyName"] for policy in wanted.policies}
        for other in before.policies:
            if other.name not in ours:
                rollout.log(f"Scaling Policy {other.name} is in no manifest, it stays as it is")

    def _register(self, rollout: Rollout, name: str, wanted: Wanted, live: ScalableTarget | None) -> None:
        asked = {k: v for k, v in (wanted.target or {}).items() if k != "SuspendedState"}
        state = (wanted.target or {}).get("SuspendedState")
        if live is None:
            rollout.log(f"Registering Scalable Target on service {name}..")
            rollout.scaling.register(
                rollout.cluster, name, {**asked, **({"SuspendedState": state} if state else {})}
            )
            rollout.log(f"Registered Scalable Target on service {name}: {_bounds(asked)}")
            return
        if self.activate and live.suspended != (goal := {**NOTHING_SUSPENDED, **(state or {})}):
            asked["SuspendedState"] = goal
        if "SuspendedState" not in asked and not target_differs(asked, live):
            rollout.log(f"The Scalable Target of service {name} is as its manifest says")
            return
        rollout.log(f"Replacing Scalable Target of service {name}..")
        rollout.scaling.register(rollout.cluster, name, asked)
        rollout.log(f"Registered Scalable Target on service {name}: {_bounds({**live.raw, **asked})}")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_scaling_write(rollout, call)

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        kept = f"Scalable target and policies of Service {known.know(self.of)}: back to what they were before"
        return (kept,)

    def undo(self, rollout: Rollout) -> None:
        name, wanted = rollout.know(self.of), self._wanted(rollout)
        before, live = self._before(rollout), read_state(rollout, name)
        if live.target is None:
            rollout.log(f"Service {name} has no Scalable Target any more")
            return
        for policy in wanted.policies:
            _put_back(rollout, name, before.policy(policy["PolicyName"]), live.policy(policy["PolicyName"]))
        self._restore_target(rollout, name, before, live)

    def _restore_target(self, rollout: Rollout, name: str, before: ScalingState, live: ScalingState) -> None:
        ours = {policy["PolicyName"] for policy in self._wanted(rollout).policies}
        others = [one.name for one in live.policies if one.name not in ours]
        if before.target is None and others:
            text = f"Somebody added the Scaling Policies {', '.join(others)}: the Scalable Target stays"
            rollout.log(text, "warning")
        elif before.target is None:
            rollout.log(f"Deregistering Scalable Targets from service {name}..")
            rollout.scaling.deregister(rollout.cluster, name)
        else:
            self._restore_bounds(rollout, name, before.target, live.target)

    def _restore_bounds(
        self, rollout: Rollout, name: str, before: ScalableTarget, live: ScalableTarget | None
    ) -> None:
        asked: dict[str, Any] = {
            key: before.raw[key] for key in ("MinCapacity", "MaxCapacity", "RoleARN") if key in before.raw
        }
        if self.activate and live is not None and live.suspended != before.suspended:
            asked["SuspendedState"] = before.suspended
        elif live is not None and not target_differs(asked, live):
            return
        rollout.log(f"Registering Scalable Target on service {name}: {_bounds(asked)}, as before")
        rollout.scaling.register(rollout.cluster, name, asked)

    def checklist(self, rollout: Rollout) -> list[Check]:
        name, before = rollout.know(self.of), self._before(rollout)
        now = read_state(rollout, name)
        checks = [_check(f"Scalable target of Service {name}", _target_words(before), _target_words(now))]
        names = {one.name for one in before.policies} | {
            one["PolicyName"] for one in self._wanted(rollout).policies
        }
        for policy in sorted(names):
            checks.append(_check_policy(policy, before.policy(policy), now.policy(policy)))
        return checks

    def _before(self, rollout: Rollout) -> ScalingState:
        return ScalingState.from_memory(rollout.recall(name_of_attached(self.of)))

    def _wanted(self, rollout: Rollout) -> Wanted:
        if not self.fetched_by:
            return wanted_by(rollout)
        earlier = rollout.earlier(self.fetched_by)
        return wanted_by(earlier) if earlier is not None else Wanted()


def _put(rollout: Rollout, name: str, policy: Mapping[str, Any], live: ScalingPolicy | None) -> None:
    title = policy["PolicyName"]
    if live is not None and not policy_differs(policy, live.raw):
        rollout.log(f"Scaling Policy {title} of service {name} is as its manifest says")
        return
    verb = "Attaching" if live is None else "Replacing"
    rollout.log(f"{verb} Scaling Policy {title} on service {name}..")
    arn = rollout.scaling.put_policy(rollout.cluster, name, policy)
    rollout.log(f"Attached Scaling Policy {title} with Arn {arn}")


def _put_back(rollout: Rollout, name: str, before: ScalingPolicy | None, live: ScalingPolicy | None) -> None:
    """One policy of the manifests as it was: without it before, it goes."""
    if before is None and live is not None:
        rollout.log(f"Deleting Scaling Policy {live.name} from service {name}..")
        rollout.scaling.delete_policy(rollout.cluster, name, live.name)
    elif before is not None and (live is None or policy_differs(before.raw, live.raw)):
        rollout.log(f"Attaching Scaling Policy {before.name} to service {name} as it was before..")
        asked = {key: value for key, value in before.raw.items() if key not in _KEPT}
        rollout.scaling.put_policy(rollout.cluster, name, asked)


def _check_policy(name: str, before: ScalingPolicy | None, now: ScalingPolicy | None) -> Check:
    subject = f"Scaling policy {name}"
    if before is None or now is None:
        return _check(subject, before.arn if before else NONE, now.arn if now else NONE)
    same = not policy_differs(before.raw, now.raw)
    return Check(subject, "as before", "as before" if same else "configured otherwise", same)


def _check(subject: str, expected: str, found: str) -> Check:
    return Check(subject, expected, found, expected == found)


def _target_words(state: ScalingState) -> str:
    return _bounds(state.target.raw) if state.target else NONE


def _bounds(raw: Mapping[str, Any]) -> str:
    return f"{raw.get('MinCapacity')}-{raw.get('MaxCapacity')} tasks"
