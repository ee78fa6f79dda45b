"""What a rolling or canary deployment must know of a blue/green pair that serves the same application."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws.errors import Denied
from aws.scaling import NOTHING_SUSPENDED
from aws.types import EcsService
from steps.actions.base import ActionFailed, CallRecord, Earlier, Rollout, Verdict, action
from steps.actions.blue_green.identity import GREEN, TAG
from steps.actions.blue_green.scaling import state_of
from steps.actions.blue_green.traffic import groups_of
from steps.actions.known_service import snapshot_of
from steps.actions.scale_down import ScaleDown
from steps.actions.scaling.adopt import adopt_scaling_write
from steps.actions.scaling.suspend import is_suspended

_PAIR, _RESUMED = "blue/green pair before", "scaling resumed after the pair"
TAKEN_OVER = "takenOverServiceName"
"""The fact that holds the name of the blue/green service that a rolling deployment takes over from."""


def remember_pair(
    rollout: Rollout,
    definition: Mapping[str, Any],
    main: EcsService | None,
    pair: Sequence[EcsService],
) -> None:
    """Keep those services of a blue/green pair that this deployment takes over from, by target group.

    Raises `ActionFailed` where one of them serves production from a target group that is not deployed to:
    the deployment would succeed beside an old version that goes on serving.
    """
    groups = groups_of(definition) or (groups_of(main.raw) if main is not None else [])
    taken_over = []
    for one in pair:
        if not one.is_active or not (one.desired or one.running):
            continue
        if groups and set(groups_of(one.raw)) <= set(groups):
            taken_over.append(snapshot_of(one))
            rollout.log(
                f"Service {one.name} of an earlier blue/green deployment runs {one.running}/{one.desired} "
                "tasks in the same target groups; a rolling deployment takes over from it"
            )
        else:
            _judge_other(rollout, one, groups)
    if len(taken_over) > 1:
        names = " and ".join(one["name"] for one in taken_over)
        raise ActionFailed(
            "STRATEGY_CHANGED",
            f"Services {names} of earlier blue/green deployments both run tasks in the target groups of this "
            "one, so Slipway cannot tell which one serves. Scale one of them down to 0 tasks in AWS, and run "
            "the pipeline again.",
        )
    rollout.remember(_PAIR, taken_over)
    if taken_over:
        rollout.learn(**{TAKEN_OVER: taken_over[0]["name"]})


def _judge_other(rollout: Rollout, one: EcsService, groups: Sequence[str]) -> None:
    missing = [group for group in groups_of(one.raw) if group not in groups]
    where = ", ".join(missing) or "no target group"
    here = ", ".join(groups) or "no target group"
    if _may_be_live(rollout, one):
        raise ActionFailed(
            "STRATEGY_CHANGED",
            f"Service {one.name} of an earlier blue/green deployment runs {one.running} tasks in {where}, "
            f"and this service definition registers its tasks in {here}: production would go on running the "
            f"old version. Name {where} in the service definition too, and {one.name} is scaled down after "
            "the deployment; or deploy with the strategy BlueGreen; or, if it serves nobody, scale it to 0 "
            "in AWS.",
        )
    rollout.note(
        f"Service {one.name} of an earlier blue/green deployment still runs {one.running} tasks in {where}. "
        f"By its tag {TAG} it receives no production traffic; check the listener rules, and delete it with "
        "Clean up on the page of this execution."
    )


def _may_be_live(rollout: Rollout, one: EcsService) -> bool:
    """Whether it may serve production: only the tag that a swap wrote says that it does not."""
    try:
        return rollout.ecs.tags(one.arn).get(TAG, "") != GREEN
    except Denied as denied:
        rollout.log(f"{denied.sentence} Whether {one.name} serves production is not known.", "warning")
        return True


def count_of_pair(rollout: Rollout) -> int:
    """How many tasks the pair runs that this deployment takes over from; 0 where there is none."""
    return max((int(one["running"] or one["desired"]) for one in rollout.recall(_PAIR) or ()), default=0)


@action
@dataclass(frozen=True)
class TakeOverFromPair(ScaleDown):
    """After a rolling deployment, scale the blue/green services down that served before in its place."""

    @property
    def title(self) -> str:
        return "Take over from a blue/green deployment, if there was one"

    def snapshots(self, known: Rollout | Earlier) -> Sequence[Mapping[str, Any]]:
        return known.recall(_PAIR) or []

    def may_go(self, rollout: Rollout, live: EcsService) -> bool:
        name = rollout.know("serviceName")
        main = rollout.ecs.describe_service(rollout.cluster, name)
        if main is not None and main.running > 0:
            return True
        raise ActionFailed(
            "NO_TASKS",
            f"Service {name} runs no task, and {live.name} is all that serves: it is not scaled down. Set "
            "desiredCount in the service definition and run the pipeline again.",
        )

    def start(self, rollout: Rollout) -> None:
        super().start(rollout)
        if self.snapshots(rollout):
            self._resume_scaling(rollout)

    def _resume_scaling(self, rollout: Rollout) -> None:
        """Let auto scaling go on that a swap had taken off the service while the pair served."""
        name = rollout.know("serviceName")
        found = state_of(rollout, name).target
        if found is None or not found.is_suspended or is_suspended(rollout):
            return
        rollout.remember(_RESUMED, True)
        rollout.scaling.resume(found, NOTHING_SUSPENDED)
        rollout.log(
            f"Auto Scaling of service {name}, suspended while {rollout.know(TAKEN_OVER)} served, goes on"
        )

    def undo(self, rollout: Rollout) -> None:
        if rollout.recall(_RESUMED):
            target = state_of(rollout, rollout.know("serviceName")).target
            if target is not None:
                rollout.scaling.suspend(target)
        super().undo(rollout)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        if call.service == "application-autoscaling":
            return adopt_scaling_write(rollout, call)
        return super().adopt(rollout, call)

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        if call.service == "application-autoscaling":
            return adopt_scaling_write(rollout, call)
        return super().adopt_undo(rollout, call)
