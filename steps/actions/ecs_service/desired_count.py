"""Desired count of an ECS service: computation with auto scaling, and the actions that scale (P07)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.apis.ecs_types import EcsService
from steps.actions.auto_scaling import is_suspended
from steps.actions.base import Action, ActionFailed, ChangedByOthers, ChecklistEntry, action
from steps.actions.blue_green.scale_down import get_replaced_pair_count
from steps.actions.confirmations import (
    CallRecord,
    Confirmation,
    clear_observation,
    has_recent_write,
    is_observed_twice,
    is_read_stale,
)
from steps.actions.context import EarlierStep, ServiceObservation, StepContext
from steps.actions.ecs_service.confirmation import confirm_service_write
from steps.actions.ecs_service.daemons import is_daemon
from steps.actions.ecs_service.express_services import refuse_express
from steps.actions.ecs_service.snapshots import (
    GONE_STATUSES,
    build_snapshot,
    is_own_deployment,
    lock_named_service,
)
from steps.actions.scaling_state import (
    compute_bounds,
    get_bounds,
    get_manifest_scaling,
    has_saved_scaling,
    is_target_of_step,
)

SCALE_STEP_TYPE = "EcsScale"

# Rollback data: an update left the count as it was, so the output has what somebody else may have set.
COUNT_NOT_REQUESTED = "count not requested"
# Rollback data: the first count that an update requested; a retry may leave it as it is.
COUNT_REQUESTED = "count requested"
# Note of a checklist about a count that stays.
FOREIGN_COUNT_NOTE = "changed outside Slipway, not restored"


def compute_initial_count(
    context: StepContext, definition: Mapping[str, Any], *, as_running: bool = False
) -> int | None:
    """Return the desired count of an ECS service that does not exist yet; None for a DAEMON service.

    A service that replaces a blue/green pair gets the pair's count unless the manifest has one.
    """
    if is_daemon(definition):
        return None
    before = get_replaced_pair_count(context)
    if before and (as_running or "desiredCount" not in definition):
        return _clamp_to_bounds(context, before)
    return _clamp_to_bounds(context, int(definition.get("desiredCount", 1)))


def compute_update_count(
    context: StepContext, definition: Mapping[str, Any], live: EcsService, *, as_running: bool
) -> int | None:
    """Return the desired count of an update; None leaves it unchanged.

    With a scalable target, auto scaling owns the count; it is only moved into the bounds. A service that was
    scaled down for a blue/green pair takes over the pair's count.
    """
    if is_daemon(live.raw):
        return None
    before, count = get_replaced_pair_count(context), definition.get("desiredCount")
    is_scaled = get_bounds(context) is not None or bool(get_manifest_scaling(context))
    if before and live.desired == 0 and (as_running or is_scaled or count is None):
        return _clamp_to_bounds(context, max(before, int(count or 0)))
    if get_bounds(context) is not None:
        moved = _clamp_to_bounds(context, live.desired)
        return None if moved == live.desired else moved
    if as_running and context.get_output("deploymentId"):
        # An earlier attempt has set it: what runs now is what is left of that attempt.
        return None
    if as_running:
        return _clamp_to_bounds(context, choose_running_count(context, live.name, live.running, live.desired))
    return None if count is None else _clamp_to_bounds(context, int(count))


def compute_restored_count(context: StepContext, before: Mapping[str, Any], live: EcsService) -> int:
    """Return the desired count that an undo requests: the saved one, unless others own the count.

    Auto scaling owns it once resumed, ECS that of a DAEMON service, and a person who changed it after our
    request.
    """
    if is_daemon(live.raw):
        return live.desired
    bounds = get_bounds(context)
    if bounds is None:
        return live.desired if is_foreign_count(context, before, live.desired) else int(before["desired"])
    count = int(before["desired"]) if is_suspended(context) else live.desired
    return min(max(count, bounds[0]), bounds[1])


def is_foreign_count(context: StepContext, before: Mapping[str, Any], count: int) -> bool:
    """Return whether somebody outside this execution set a count; never with auto scaling."""
    if get_bounds(context) is not None or is_target_of_step(context):
        return False
    requested = context.load_for_rollback(COUNT_REQUESTED)
    known_counts = [before["desired"], requested, *_list_scaled_counts(context, before)]
    if context.load_for_rollback(COUNT_NOT_REQUESTED) is None:
        known_counts.append(context.get_output("desiredCount"))
    return count not in known_counts


def _list_scaled_counts(context: StepContext, before: Mapping[str, Any]) -> list[Any]:
    """Return the counts that the scalings of this execution set for an ECS service."""
    scalings = context.list_other_steps(SCALE_STEP_TYPE)
    return [
        step.get_output("desiredCount") for step in scalings if step.get_output("serviceArn") == before["arn"]
    ]


def is_count_restored(context: StepContext, before: Mapping[str, Any], count: int) -> bool:
    """Return whether a count is an acceptable result of a rollback."""
    bounds = get_bounds(context)
    if count == before["desired"] or is_daemon(before["raw"]):
        return True
    if bounds is None:
        return is_foreign_count(context, before, count)
    return bounds[0] <= count <= bounds[1]


def choose_running_count(context: StepContext, name: str, running: int, desired: int) -> int:
    """Return the running count (R208), or the desired count if none of the desired tasks runs.

    Tasks beyond the desired count are only being replaced.
    """
    if running == 0 and desired > 0:
        context.log(
            f"None of the {desired} desired tasks of Service {name} is running: the desired count is not "
            f"changed",
            "warning",
        )
        return desired
    return min(running, desired)


def _clamp_to_bounds(context: StepContext, count: int) -> int:
    bounds = (
        compute_bounds(get_manifest_scaling(context), get_bounds(context))
        if has_saved_scaling(context)
        else None
    )
    if bounds is None or bounds[0] <= count <= bounds[1]:
        return count
    least, most = bounds
    moved = min(max(count, least), most)
    context.log(
        f"The desired count {count} is outside the scalable target's {least}-{most}: it becomes {moved}"
    )
    return moved


COUNT, PERCENTAGE = "Count", "Percentage"
SAVED_SERVICE = "service before"


@action
@dataclass(frozen=True)
class FindServiceToScale(Action):
    """Lock the ECS service and save its state for rollback."""

    service: str

    @property
    def title(self) -> str:
        return f"Read Service {self.service}"

    def start(self, context: StepContext) -> None:
        lock_named_service(context, self.service)
        live = context.ecs.describe_service(context.cluster, self.service)
        if live is None or live.status in GONE_STATUSES:
            raise ActionFailed(
                "NO_SERVICE",
                f"There is no ECS service {self.service} in cluster {context.cluster}. Correct service of "
                "the step, or deploy it first.",
            )
        refuse_express(self.service, live.raw)
        if is_daemon(live.raw):
            raise ActionFailed(
                "CONTROLLER_NOT_SUPPORTED",
                f"Service {self.service} runs one task on each instance: it has no count to change.",
            )
        context.save_for_rollback(SAVED_SERVICE, build_snapshot(live))
        context.set_outputs(serviceName=live.name, serviceArn=live.arn, countBefore=live.desired)
        context.log(f"Service {live.name} has {live.running} of {live.desired} tasks running")


@action
@dataclass(frozen=True)
class ScaleService(Action):
    """Set the desired count to a number, or to a percentage of the previous count."""

    has_undo = True

    instances: int
    unit: str = COUNT

    @property
    def title(self) -> str:
        return f"Scale to {self.instances}{'%' if self.unit == PERCENTAGE else ' tasks'}"

    def start(self, context: StepContext) -> None:
        before = context.load_for_rollback(SAVED_SERVICE)
        name = before["name"]
        count = self._count(before["desired"])
        _refuse_out_of_bounds(context, name, count)
        live = context.ecs.describe_service(context.cluster, name)
        context.save_for_rollback(
            "deployments before scaling", [deployment.id for deployment in live.deployments] if live else []
        )
        context.set_outputs(desiredCount=count)
        if live is not None and live.desired == count:
            context.log(f"Service {name} already has desired count {count}")
            return
        context.log(f"Updating Service {name} from {before['desired']} to {count} tasks")
        context.ecs.update_service(context.cluster, name, {"desiredCount": count})

    def _count(self, before: int) -> int:
        return math.ceil(before * self.instances / 100) if self.unit == PERCENTAGE else self.instances

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        definition = context.load_for_rollback(SAVED_SERVICE)["task_definition"]
        return confirm_service_write(
            context, call, task_definition=definition, before="deployments before scaling"
        )

    def may_undo(self, context: StepContext) -> bool:
        before = context.load_for_rollback(SAVED_SERVICE)
        observation = context.observe_service(before["name"])
        service = observation.service
        if service is None or service.status in GONE_STATUSES:
            raise ChangedByOthers(f"Service {before['name']} was deleted outside Slipway.")
        if service.primary is None:
            # CodeDeploy and other tools deploy by task sets, which change no count.
            return True
        return is_own_deployment(context, observation, service.primary, {before["primary"]})

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        before, count = saved.load_for_rollback(SAVED_SERVICE) or {}, saved.get_output("desiredCount")
        if not before or count == before["desired"]:
            return ()
        return (f"Service {before['name']}: restore desired count from {count} to {before['desired']}",)

    def undo(self, context: StepContext) -> None:
        before = context.load_for_rollback(SAVED_SERVICE)
        name = before["name"]
        live = context.ecs.describe_service(context.cluster, name)
        context.save_for_rollback(
            "deployments before undo", [deployment.id for deployment in live.deployments] if live else []
        )
        count = context.save_for_rollback(
            "count to restore", compute_restored_count(context, before, live) if live else 0
        )
        # A count that auto scaling or somebody else owns stays as AWS shows it.
        is_hidden = count == before["desired"] and is_read_stale(context)
        if live is not None and live.desired == count and not is_hidden:
            context.log(f"Service {name} already has desired count {count}")
            return
        context.log(f"Updating Service {name} to the previous {count} tasks")
        context.ecs.update_service(context.cluster, name, {"desiredCount": count})

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        definition = context.load_for_rollback(SAVED_SERVICE)["task_definition"]
        return confirm_service_write(
            context, call, task_definition=definition, before="deployments before undo"
        )

    def is_undone(self, context: StepContext) -> bool:
        before = context.load_for_rollback(SAVED_SERVICE)
        service = context.observe_service(before["name"]).service
        if service is None:
            return True
        if service.desired != compute_restored_count(context, before, service):
            # A read from before the write of the undo.
            context.wait_for_change()
            return False
        return _is_at_count(context, service) and not has_recent_write(context)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        before = context.load_for_rollback(SAVED_SERVICE)
        live = context.ecs.describe_service(context.cluster, before["name"])
        desired = live.desired if live is not None else 0
        expected = compute_restored_count(context, before, live) if live is not None else before["desired"]
        is_kept = live is not None and is_foreign_count(context, before, desired)
        return [
            ChecklistEntry(
                f"Desired count of Service {before['name']}",
                str(before["desired"] if is_kept else expected),
                str(desired),
                expected == desired,
                FOREIGN_COUNT_NOTE if is_kept else "",
            )
        ]


@action
@dataclass(frozen=True)
class WaitForCount(Action):
    """Check until as many tasks run as the step asked for, or as somebody else asked for since."""

    @property
    def title(self) -> str:
        return "Wait for the tasks"

    def start(self, context: StepContext) -> None:
        context.wait_for_service(str(context.get_output("serviceName")))

    def is_done(self, context: StepContext) -> bool:
        name = str(context.get_output("serviceName"))
        observation = context.observe_service(name)
        service = observation.service
        if service is None or service.status in GONE_STATUSES:
            raise ActionFailed("NO_SERVICE", f"Service {name} was deleted outside Slipway.")
        if not _is_count_certain(context, observation, service.desired):
            return False
        if not _is_at_count(context, service):
            return False
        context.log(f"Service {name} has {service.running} of {service.desired} tasks running", "success")
        return True


_OTHER_COUNT, _NOTED_KEY = "another count", "noted count"


def _is_count_certain(context: StepContext, observation: ServiceObservation, count: int) -> bool:
    """Return whether a desired count is that of the step, or certainly of others: a read may be older."""
    requested = context.get_output("desiredCount")
    if count == requested:
        clear_observation(context, _OTHER_COUNT)
        return True
    if not is_observed_twice(context, _OTHER_COUNT, observation.read_started_at):
        return False
    if context.progress.get(_NOTED_KEY) != count:
        context.progress[_NOTED_KEY] = count
        context.add_note(
            f"The desired count of Service {observation.name} was changed from {requested} to {count} during "
            f"this step, by auto scaling or outside Slipway"
        )
    return True


def note_changed_count(context: StepContext, service: EcsService, requested: int) -> None:
    """Add a note when the count first differs from the requested one, and at each later change."""
    last_count = context.progress.setdefault("logged count", requested)
    if service.desired != last_count and not is_daemon(service.raw):
        context.progress["logged count"] = service.desired
        context.add_note(
            f"The desired count of Service {service.name} was changed from {last_count} to {service.desired} "
            "during this deployment, by auto scaling or outside Slipway"
        )


def describe_lost_tasks(service: EcsService, requested: int) -> str:
    """Describe a completed deployment of a service without tasks that should have some."""
    unknown = "No task of the new version is running, so its health is unknown."
    if service.desired:
        return f"ECS reports this deployment as successful. {unknown}"
    return (
        f"The desired count of Service {service.name} was changed from {requested} to 0 while this "
        f"deployment ran. {unknown}"
    )


def _is_at_count(context: StepContext, service: EcsService) -> bool:
    context.show_counts(running=service.running, desired=service.desired, pending=service.pending)
    counts = f"{service.running}/{service.desired}"
    if context.progress.get("counts") != counts:
        context.progress["counts"] = counts
        context.log(f"Waiting for the tasks of Service {service.name}. {counts} running ...")
    if service.running == service.desired and not service.pending:
        return True
    context.wait_for_change()
    return False


def _refuse_out_of_bounds(context: StepContext, name: str, count: int) -> None:
    bounds = get_bounds(context)
    if bounds is None or bounds[0] <= count <= bounds[1]:
        return
    raise ActionFailed(
        "OUT_OF_BOUNDS",
        f"Auto scaling keeps Service {name} between {bounds[0]} and {bounds[1]} tasks "
        f"and would override a count of {count}. Change the scalable target first, or use another count.",
    )
