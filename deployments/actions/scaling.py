"""The actions that keep auto scaling from fighting a deployment (P07, N06)."""

from dataclasses import dataclass

from aws.errors import Denied
from aws.scaling import ScalableTarget
from deployments.actions.base import (
    Action,
    AskAgain,
    CallRecord,
    Check,
    DidNot,
    Happened,
    Rollout,
    Verdict,
    action,
)
from deployments.actions.timing import is_old_enough_to_deny


@action
@dataclass(frozen=True)
class SuspendAutoScaling(Action):
    """Suspend the scalable target, so that nothing but this step moves the count (R196, R197)."""

    @property
    def title(self) -> str:
        return "Suspend auto scaling"

    def start(self, rollout: Rollout) -> None:
        name = rollout.know("serviceName")
        target = _read_target(rollout, name)
        rollout.remember("scaling before", target.raw if target else None)
        if target is None:
            rollout.log("")
            rollout.log(f"Deleting Scaling Policies from service {name}..")
            rollout.log(f"Didn't find any Scaling Policies attached to service {name}")
            rollout.log("")
            rollout.log(f"Deregistering Scalable Targets from service {name}..")
            rollout.log(f"Didn't find any Scalable Targets on service {name}")
            return
        rollout.log(f"Suspending Auto Scaling of service {name}..")
        rollout.scaling.suspend(target)
        rollout.log(f"Auto Scaling of service {name} is suspended until this stage ends")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return _adopt_registration(rollout, call)

    def checklist(self, rollout: Rollout) -> list[Check]:
        before = rollout.recall("scaling before")
        if before is None:
            return []
        return [
            Check(
                f"Auto scaling of Service {rollout.know('serviceName')}",
                f"{before['MinCapacity']}-{before['MaxCapacity']} tasks",
                "kept; it is resumed when the stage ends",
                ok=True,
            )
        ]


@action
@dataclass(frozen=True)
class ResumeAutoScaling(Action):
    """Give auto scaling back the state it had, however the step ended (R203, R216)."""

    runs_always = True

    @property
    def title(self) -> str:
        return "Resume auto scaling"

    def start(self, rollout: Rollout) -> None:
        before = rollout.recall("scaling before")
        if before is None:
            return
        name = rollout.know("serviceName")
        rollout.log(f"Resuming Auto Scaling of service {name}..")
        rollout.scaling.resume(ScalableTarget.from_aws(before))
        rollout.log(f"Auto Scaling of service {name} is as it was before")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return _adopt_registration(rollout, call)


def _read_target(rollout: Rollout, name: str) -> ScalableTarget | None:
    try:
        targets = rollout.scaling.targets(rollout.cluster, name)
    except Denied as denied:
        rollout.log(f"{denied.sentence} Slipway takes it that the service has no auto scaling.", "warning")
        return None
    return targets[0] if targets else None


def _adopt_registration(rollout: Rollout, call: CallRecord) -> Verdict:
    late = is_old_enough_to_deny(rollout, call)
    for target in rollout.scaling.targets(rollout.cluster, call.params["ResourceId"]):
        if target.suspended == call.params["SuspendedState"]:
            return Happened({})
    return DidNot() if late else AskAgain()
