"""The actions that pause auto scaling while a step changes counts, and let it go on."""

from dataclasses import dataclass

from aws.errors import Denied
from aws.scaling import ALL_SUSPENDED
from steps.actions.base import Action, CallRecord, Check, Earlier, Rollout, Verdict, action
from steps.actions.scaling.adopt import adopt_scaling_write
from steps.actions.scaling.state import (
    SERVICE_NAME,
    ScalingState,
    Wanted,
    found_before,
    name_of_attached,
    name_of_memory,
    read_state,
    refuse_policies_without_target,
    suspended_by,
    wanted_by,
)

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

    def start(self, rollout: Rollout) -> None:
        name = rollout.know(self.of)
        if not name:
            return
        found = _find(rollout, name)
        rollout.remember(name_of_memory(self.of), found.to_memory())
        refuse_policies_without_target(wanted_by(rollout), found, name)
        if found.target is None:
            _tell_none(rollout, name)
            return
        if found.target.is_suspended and is_suspended(rollout, self.of):
            return  # by an earlier try of this step
        rollout.log(f"Suspending Auto Scaling of service {name}..")
        if found.target.is_suspended:
            rollout.log(f"Auto Scaling of service {name} is suspended already, and stays so", "warning")
            return
        try:
            rollout.scaling.suspend(found.target)
        except Denied as denied:
            rollout.log(f"{denied.sentence} Auto Scaling goes on while this step works.", "warning")
            return
        rollout.log(f"Auto Scaling of service {name} is suspended{self._until}; its policies stay")
        rollout.learn(**{_fact(self.of): SUSPENDED})

    @property
    def _until(self) -> str:
        return " until this step ends"

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_scaling_write(rollout, call)

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        name = known.know(self.of)
        is_ours = name and known.know(_fact(self.of)) == SUSPENDED
        return (f"Resume auto scaling of Service {name} as it was before",) if is_ours else ()

    def undo(self, rollout: Rollout) -> None:
        before = found_before(rollout, self.of).target
        if before is None:
            return
        name = rollout.know(self.of)
        rollout.log(f"Resuming Auto Scaling of service {name}..")
        rollout.scaling.resume(before)
        rollout.log(f"Auto Scaling of service {name} is as it was before")
        rollout.learn(**{_fact(self.of): RESTORED})

    def checklist(self, rollout: Rollout) -> list[Check]:
        before = found_before(rollout, self.of)
        if before.target is None:
            return []
        name = rollout.know(self.of)
        now = read_state(rollout, name)
        expected, found = _words(before), _words(now)
        return [Check(f"Auto scaling of Service {name}", expected, found, expected == found)]


@action
@dataclass(frozen=True)
class DetachAutoScaling(SuspendAutoScaling):
    """Take auto scaling off an ECS service that no longer receives traffic (R235, R245).

    It stays suspended, and is not deleted: with the service brought back, its policies and alarms are too.
    """

    @property
    def title(self) -> str:
        return "Take auto scaling off the old ECS service"

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

    def start(self, rollout: Rollout) -> None:
        before = found_before(rollout, self.of)
        if before.target is None or not is_suspended(rollout, self.of):
            return
        name = rollout.know(self.of)
        rollout.log(f"Resuming Auto Scaling of service {name}..")
        attached = rollout.recall(name_of_attached(self.of)) is not None
        wanted = wanted_by(rollout) if attached else Wanted()
        rollout.scaling.resume(before.target, suspended_by(wanted, before))
        rollout.log(f"Auto Scaling of service {name} goes on")
        rollout.learn(**{_fact(self.of): RESUMED})

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_scaling_write(rollout, call)


def is_suspended(rollout: Rollout, of: str = SERVICE_NAME) -> bool:
    """Whether this step has suspended auto scaling and not let it go on since."""
    return bool(rollout.know(_fact(of)) == SUSPENDED)


def _fact(of: str) -> str:
    """The fact that says what became of the auto scaling of an ECS service."""
    return "autoScaling" if of == SERVICE_NAME else f"autoScalingOf{of[:1].upper()}{of[1:]}"


def _find(rollout: Rollout, name: str) -> ScalingState:
    try:
        return read_state(rollout, name)
    except Denied as denied:
        rollout.log(f"{denied.sentence} Slipway takes it that the service has no auto scaling.", "warning")
        return ScalingState()


def _tell_none(rollout: Rollout, name: str) -> None:
    rollout.log("")
    rollout.log(f"Deleting Scaling Policies from service {name}..")
    rollout.log(f"Didn't find any Scaling Policies attached to service {name}")
    rollout.log("")
    rollout.log(f"Deregistering Scalable Targets from service {name}..")
    rollout.log(f"Didn't find any Scalable Targets on service {name}")


def _words(state: ScalingState) -> str:
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
