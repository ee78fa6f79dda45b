"""Actions that hand an ECS service from CodeDeploy or an external controller to ECS, in place.

Rules: Amazon ECS Developer Guide, "Update Amazon ECS service parameters". AWS does not document whether ECS
replaces the tasks that it takes over; both are waited for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aws.apis.ecs_types import EcsService
from steps.actions.base import Action, ActionFailed, ChangedByOthers, ChecklistEntry, action
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    has_recent_write,
    is_past_read_lag,
    is_read_stale,
)
from steps.actions.context import EarlierStep, StepContext
from steps.actions.ecs_service.snapshots import (
    CONTROLLER_TOOLS,
    ECS,
    GONE_STATUSES,
    get_controller,
    lock_named_service,
)

_SAVED: Final = "controller before"


def list_controller_obstacles(service: Mapping[str, Any]) -> Iterator[str]:
    """Yield why ECS cannot take over a service now, from a description of DescribeServices.

    AWS requires one primary task set, and no deployment.
    """
    task_sets, deployments = service.get("taskSets") or (), service.get("deployments") or ()
    if not task_sets and not deployments:
        yield (
            "It has no task set. Deploy it once with its present tool, or delete it and let Slipway create it"
        )
        return
    if len(task_sets) > 1 or len(deployments) > 1:
        yield (
            f"It has {max(len(task_sets), len(deployments))} task sets. Wait until its deployment ends, or "
            "delete the one without traffic: aws ecs delete-task-set"
        )
    elif task_sets and task_sets[0].get("status") != "PRIMARY":
        yield ("Its task set is not primary. Make it primary first: aws ecs update-service-primary-task-set")
    running, desired = service.get("runningCount", 0), service.get("desiredCount", 0)
    if running != desired or service.get("pendingCount"):
        yield f"{running} of {desired} tasks are running. Wait until its tasks are steady"


@action
@dataclass(frozen=True)
class SaveController(Action):
    """Lock the ECS service, save its deployment controller, and check that ECS can take over."""

    service: str

    @property
    def title(self) -> str:
        return f"Read the controller of Service {self.service}"

    def start(self, context: StepContext) -> None:
        lock_named_service(context, self.service)
        live = context.ecs.describe_service(context.cluster, self.service)
        if live is None or live.status in GONE_STATUSES:
            context.save_for_rollback(_SAVED, ECS)
            context.log(
                f"There is no ECS service {self.service} in cluster {context.cluster}: nothing to hand over",
                "warning",
            )
            return
        controller = get_controller(live.raw)
        context.save_for_rollback(_SAVED, controller)
        context.set_outputs(serviceName=live.name, serviceArn=live.arn, controllerBefore=controller)
        if controller == ECS:
            context.log(f"ECS deploys Service {live.name} already", "success")
            return
        if obstacles := list(list_controller_obstacles(live.raw)):
            raise ActionFailed(
                "CONTROLLER_NOT_CHANGED",
                f"ECS cannot take over Service {live.name} from {_get_tool(controller)}. "
                f"{'. '.join(obstacles)}. Then run again.",
            )
        context.log(
            f"{_get_tool(controller)} deploys Service {live.name}: {live.running} tasks of "
            f"{live.task_definition} running"
        )


@action
@dataclass(frozen=True)
class ChangeController(Action):
    """Make ECS the deployment controller of the service, and wait until its tasks are steady."""

    has_undo = True

    service: str

    @property
    def title(self) -> str:
        return "Change the deployment controller to ECS"

    def start(self, context: StepContext) -> None:
        before = context.load_for_rollback(_SAVED)
        if before == ECS:
            return
        context.log(f"Changing the controller of Service {self.service} from {before} to ECS")
        _update_controller(context, self.service, ECS)
        context.log(
            f"{_get_tool(before)} cannot deploy Service {self.service} any more. Turn off what starts its "
            "deployments there",
            "warning",
        )
        context.wait_for_service(self.service)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        late = is_past_read_lag(context, call)
        live = context.ecs.describe_service(context.cluster, self.service)
        if live is not None and get_controller(live.raw) == call.params["deploymentController"]["type"]:
            return Applied({"service": live.raw})
        return NotApplied() if late else Unconfirmed()

    def is_done(self, context: StepContext) -> bool:
        if context.load_for_rollback(_SAVED) == ECS:
            return True
        service = context.observe_service(self.service).service
        if service is None or service.status in GONE_STATUSES:
            raise ActionFailed("NO_SERVICE", f"Service {self.service} was deleted outside Slipway.")
        context.show_counts(running=service.running, desired=service.desired, pending=service.pending)
        if get_controller(service.raw) != ECS or not _is_steady(service):
            context.wait_for_change()
            return False
        context.log(f"ECS deploys Service {self.service}: {service.running} tasks running", "success")
        return True

    def may_undo(self, context: StepContext) -> bool:
        service = context.observe_service(self.service).service
        if service is None or service.status in GONE_STATUSES:
            raise ChangedByOthers(f"Service {self.service} was deleted outside Slipway.")
        if get_controller(service.raw) == ECS and not _is_steady(service):
            # AWS changes no controller during a deployment.
            context.wait_for_change()
            return False
        return True

    def undo(self, context: StepContext) -> None:
        before = context.load_for_rollback(_SAVED)
        live = context.ecs.describe_service(context.cluster, self.service)
        is_hidden = is_read_stale(context)
        if live is not None and get_controller(live.raw) == before and not is_hidden:
            return
        context.log(f"Giving Service {self.service} back to {_get_tool(before)}")
        _update_controller(context, self.service, before)

    def is_undone(self, context: StepContext) -> bool:
        service = context.observe_service(self.service).service
        if service is not None and get_controller(service.raw) != context.load_for_rollback(_SAVED):
            context.wait_for_change()
            return False
        return not has_recent_write(context)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        before = saved.load_for_rollback(_SAVED)
        if before in (None, ECS):
            return ()
        return (f"Service {self.service}: give it back to {_get_tool(before)}",)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        before = context.load_for_rollback(_SAVED)
        live = context.ecs.describe_service(context.cluster, self.service)
        actual = get_controller(live.raw) if live is not None else "does not exist"
        subject = f"Deployment controller of Service {self.service}"
        return [ChecklistEntry(subject, before, actual, before == actual)]


def _update_controller(context: StepContext, name: str, controller: str) -> None:
    context.ecs.update_service(context.cluster, name, {"deploymentController": {"type": controller}})


def _is_steady(service: EcsService) -> bool:
    primary = service.primary
    is_settled = primary is not None and primary.rollout_state in ("COMPLETED", "")
    is_whole = service.running == service.desired and not service.pending
    return is_settled and is_whole and len(service.deployments) == 1


def _get_tool(controller: str) -> str:
    return CONTROLLER_TOOLS.get(controller, controller)
