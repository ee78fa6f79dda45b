"""Scale-down of ECS services that another one replaced in traffic, also after a strategy change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aws.apis.ecs_types import EcsService
from aws.apis.scaling import NOTHING_SUSPENDED
from aws.errors import Denied
from steps.actions.auto_scaling import is_suspended
from steps.actions.base import Action, ActionFailed, ChangedByOthers, ChecklistEntry, action
from steps.actions.blue_green.auto_scaling import read_scaling_if_allowed
from steps.actions.blue_green.identity import GREEN, VERSION_TAG
from steps.actions.blue_green.route_restores import require_healthy_targets
from steps.actions.blue_green.target_owners import read_target_owners
from steps.actions.blue_green.traffic import (
    count_healthy_targets,
    find_other_rule,
    list_target_groups,
    load_traffic,
    refuse_production,
)
from steps.actions.confirmations import CallRecord, Confirmation, is_read_stale
from steps.actions.context import EarlierStep, StepContext
from steps.actions.ecs_service.confirmation import confirm_service_write
from steps.actions.ecs_service.snapshots import (
    GONE_STATUSES,
    build_service_checks,
    build_snapshot,
    is_own_deployment,
    is_restored,
    refuse_foreign_deployment,
)
from steps.actions.scaling_state import confirm_scaling_write

_SCALED_DOWN_KEY = "scaled down"
_DEPLOYMENTS_BEFORE_KEY, _DEPLOYMENTS_BEFORE_UNDO_KEY = (
    "deployments before scaling down",
    "deployments before scaling up",
)


@dataclass(frozen=True)
class ScaleDown(Action):
    """Scale the ECS services that `snapshots` returns to 0; they stay available for a rollback."""

    has_undo = True
    moves_traffic = True

    def list_snapshots(self, saved: StepContext | EarlierStep) -> Sequence[Mapping[str, Any]]:
        """Return the services as they were when the step began."""
        raise NotImplementedError

    def may_scale_down(self, context: StepContext, live: EcsService) -> bool:
        """Return whether the tasks of a service are no longer needed; log the reason if they are."""
        raise NotImplementedError

    def start(self, context: StepContext) -> None:
        for before in self.list_snapshots(context):
            self._scale_down(context, before["name"])

    def _scale_down(self, context: StepContext, name: str) -> None:
        live = context.ecs.describe_service(context.cluster, name)
        if live is None or not live.is_active or live.desired == 0:
            context.log(f"Service {name} has no tasks to scale down")
            return
        if not self.may_scale_down(context, live):
            return
        state = {"desired": live.desired, "healthy": _count_healthy_by_group(context, live)}
        context.save_for_rollback(f"{_SCALED_DOWN_KEY} {name}", state)
        context.save_for_rollback(
            f"{_DEPLOYMENTS_BEFORE_KEY} {name}", [deployment.id for deployment in live.deployments]
        )
        context.log(f"Updating Service {name} with desired count 0")
        context.ecs.update_service(context.cluster, name, {"desiredCount": 0})

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return self._confirm_count(context, call, _DEPLOYMENTS_BEFORE_KEY)

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        return self._confirm_count(context, call, _DEPLOYMENTS_BEFORE_UNDO_KEY)

    def _confirm_count(self, context: StepContext, call: CallRecord, deployments: str) -> Confirmation:
        name = call.params["service"]
        (before,) = (snapshot for snapshot in self.list_snapshots(context) if snapshot["name"] == name)
        task_definition = before["task_definition"]
        return confirm_service_write(
            context, call, task_definition=task_definition, before=f"{deployments} {name}"
        )

    def _list_scaled(self, saved: StepContext | EarlierStep) -> list[dict[str, Any]]:
        """Return the services that were scaled down, in their state before, with `healthy` targets."""
        snapshots = []
        for before in self.list_snapshots(saved):
            if state := saved.load_for_rollback(f"{_SCALED_DOWN_KEY} {before['name']}"):
                snapshots.append({**before, "desired": state["desired"], "healthy": state["healthy"]})
        return snapshots

    def is_done(self, context: StepContext) -> bool:
        return all(self._is_scaled_down(context, before["name"]) for before in self._list_scaled(context))

    def _is_scaled_down(self, context: StepContext, name: str) -> bool:
        service = context.observe_service(name).service
        running = service.running if service is not None else 0
        if context.progress.get(f"running {name}") == running == 0:
            return True
        if context.progress.get(f"running {name}") != running:
            context.progress[f"running {name}"] = running
            context.log(f"Waiting for Service {name} to scale down. {running} running ...")
        if running:
            context.wait_for_change()
            return False
        context.log(f"Service {name} is scaled down to 0 and kept for a rollback")
        return True

    def may_undo(self, context: StepContext) -> bool:
        return all(self._may_undo(context, before) for before in self._list_scaled(context))

    def _may_undo(self, context: StepContext, before: Mapping[str, Any]) -> bool:
        observation = context.observe_service(before["name"])
        service = observation.service
        if service is None or service.status in GONE_STATUSES or service.primary is None:
            raise ChangedByOthers(f"Service {before['name']} was deleted outside Slipway.")
        return is_own_deployment(context, observation, service.primary, {before["primary"]})

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        scaled = self._list_scaled(saved)
        return tuple(
            f"Service {snapshot['name']}: restore desired count {snapshot['desired']} (now 0)"
            for snapshot in scaled
        )

    def undo(self, context: StepContext) -> None:
        for before in self._list_scaled(context):
            name, count = before["name"], before["desired"]
            live = context.ecs.describe_service(context.cluster, name)
            deployments = [deployment.id for deployment in live.deployments] if live else []
            context.save_for_rollback(f"{_DEPLOYMENTS_BEFORE_UNDO_KEY} {name}", deployments)
            refuse_foreign_deployment(context, live, {before["primary"]})
            if live is not None and live.desired == count and not is_read_stale(context):
                context.log(f"Service {name} already has desired count {count}")
                continue
            context.log(f"Updating Service {name} with desired count {count} before traffic is moved back")
            context.ecs.update_service(context.cluster, name, {"desiredCount": count})

    def is_undone(self, context: StepContext) -> bool:
        return all(self._is_scaled_up(context, before) for before in self._list_scaled(context))

    def _is_scaled_up(self, context: StepContext, before: Mapping[str, Any]) -> bool:
        """Return whether tasks run and as many targets are healthy as before."""
        service = context.observe_service(before["name"]).service
        if service is not None:
            context.show_counts(running=service.running, desired=service.desired, pending=service.pending)
        if not is_restored(context, before, service):
            return False
        if not any(before["healthy"].values()):
            return True
        name, groups = before["name"], list(before["healthy"])
        owners = read_target_owners(context, groups, [name], reads_cluster=False)
        return all(owners.count_healthy(name, group) >= count for group, count in before["healthy"].items())

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        return [
            check for before in self._list_scaled(context) for check in build_service_checks(context, before)
        ]


def _count_healthy_by_group(context: StepContext, live: EcsService) -> dict[str, int]:
    """Return the number of healthy targets per target group; empty if access is denied."""
    try:
        # The group may have targets of others, so the count is limited to the service's tasks.
        return {
            group: min(count_healthy_targets(context, group), live.desired)
            for group in list_target_groups(live.raw)
        }
    except Denied as denied:
        context.log(
            f"{denied.display_message} A rollback uses the running tasks of Service {live.name}.",
            "warning",
        )
        return {}


@action
@dataclass(frozen=True)
class WaitBeforeDownsizing(Action):
    """Keep the old version running for a while, so that an abort with rollback is immediate."""

    seconds: int

    @property
    def title(self) -> str:
        return f"Keep the old service for {self.seconds} seconds"

    def start(self, context: StepContext) -> None:
        if not context.load_for_rollback("pair")["blue"]:
            return
        until = context.now() + timedelta(seconds=self.seconds)
        context.save_for_rollback("downsize at", until.isoformat())
        context.log(
            f"Service {context.load_for_rollback('pair')['blue']} is scaled down in {self.seconds} seconds; "
            "abort with rollback before that to switch back immediately"
        )

    def is_done(self, context: StepContext) -> bool:
        until = context.load_for_rollback("downsize at")
        return until is None or context.now() >= datetime.fromisoformat(until)


@action
@dataclass(frozen=True)
class DownsizeOldService(ScaleDown):
    """Scale the previously live service to 0; it stays for the next deployment or a rollback (R244)."""

    @property
    def title(self) -> str:
        return "Scale down the old service"

    def list_snapshots(self, saved: StepContext | EarlierStep) -> Sequence[Mapping[str, Any]]:
        before = saved.load_for_rollback("blue before")
        return [] if before is None else [before]

    def may_scale_down(self, context: StepContext, live: EcsService) -> bool:
        if rule := find_other_rule(context, live):
            context.log(
                f"The {rule} still leads to Service {live.name}, so it is not scaled down. Let that rule "
                "forward to the target group of the prod rule, and scale it down in AWS.",
                "warning",
            )
            return False
        refuse_production(context, live, "to scale it down")
        # Long after the swap, it may be all that could still serve.
        groups = load_traffic(context).stage_groups
        require_healthy_targets(context, groups, f"Service {live.name} is not scaled down.")
        return True


_REPLACED_PAIR_KEY, _SCALING_RESUMED_KEY = "blue/green pair before", "scaling resumed after the pair"
REPLACED_SERVICE = "takenOverServiceName"
"""Output with the name of the blue/green service that a rolling deployment replaces."""


def save_replaced_pair(
    context: StepContext,
    definition: Mapping[str, Any],
    main: EcsService | None,
    pair: Sequence[EcsService],
) -> None:
    """Save the services of a blue/green pair that this deployment replaces, by target group.

    Raises `ActionFailed` if one of them serves production from a target group that is not deployed to: the
    deployment would succeed while the old version goes on serving.
    """
    groups = list_target_groups(definition) or (list_target_groups(main.raw) if main is not None else [])
    replaced = []
    for service in pair:
        if not service.is_active or not (service.desired or service.running):
            continue
        if groups and set(list_target_groups(service.raw)) <= set(groups):
            replaced.append(build_snapshot(service))
            context.log(
                f"Service {service.name} of an earlier blue/green deployment runs "
                f"{service.running}/{service.desired} tasks in the same target groups; a rolling deployment "
                "takes over from it"
            )
        else:
            _refuse_live_service(context, service, groups)
    if len(replaced) > 1:
        names = " and ".join(service["name"] for service in replaced)
        raise ActionFailed(
            "STRATEGY_CHANGED",
            f"Services {names} of earlier blue/green deployments both run tasks in the target groups of this "
            "one, so Slipway cannot tell which one serves. Scale one of them down to 0 tasks in AWS, and run "
            "the pipeline again.",
        )
    context.save_for_rollback(_REPLACED_PAIR_KEY, replaced)
    if replaced:
        context.set_outputs(**{REPLACED_SERVICE: replaced[0]["name"]})


def _refuse_live_service(context: StepContext, service: EcsService, groups: Sequence[str]) -> None:
    missing = [group for group in list_target_groups(service.raw) if group not in groups]
    group_names = ", ".join(missing) or "no target group"
    own_group_names = ", ".join(groups) or "no target group"
    if _is_possibly_live(context, service):
        raise ActionFailed(
            "STRATEGY_CHANGED",
            f"Service {service.name} of an earlier blue/green deployment runs {service.running} tasks in "
            f"{group_names}, and this service definition registers its tasks in {own_group_names}: "
            f"production would go on running the old version. Name {group_names} in the service definition "
            f"too, and {service.name} is scaled down after the deployment; or deploy with the strategy "
            "Blue/green; or, if it serves nobody, scale it to 0 in AWS.",
        )
    context.add_note(
        f"Service {service.name} of an earlier blue/green deployment still runs {service.running} tasks in "
        f"{group_names}. By its tag {VERSION_TAG} it receives no production traffic; check the listener "
        "rules, and delete it under Leftovers on the page of this execution after its end."
    )


def _is_possibly_live(context: StepContext, service: EcsService) -> bool:
    """Return whether a service may serve production; only the tag of a swap proves that it does not."""
    try:
        return context.ecs.list_tags(service.arn).get(VERSION_TAG, "") != GREEN
    except Denied as denied:
        context.log(
            f"{denied.display_message} Whether {service.name} serves production is not known.", "warning"
        )
        return True


def get_replaced_pair_count(context: StepContext) -> int:
    """Return the task count of the replaced pair; 0 if there is none."""
    return max(
        (
            int(snapshot["running"] or snapshot["desired"])
            for snapshot in context.load_for_rollback(_REPLACED_PAIR_KEY) or ()
        ),
        default=0,
    )


@action
@dataclass(frozen=True)
class ScaleDownReplacedPair(ScaleDown):
    """After a rolling deployment, scale down the blue/green services that it replaced."""

    @property
    def title(self) -> str:
        return "Take over from a previous blue/green deployment"

    def list_snapshots(self, saved: StepContext | EarlierStep) -> Sequence[Mapping[str, Any]]:
        return saved.load_for_rollback(_REPLACED_PAIR_KEY) or []

    def may_scale_down(self, context: StepContext, live: EcsService) -> bool:
        name = context.get_output("serviceName")
        main = context.ecs.describe_service(context.cluster, name)
        if main is not None and main.running > 0:
            return True
        raise ActionFailed(
            "NO_TASKS",
            f"Service {name} runs no task, and {live.name} is all that serves: it is not scaled down. Set "
            "desiredCount in the service definition and run the pipeline again.",
        )

    def start(self, context: StepContext) -> None:
        super().start(context)
        if self.list_snapshots(context):
            self._resume_scaling(context)

    def _resume_scaling(self, context: StepContext) -> None:
        """Resume auto scaling that a swap suspended while the pair served."""
        name = context.get_output("serviceName")
        target = read_scaling_if_allowed(context, name).target
        if target is None or not target.is_suspended or is_suspended(context):
            return
        context.save_for_rollback(_SCALING_RESUMED_KEY, True)
        context.scaling.resume(target, NOTHING_SUSPENDED)
        context.log(
            f"Auto Scaling of service {name}, suspended while {context.get_output(REPLACED_SERVICE)} served, "
            "goes on"
        )

    def undo(self, context: StepContext) -> None:
        if context.load_for_rollback(_SCALING_RESUMED_KEY):
            target = read_scaling_if_allowed(context, context.get_output("serviceName")).target
            if target is not None:
                context.scaling.suspend(target)
        super().undo(context)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        if call.service == "application-autoscaling":
            return confirm_scaling_write(context, call)
        return super().confirm(context, call)

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        if call.service == "application-autoscaling":
            return confirm_scaling_write(context, call)
        return super().confirm_undo(context, call)
