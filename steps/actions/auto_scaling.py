"""Actions that suspend, detach, resume and attach the auto scaling of an ECS service (P07, N06)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.apis.scaling import ALL_SUSPENDED, NOTHING_SUSPENDED, ScalableTarget, ScalingPolicy
from aws.errors import Denied
from steps.actions.base import Action, ActionFailed, ChecklistEntry, action
from steps.actions.confirmations import CallRecord, Confirmation, has_recent_write
from steps.actions.context import EarlierStep, StepContext
from steps.actions.scaling_state import (
    RECORDS_WRITES,
    SERVICE_NAME,
    ManifestScaling,
    ScalingState,
    WrittenScaling,
    compute_suspension,
    confirm_scaling_write,
    get_attached_key,
    get_bounds,
    get_manifest_scaling,
    get_saved_scaling,
    get_scaling_before_suspension,
    get_suspended_key,
    get_suspension_key,
    is_policy_changed,
    is_target_changed,
    is_target_of_step,
    load_written_scaling,
    read_scaling_state,
    refuse_policies_without_target,
    save_found_scaling,
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
    """Register the scalable target and put the policies of the manifests where they differ (R203, R256).

    `service_output` is the output with the name of the ECS service. `fetch_step_type` is the type of the
    earlier step that fetched the manifests; empty means this step. `activate` resumes scaling that an earlier
    deployment left suspended. Policies missing from the manifests stay unchanged.
    """

    has_undo = True

    service_output: str = SERVICE_NAME
    fetch_step_type: str = ""
    activate: bool = False

    @property
    def title(self) -> str:
        return "Attach auto scaling"

    def start(self, context: StepContext) -> None:
        name, scaling = context.get_output(self.service_output), self._get_manifest_scaling(context)
        if not name or not scaling:
            return
        before = read_scaling_state(context, name)
        context.save_for_rollback(
            get_attached_key(self.service_output), {**before.to_record(), RECORDS_WRITES: True}
        )
        refuse_policies_without_target(scaling, before, name)
        if self._register(context, name, scaling, before.target):
            save_found_scaling(context, self.service_output, before.target)
        for policy in scaling.policies:
            title, found = policy["PolicyName"], before.policy(policy["PolicyName"])
            if _put_policy(context, name, policy, found):
                save_found_scaling(context, self.service_output, found, title)
        manifest_policies = {policy["PolicyName"] for policy in scaling.policies}
        for other in before.policies:
            if other.name not in manifest_policies:
                context.log(f"Scaling Policy {other.name} is not in a manifest and is not changed")

    def _register(
        self, context: StepContext, name: str, scaling: ManifestScaling, live: ScalableTarget | None
    ) -> bool:
        """Register the target unless it matches; return whether it was written."""
        target = {key: value for key, value in (scaling.target or {}).items() if key != "SuspendedState"}
        state = (scaling.target or {}).get("SuspendedState")
        if live is None:
            context.log(f"Registering Scalable Target on service {name}..")
            context.scaling.register_target(
                context.cluster, name, {**target, **({"SuspendedState": state} if state else {})}
            )
            context.log(f"Registered Scalable Target on service {name}: {_format_bounds(target)}")
            return True
        if self.activate and live.suspended != (suspension := {**NOTHING_SUSPENDED, **(state or {})}):
            target["SuspendedState"] = suspension
        if "SuspendedState" not in target and not is_target_changed(target, live):
            context.log(f"The Scalable Target of service {name} matches its manifest")
            return False
        context.log(f"Replacing Scalable Target of service {name}..")
        context.scaling.register_target(context.cluster, name, target)
        context.log(f"Registered Scalable Target on service {name}: {_format_bounds({**live.raw, **target})}")
        return True

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_scaling_write(context, call)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        name = saved.get_output(self.service_output)
        sentence = f"Scalable target and policies of Service {name}: restore the previous state"
        return (sentence,)

    def undo(self, context: StepContext) -> None:
        name = context.get_output(self.service_output)
        written, live = self._load_written_scaling(context), read_scaling_state(context, name)
        if live.target is None:
            context.log(f"Service {name} no longer has a Scalable Target")
            return
        for policy, before in written.policies.items():
            _restore_policy(context, name, before, live.policy(policy))
        if written.is_target_written:
            self._restore_target(context, name, written, live)

    def _restore_target(
        self, context: StepContext, name: str, written: WrittenScaling, live: ScalingState
    ) -> None:
        own_policies = {policy for policy, before in written.policies.items() if before is None}
        other_policies = [policy.name for policy in live.policies if policy.name not in own_policies]
        if written.target is not None:
            self._restore_bounds(context, name, written.target, live.target)
        elif other_policies:
            names = ", ".join(other_policies)
            context.log(
                f"Scaling Policies {names} were added outside Slipway: the Scalable Target stays", "warning"
            )
        else:
            context.log(f"Deregistering Scalable Targets from service {name}..")
            context.scaling.deregister_target(context.cluster, name)

    def _restore_bounds(
        self, context: StepContext, name: str, before: ScalableTarget, live: ScalableTarget | None
    ) -> None:
        target: dict[str, Any] = {
            key: before.raw[key] for key in ("MinCapacity", "MaxCapacity", "RoleARN") if key in before.raw
        }
        if self.activate and live is not None and live.suspended != before.suspended:
            target["SuspendedState"] = before.suspended
        elif live is not None and not is_target_changed(target, live):
            return
        context.log(f"Registering Scalable Target on service {name}: {_format_bounds(target)}, as before")
        context.scaling.register_target(context.cluster, name, target)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        name, written = context.get_output(self.service_output), self._load_written_scaling(context)
        now = read_scaling_state(context, name)
        checks = []
        if written.is_target_written:
            subject = f"Scalable target of Service {name}"
            checks.append(_build_check(subject, _format_target(written.target), _format_target(now.target)))
        for policy, before in sorted(written.policies.items()):
            checks.append(_check_policy(policy, before, now.policy(policy)))
        return checks

    def _load_written_scaling(self, context: StepContext) -> WrittenScaling:
        return load_written_scaling(context, self.service_output, self._get_manifest_scaling(context))

    def _get_manifest_scaling(self, context: StepContext) -> ManifestScaling:
        if not self.fetch_step_type:
            return get_manifest_scaling(context)
        earlier = context.get_earlier_step(self.fetch_step_type)
        return get_manifest_scaling(earlier) if earlier is not None else ManifestScaling()


def _put_policy(
    context: StepContext, name: str, policy: Mapping[str, Any], live: ScalingPolicy | None
) -> bool:
    """Put a policy unless it matches; return whether it was written."""
    title = policy["PolicyName"]
    if live is not None and not is_policy_changed(policy, live.raw):
        context.log(f"Scaling Policy {title} of service {name} matches its manifest")
        return False
    verb = "Attaching" if live is None else "Replacing"
    context.log(f"{verb} Scaling Policy {title} on service {name}..")
    arn = context.scaling.put_policy(context.cluster, name, policy)
    context.log(f"Attached Scaling Policy {title} with Arn {arn}")
    return True


def _restore_policy(
    context: StepContext, name: str, before: ScalingPolicy | None, live: ScalingPolicy | None
) -> None:
    """Restore one policy of the manifests; delete it if it did not exist before."""
    if before is None and live is not None:
        context.log(f"Deleting Scaling Policy {live.name} from service {name}..")
        context.scaling.delete_policy(context.cluster, name, live.name)
    elif before is not None and (live is None or is_policy_changed(before.raw, live.raw)):
        context.log(f"Attaching Scaling Policy {before.name} to service {name} as it was before..")
        fields = {key: value for key, value in before.raw.items() if key not in _READ_ONLY_FIELDS}
        context.scaling.put_policy(context.cluster, name, fields)


def _check_policy(name: str, before: ScalingPolicy | None, now: ScalingPolicy | None) -> ChecklistEntry:
    subject = f"Scaling policy {name}"
    if before is None or now is None:
        return _build_check(
            subject, before.arn if before else MISSING_TARGET, now.arn if now else MISSING_TARGET
        )
    is_same = not is_policy_changed(before.raw, now.raw)
    return ChecklistEntry(
        subject, "as before", "as before" if is_same else "different configuration", is_same
    )


def _build_check(subject: str, expected: str, actual: str) -> ChecklistEntry:
    return ChecklistEntry(subject, expected, actual, expected == actual)


def _format_target(target: ScalableTarget | None) -> str:
    return _format_bounds(target.raw) if target else MISSING_TARGET


def _format_bounds(raw: Mapping[str, Any]) -> str:
    return f"{raw.get('MinCapacity')}-{raw.get('MaxCapacity')} tasks"


SUSPENDED, RESUMED, RESTORED = "suspended", "resumed", "as before"
# Somebody else suspended it before this attempt, and nobody but them resumes it.
SUSPENDED_BY_OTHERS = "suspended outside Slipway"


@action
@dataclass(frozen=True)
class SuspendAutoScaling(Action):
    """Suspend the auto scaling of an ECS service, so that only this step changes its count (R196, R197).

    `service_output` is the output with the name of the ECS service. Target, policies and alarms stay.
    """

    has_undo = True
    repeats = True

    service_output: str = SERVICE_NAME

    @property
    def title(self) -> str:
        return "Suspend auto scaling"

    def start(self, context: StepContext) -> None:
        name = context.get_output(self.service_output)
        if not name:
            return
        scaling = _read_scaling(context, name)
        context.save_for_rollback(get_suspended_key(self.service_output), scaling.to_record())
        self._set_bounds(context, scaling)
        refuse_policies_without_target(get_manifest_scaling(context), scaling, name)
        if scaling.target is None:
            _log_no_scaling(context, name)
            return
        if scaling.target.is_suspended and is_suspended(context, self.service_output):
            return  # by an earlier try of this step
        context.log(f"Suspending Auto Scaling of service {name}..")
        if scaling.target.is_suspended:
            context.log(f"Auto Scaling of service {name} is already suspended and stays suspended", "warning")
            if not self._may_be_own_suspension(context):
                context.set_outputs(**{get_scaling_output(self.service_output): SUSPENDED_BY_OTHERS})
            return
        if get_saved_scaling(context, self.service_output).target is None:
            # It is younger than the state that the first attempt saved.
            context.save_for_rollback(get_suspension_key(self.service_output), scaling.to_record())
        try:
            context.scaling.suspend(scaling.target)
        except Denied as denied:
            context.save_for_rollback(_get_refused_key(self.service_output), True)
            context.log(f"{denied.display_message} Auto Scaling stays active during this step.", "warning")
            return
        context.log(
            f"Auto Scaling of service {name} is suspended{self._duration_note}; its policies are kept"
        )
        context.set_outputs(**{get_scaling_output(self.service_output): SUSPENDED})

    def _set_bounds(self, context: StepContext, scaling: ScalingState) -> None:
        if self.service_output == SERVICE_NAME and (scaling.bounds or get_bounds(context)):
            context.set_outputs(scalingBounds=list(scaling.bounds or ()))

    def _may_be_own_suspension(self, context: StepContext) -> bool:
        """Return whether an earlier attempt ended without knowing its suspension, and resumed none."""
        is_unknown = context.load_for_rollback(_get_unknown_key(self.service_output))
        return bool(is_unknown) and not context.get_output(get_scaling_output(self.service_output))

    @property
    def _duration_note(self) -> str:
        return " until this step ends"

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_scaling_write(context, call)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        name = saved.get_output(self.service_output)
        is_ours = name and saved.get_output(get_scaling_output(self.service_output)) == SUSPENDED
        return (f"Restore auto scaling of Service {name}",) if is_ours else ()

    def undo(self, context: StepContext) -> None:
        before = get_scaling_before_suspension(context, self.service_output).target
        if before is None:
            return
        name = context.get_output(self.service_output)
        if self._is_suspended_by_others(context):
            context.log(f"Auto Scaling of service {name} was suspended outside Slipway and stays suspended")
            return
        if not self._is_target_of_step(context):
            context.log(f"Resuming Auto Scaling of service {name}..")
            context.scaling.resume(before)
            context.log(f"Auto Scaling of service {name} is restored")
        context.set_outputs(**{get_scaling_output(self.service_output): RESTORED})

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        before = get_scaling_before_suspension(context, self.service_output)
        if before.target is None or self._is_target_of_step(context):
            return []
        name = context.get_output(self.service_output)
        now = read_scaling_state(context, name)
        bounds = get_bounds(context) if self.service_output == SERVICE_NAME else before.bounds
        expected, actual = _format_scaling(before, bounds), _format_scaling(now, now.bounds)
        is_kept = self._is_suspended_by_others(context)
        note = "suspended outside Slipway, not resumed" if is_kept else ""
        is_same = is_kept or expected == actual
        return [ChecklistEntry(f"Auto scaling of Service {name}", expected, actual, is_same, note)]

    def _is_target_of_step(self, context: StepContext) -> bool:
        """Return whether a later action of this step registered the target, and removes it in a rollback."""
        return self.service_output == SERVICE_NAME and is_target_of_step(context)

    def _is_suspended_by_others(self, context: StepContext) -> bool:
        return bool(context.get_output(get_scaling_output(self.service_output)) == SUSPENDED_BY_OTHERS)


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
    def _duration_note(self) -> str:
        return ""


@action
@dataclass(frozen=True)
class ResumeAutoScaling(Action):
    """Resume auto scaling, however the step ended (R203, R216)."""

    runs_always = True
    repeats = True

    service_output: str = SERVICE_NAME

    @property
    def title(self) -> str:
        return "Resume auto scaling"

    def start(self, context: StepContext) -> None:
        before = get_scaling_before_suspension(context, self.service_output)
        if before.target is None or not self._may_be_suspended(context, before.target):
            return
        name = context.get_output(self.service_output)
        context.log(f"Resuming Auto Scaling of service {name}..")
        context.scaling.resume(before.target, self._compute_suspension(context, before))
        context.log(f"Auto Scaling of service {name} goes on")
        context.set_outputs(**{get_scaling_output(self.service_output): RESUMED})

    def _may_be_suspended(self, context: StepContext, before: ScalableTarget) -> bool:
        """Return whether this step has suspended auto scaling, or ended without knowing it.

        Reads may lag behind a suspension whose answer was lost, so they are no proof.
        """
        output = context.get_output(get_scaling_output(self.service_output))
        if output in (SUSPENDED, SUSPENDED_BY_OTHERS, RESTORED) or before.is_suspended:
            return bool(output == SUSPENDED)
        if context.load_for_rollback(_get_refused_key(self.service_output)):
            return False
        if read_scaling_state(context, context.get_output(self.service_output)).target is None:
            return False
        context.save_for_rollback(_get_unknown_key(self.service_output), True)
        return True

    def _compute_suspension(self, context: StepContext, before: ScalingState) -> Mapping[str, bool]:
        is_attached = context.load_for_rollback(get_attached_key(self.service_output)) is not None
        scaling = get_manifest_scaling(context) if is_attached else ManifestScaling()
        return compute_suspension(scaling, before)

    def is_done(self, context: StepContext) -> bool:
        """Look again after the lag of reads: a suspension under way may have come after the resumption."""
        if not context.load_for_rollback(_get_unknown_key(self.service_output)):
            return True
        if has_recent_write(context):
            return False
        name = context.get_output(self.service_output)
        live = read_scaling_state(context, name).target
        before = get_scaling_before_suspension(context, self.service_output)
        requested = self._compute_suspension(context, before)
        if live is not None and live.is_suspended and live.suspended != requested:
            raise ActionFailed("STILL_SUSPENDED", f"Auto Scaling of service {name} is still suspended.")
        return True

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_scaling_write(context, call)


def _get_refused_key(service_output: str) -> str:
    """Return the rollback key of AWS's refusal to suspend."""
    return f"suspension refused of {service_output}"


def _get_unknown_key(service_output: str) -> str:
    """Return the rollback key of a suspension that the step did not know when it ended."""
    return f"suspension unknown of {service_output}"


def is_suspended(context: StepContext, service_output: str = SERVICE_NAME) -> bool:
    """Return whether this step has suspended auto scaling and not resumed it since."""
    return bool(context.get_output(get_scaling_output(service_output)) == SUSPENDED)


def get_scaling_output(service_output: str) -> str:
    """Return the output with the state of an ECS service's auto scaling."""
    return (
        "autoScaling"
        if service_output == SERVICE_NAME
        else f"autoScalingOf{service_output[:1].upper()}{service_output[1:]}"
    )


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


def _format_scaling(state: ScalingState, bounds: tuple[int, int] | None) -> str:
    """Return the auto scaling of an ECS service in one line for a checklist."""
    target = state.target
    if target is None or bounds is None:
        return "none"
    if target.suspended == ALL_SUSPENDED:
        mode = "suspended"
    else:
        suspended = [name for name, is_suspended in sorted(target.suspended.items()) if is_suspended]
        mode = f"active without {', '.join(suspended)}" if suspended else "active"
    names = ", ".join(sorted(policy.arn for policy in state.policies)) or "no policies"
    return f"{bounds[0]}-{bounds[1]} tasks, {mode}, {names}"
