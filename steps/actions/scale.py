"""The actions that give an ECS service another desired count, and put the old one back."""

import math
from dataclasses import dataclass

from aws.types import EcsService
from steps.actions.adoption import adopt_service_write
from steps.actions.base import (
    Action,
    ActionFailed,
    CallRecord,
    Check,
    Earlier,
    NotOurs,
    Rollout,
    Verdict,
    action,
)
from steps.actions.counts import count_before
from steps.actions.known_service import GONE, is_ours, snapshot_of
from steps.actions.scaling.state import found_before
from steps.actions.timing import may_be_stale, wrote_lately

COUNT, PERCENTAGE = "Count", "Percentage"
BEFORE = "service before"


@action
@dataclass(frozen=True)
class FindServiceToScale(Action):
    """Hold the ECS service, and remember how it is."""

    service: str

    @property
    def title(self) -> str:
        return f"Look at Service {self.service}"

    def start(self, rollout: Rollout) -> None:
        rollout.take_slot(self.service, is_main=False)
        live = rollout.ecs.describe_service(rollout.cluster, self.service)
        if live is None or live.status in GONE:
            raise ActionFailed(
                "NO_SERVICE",
                f"There is no ECS service {self.service} in cluster {rollout.cluster}. Correct service of "
                "the step, or deploy it first.",
            )
        if live.raw.get("schedulingStrategy") == "DAEMON":
            raise ActionFailed(
                "CONTROLLER_NOT_SUPPORTED",
                f"Service {self.service} runs one task on each instance: it has no count to change.",
            )
        rollout.remember(BEFORE, snapshot_of(live))
        rollout.learn(serviceName=live.name, serviceArn=live.arn, countBefore=live.desired)
        rollout.log(f"Service {live.name} has {live.running} of {live.desired} tasks running")


@action
@dataclass(frozen=True)
class ScaleService(Action):
    """Ask for so many tasks, or so many of a hundred of those that were wanted before."""

    has_undo = True

    instances: int
    unit: str = COUNT

    @property
    def title(self) -> str:
        return f"Scale to {self.instances}{'%' if self.unit == PERCENTAGE else ' tasks'}"

    def start(self, rollout: Rollout) -> None:
        before = rollout.recall(BEFORE)
        name = before["name"]
        wanted = self._count(before["desired"])
        _refuse_out_of_bounds(rollout, name, wanted)
        live = rollout.ecs.describe_service(rollout.cluster, name)
        rollout.remember("deployments before scaling", [one.id for one in live.deployments] if live else [])
        rollout.learn(desiredCount=wanted)
        if live is not None and live.desired == wanted:
            rollout.log(f"Service {name} wants {wanted} tasks already")
            return
        rollout.log(f"Updating Service {name} from {before['desired']} to {wanted} tasks")
        rollout.ecs.update_service(rollout.cluster, name, {"desiredCount": wanted})

    def _count(self, before: int) -> int:
        return math.ceil(before * self.instances / 100) if self.unit == PERCENTAGE else self.instances

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        definition = rollout.recall(BEFORE)["task_definition"]
        return adopt_service_write(
            rollout, call, task_definition=definition, before="deployments before scaling"
        )

    def may_undo(self, rollout: Rollout) -> bool:
        before = rollout.recall(BEFORE)
        seen = rollout.see_service(before["name"])
        if seen.service is None or seen.service.status in GONE or seen.service.primary is None:
            raise NotOurs(f"Service {before['name']} is no longer there: somebody has deleted it.")
        return is_ours(rollout, seen, seen.service.primary, {before["primary"]})

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        before, count = known.recall(BEFORE) or {}, known.know("desiredCount")
        if not before or count == before["desired"]:
            return ()
        return (f"Service {before['name']}: count {count} back to {before['desired']}",)

    def undo(self, rollout: Rollout) -> None:
        before = rollout.recall(BEFORE)
        name = before["name"]
        live = rollout.ecs.describe_service(rollout.cluster, name)
        rollout.remember("deployments before undo", [one.id for one in live.deployments] if live else [])
        count = rollout.remember("count to restore", count_before(rollout, before, live) if live else 0)
        # Where auto scaling or somebody else has the say, what is shown stays.
        is_hidden = count == before["desired"] and may_be_stale(rollout)
        if live is not None and live.desired == count and not is_hidden:
            rollout.log(f"Service {name} wants {count} tasks already")
            return
        rollout.log(f"Updating Service {name} back to {count} tasks")
        rollout.ecs.update_service(rollout.cluster, name, {"desiredCount": count})

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        definition = rollout.recall(BEFORE)["task_definition"]
        return adopt_service_write(
            rollout, call, task_definition=definition, before="deployments before undo"
        )

    def is_undone(self, rollout: Rollout) -> bool:
        service = rollout.see_service(rollout.recall(BEFORE)["name"]).service
        if service is None:
            return True
        return _has_its_tasks(rollout, service) and not wrote_lately(rollout)

    def checklist(self, rollout: Rollout) -> list[Check]:
        before = rollout.recall(BEFORE)
        live = rollout.ecs.describe_service(rollout.cluster, before["name"])
        found = live.desired if live is not None else 0
        expected = count_before(rollout, before, live) if live is not None else before["desired"]
        return [
            Check(f"Desired count of Service {before['name']}", str(expected), str(found), expected == found)
        ]


@action
@dataclass(frozen=True)
class WaitForCount(Action):
    """Look until as many tasks run as are wanted."""

    @property
    def title(self) -> str:
        return "Wait for the tasks"

    def start(self, rollout: Rollout) -> None:
        rollout.await_service(str(rollout.know("serviceName")))

    def is_done(self, rollout: Rollout) -> bool:
        name = str(rollout.know("serviceName"))
        service = rollout.see_service(name).service
        if service is None or service.status in GONE:
            raise ActionFailed("NO_SERVICE", f"Service {name} is no longer there: somebody has deleted it.")
        if not _has_its_tasks(rollout, service):
            return False
        rollout.log(f"Service {name} has {service.running} of {service.desired} tasks running", "success")
        return True


def _has_its_tasks(rollout: Rollout, service: EcsService) -> bool:
    rollout.show_counts(running=service.running, desired=service.desired, pending=service.pending)
    counts = f"{service.running}/{service.desired}"
    if rollout.progress.get("counts") != counts:
        rollout.progress["counts"] = counts
        rollout.log(f"Waiting for the tasks of Service {service.name}. {counts} running ...")
    if service.running == service.desired and not service.pending:
        return True
    rollout.rest()
    return False


def _refuse_out_of_bounds(rollout: Rollout, name: str, wanted: int) -> None:
    target = found_before(rollout).target
    if target is None or target.min_capacity <= wanted <= target.max_capacity:
        return
    raise ActionFailed(
        "OUT_OF_BOUNDS",
        f"Auto scaling keeps Service {name} between {target.min_capacity} and {target.max_capacity} tasks "
        f"and would undo a count of {wanted}. Change the scalable target first, or ask for another count.",
    )
