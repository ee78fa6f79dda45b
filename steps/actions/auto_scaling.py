"""Actions that suspend, detach, resume and attach the auto scaling of an ECS service (P07, N06)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.apis.scaling import ALL_SUSPENDED, NOTHING_SUSPENDED, ScalableTarget, ScalingPolicy
from aws.errors import Denied
from steps.actions.base import Action, ChecklistEntry, action
from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import EarlierStep, StepContext
from steps.actions.scaling_state import (
    SERVICE_NAME,
    ManifestScaling,
    ScalingState,
    compute_suspension,
    confirm_scaling_write,
    get_attached_key,
    get_manifest_scaling,
    get_saved_scaling,
    get_suspended_key,
    is_policy_changed,
    is_target_changed,
    read_scaling_state,
    refuse_policies_without_target,
)

MISSING_TARGET = "does not exist"
_READ_ONLY_FIELDS = (
    "Alarms",
    "CreationTime",
    "PolicyARN",
    "ResourceId",
    "ScalableDimension",
    "ServiceNamespace",
)


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

    def start(self, context: StepContext) -> None:
        name, wanted = context.get_output(self.of), self._wanted(context)
        if not name or not wanted:
            return
        before = read_scaling_state(context, name)
        context.save_for_rollback(get_attached_key(self.of), before.to_record())
        refuse_policies_without_target(wanted, before, name)
        self._register(context, name, wanted, before.target)
        for policy in wanted.policies:
            _put_policy(context, name, policy, before.policy(policy["PolicyName"]))
        ours = {policy["PolicyName"] for policy in wanted.policies}
        for other in before.policies:
            if other.name not in ours:
                context.log(f"Scaling Policy {other.name} is not in a manifest and is not changed")

    def _register(
        self, context: StepContext, name: str, wanted: ManifestScaling, live: ScalableTarget | None
    ) -> None:
        asked = {k: v for k, v in (wanted.target or {}).items() if k != "SuspendedState"}
        state = (wanted.target or {}).get("SuspendedState")
        if live is None:
            context.log(f"Registering Scalable Target on service {name}..")
            context.scaling.register_target(
                context.cluster, name, {**asked, **({"SuspendedState": state} if state else {})}
            )
            context.log(f"Registered Scalable Target on service {name}: {_format_bounds(asked)}")
            return
        if self.activate and live.suspended != (goal := {**NOTHING_SUSPENDED, **(state or {})}):
            asked["SuspendedState"] = goal
        if "SuspendedState" not in asked and not is_target_changed(asked, live):
            context.log(f"The Scalable Target of service {name} matches its manifest")
            return
        context.log(f"Replacing Scalable Target of service {name}..")
        context.scaling.register_target(context.cluster, name, asked)
        context.log(f"Registered Scalable Target on service {name}: {_format_bounds({**live.raw, **asked})}")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_scaling_write(context, call)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        kept = (
            f"Scalable target and policies of Service {saved.get_output(self.of)}: restore the previous state"
        )
        return (kept,)

    def undo(self, context: StepContext) -> None:
        name, wanted = context.get_output(self.of), self._wanted(context)
        before, live = self._before(context), read_scaling_state(context, name)
        if live.target is None:
            context.log(f"Service {name} no longer has a Scalable Target")
            return
        for policy in wanted.policies:
            _restore_policy(
                context, name, before.policy(policy["PolicyName"]), live.policy(policy["PolicyName"])
            )
        self._restore_target(context, name, before, live)

    def _restore_target(
        self, context: StepContext, name: str, before: ScalingState, live: ScalingState
    ) -> None:
        ours = {policy["PolicyName"] for policy in self._wanted(context).policies}
        others = [one.name for one in live.policies if one.name not in ours]
        if before.target is None and others:
            text = (
                f"Scaling Policies {', '.join(others)} were added outside Slipway: the Scalable Target stays"
            )
            context.log(text, "warning")
        elif before.target is None:
            context.log(f"Deregistering Scalable Targets from service {name}..")
            context.scaling.deregister_target(context.cluster, name)
        else:
            self._restore_bounds(context, name, before.target, live.target)

    def _restore_bounds(
        self, context: StepContext, name: str, before: ScalableTarget, live: ScalableTarget | None
    ) -> None:
        asked: dict[str, Any] = {
            key: before.raw[key] for key in ("MinCapacity", "MaxCapacity", "RoleARN") if key in before.raw
        }
        if self.activate and live is not None and live.suspended != before.suspended:
            asked["SuspendedState"] = before.suspended
        elif live is not None and not is_target_changed(asked, live):
            return
        context.log(f"Registering Scalable Target on service {name}: {_format_bounds(asked)}, as before")
        context.scaling.register_target(context.cluster, name, asked)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        name, before = context.get_output(self.of), self._before(context)
        now = read_scaling_state(context, name)
        checks = [
            _build_check(f"Scalable target of Service {name}", _format_target(before), _format_target(now))
        ]
        names = {one.name for one in before.policies} | {
            one["PolicyName"] for one in self._wanted(context).policies
        }
        for policy in sorted(names):
            checks.append(_check_policy(policy, before.policy(policy), now.policy(policy)))
        return checks

    def _before(self, context: StepContext) -> ScalingState:
        return ScalingState.from_record(context.load_for_rollback(get_attached_key(self.of)))

    def _wanted(self, context: StepContext) -> ManifestScaling:
        if not self.fetched_by:
            return get_manifest_scaling(context)
        earlier = context.get_earlier_step(self.fetched_by)
        return get_manifest_scaling(earlier) if earlier is not None else ManifestScaling()


def _put_policy(
    context: StepContext, name: str, policy: Mapping[str, Any], live: ScalingPolicy | None
) -> None:
    title = policy["PolicyName"]
    if live is not None and not is_policy_changed(policy, live.raw):
        context.log(f"Scaling Policy {title} of service {name} matches its manifest")
        return
    verb = "Attaching" if live is None else "Replacing"
    context.log(f"{verb} Scaling Policy {title} on service {name}..")
    arn = context.scaling.put_policy(context.cluster, name, policy)
    context.log(f"Attached Scaling Policy {title} with Arn {arn}")


def _restore_policy(
    context: StepContext, name: str, before: ScalingPolicy | None, live: ScalingPolicy | None
) -> None:
    """One policy of the manifests as it was: without it before, it goes."""
    if before is None and live is not None:
        context.log(f"Deleting Scaling Policy {live.name} from service {name}..")
        context.scaling.delete_policy(context.cluster, name, live.name)
    elif before is not None and (live is None or is_policy_changed(before.raw, live.raw)):
        context.log(f"Attaching Scaling Policy {before.name} to service {name} as it was before..")
        asked = {key: value for key, value in before.raw.items() if key not in _READ_ONLY_FIELDS}
        context.scaling.put_policy(context.cluster, name, asked)


def _check_policy(name: str, before: ScalingPolicy | None, now: ScalingPolicy | None) -> ChecklistEntry:
    subject = f"Scaling policy {name}"
    if before is None or now is None:
        return _build_check(
            subject, before.arn if before else MISSING_TARGET, now.arn if now else MISSING_TARGET
        )
    same = not is_policy_changed(before.raw, now.raw)
    return ChecklistEntry(subject, "as before", "as before" if same else "different configuration", same)


def _build_check(subject: str, expected: str, found: str) -> ChecklistEntry:
    return ChecklistEntry(subject, expected, found, expected == found)


def _format_target(state: ScalingState) -> str:
    return _format_bounds(state.target.raw) if state.target else MISSING_TARGET


def _format_bounds(raw: Mapping[str, Any]) -> str:
    return f"{raw.get('MinCapacity')}-{raw.get('MaxCapacity')} tasks"


SUSPENDED, RESUMED, RESTORED = "suspended", "resumed", "as before"


@action
@dataclass(frozen=True)
class SuspendAutoScaling(Action):
    """Suspend what scales an ECS service, so that nothing but this step moves its count (R196, R197).

    `of` is the fact that holds the name of the ECS service. Target, policies and people's alarms survive.
    """

    has_undo = True
    repeats = True

    of: str = SERVICE_NAME

    @property
    def title(self) -> str:
        return "Suspend auto scaling"

    def start(self, context: StepContext) -> None:
        name = context.get_output(self.of)
        if not name:
            return
        found = _read_scaling(context, name)
        context.save_for_rollback(get_suspended_key(self.of), found.to_record())
        refuse_policies_without_target(get_manifest_scaling(context), found, name)
        if found.target is None:
            _log_no_scaling(context, name)
            return
        if found.target.is_suspended and is_suspended(context, self.of):
            return  # by an earlier try of this step
        context.log(f"Suspending Auto Scaling of service {name}..")
        if found.target.is_suspended:
            context.log(f"Auto Scaling of service {name} is already suspended and stays suspended", "warning")
            return
        try:
            context.scaling.suspend(found.target)
        except Denied as denied:
            context.log(f"{denied.display_message} Auto Scaling stays active during this step.", "warning")
            return
        context.log(f"Auto Scaling of service {name} is suspended{self._until}; its policies are kept")
        context.set_outputs(**{_get_output_name(self.of): SUSPENDED})

    @property
    def _until(self) -> str:
        return " until this step ends"

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_scaling_write(context, call)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        name = saved.get_output(self.of)
        is_ours = name and saved.get_output(_get_output_name(self.of)) == SUSPENDED
        return (f"Restore auto scaling of Service {name}",) if is_ours else ()

    def undo(self, context: StepContext) -> None:
        before = get_saved_scaling(context, self.of).target
        if before is None:
            return
        name = context.get_output(self.of)
        context.log(f"Resuming Auto Scaling of service {name}..")
        context.scaling.resume(before)
        context.log(f"Auto Scaling of service {name} is restored")
        context.set_outputs(**{_get_output_name(self.of): RESTORED})

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        before = get_saved_scaling(context, self.of)
        if before.target is None:
            return []
        name = context.get_output(self.of)
        now = read_scaling_state(context, name)
        expected, found = _format_scaling(before), _format_scaling(now)
        return [ChecklistEntry(f"Auto scaling of Service {name}", expected, found, expected == found)]


@action
@dataclass(frozen=True)
class DetachAutoScaling(SuspendAutoScaling):
    """Take auto scaling off an ECS service that no longer receives traffic (R235, R245).

    It stays suspended, and is not deleted: with the service brought back, its policies and alarms are too.
    """

    @property
    def title(self) -> str:
        return "Remove auto scaling from the old ECS service"

    @property
    def _until(self) -> str:
        return ""


@action
@dataclass(frozen=True)
class ResumeAutoScaling(Action):
    """Let auto scaling go on, however the step ended (R203, R216)."""

    runs_always = True
    repeats = True

    of: str = SERVICE_NAME

    @property
    def title(self) -> str:
        return "Resume auto scaling"

    def start(self, context: StepContext) -> None:
        before = get_saved_scaling(context, self.of)
        if before.target is None or not is_suspended(context, self.of):
            return
        name = context.get_output(self.of)
        context.log(f"Resuming Auto Scaling of service {name}..")
        attached = context.load_for_rollback(get_attached_key(self.of)) is not None
        wanted = get_manifest_scaling(context) if attached else ManifestScaling()
        context.scaling.resume(before.target, compute_suspension(wanted, before))
        context.log(f"Auto Scaling of service {name} goes on")
        context.set_outputs(**{_get_output_name(self.of): RESUMED})

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_scaling_write(context, call)


def is_suspended(context: StepContext, of: str = SERVICE_NAME) -> bool:
    """Return whether this step has suspended auto scaling and not let it go on since."""
    return bool(context.get_output(_get_output_name(of)) == SUSPENDED)


def _get_output_name(of: str) -> str:
    """Return the fact that says what became of the auto scaling of an ECS service."""
    return "autoScaling" if of == SERVICE_NAME else f"autoScalingOf{of[:1].upper()}{of[1:]}"


def _read_scaling(context: StepContext, name: str) -> ScalingState:
    try:
        return read_scaling_state(context, name)
    except Denied as denied:
        context.log(
            f"{denied.display_message} Slipway assumes that the service has no auto scaling.", "warning"
        )
        return ScalingState()


def _log_no_scaling(context: StepContext, name: str) -> None:
    context.log("")
    context.log(f"Deleting Scaling Policies from service {name}..")
    context.log(f"Didn't find any Scaling Policies attached to service {name}")
    context.log("")
    context.log(f"Deregistering Scalable Targets from service {name}..")
    context.log(f"Didn't find any Scalable Targets on service {name}")


def _format_scaling(state: ScalingState) -> str:
    """What scales an ECS service in one line, for a checklist."""
    target = state.target
    if target is None:
        return "none"
    if target.suspended == ALL_SUSPENDED:
        mode = "suspended"
    else:
        held = [name for name, is_held in sorted(target.suspended.items()) if is_held]
        mode = f"active without {', '.join(held)}" if held else "active"
    names = ", ".join(sorted(one.arn for one in state.policies)) or "no policies"
    return f"{target.min_capacity}-{target.max_capacity} tasks, {mode}, {names}"
