"""Actions that delete an ECS service in order: its tasks end first, and only if it is still the own one."""

from dataclasses import dataclass

from aws.apis.ecs_types import EcsService
from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import StepContext
from steps.actions.ecs_service.confirmation import confirm_service_write
from steps.actions.ecs_service.daemons import is_daemon
from steps.actions.ecs_service.express_services import refuse_express
from steps.actions.ecs_service.snapshots import (
    GONE_STATUSES,
    build_snapshot,
    delete_ecs_service,
    lock_named_service,
)

_SAVED_SERVICE = "service before"
_SAVED_DEPLOYMENTS = "deployments before scaling"


def _read_service(context: StepContext, name: str, expected: list[str]) -> EcsService | None:
    """Return the ECS service; None if it is gone. Raises `ActionFailed` for one that others deployed."""
    live = context.ecs.describe_service(context.cluster, name)
    if live is None or live.status in GONE_STATUSES:
        return None
    refuse_express(name, live.raw)
    primary = live.primary
    own_ids = {primary.id, primary.task_definition} if primary else set()
    if expected and not own_ids & set(expected):
        current = f"deployment {primary.id} of {primary.task_definition}" if primary else "no deployment"
        raise ActionFailed(
            "SUPERSEDED",
            f"Somebody else deployed Service {name} meanwhile: it has {current}. It is not deleted. Check "
            "it, and delete it in AWS if it is not needed.",
            outcome="SUPERSEDED",
        )
    return live


@action
@dataclass(frozen=True)
class SaveServiceToDelete(Action):
    """Lock the ECS service, and check that it is the expected one; a missing one is a success."""

    service: str
    expected: list[str]

    @property
    def title(self) -> str:
        return f"Read Service {self.service}"

    def start(self, context: StepContext) -> None:
        lock_named_service(context, self.service)
        context.set_outputs(serviceName=self.service)
        live = _read_service(context, self.service, self.expected)
        context.save_for_rollback(_SAVED_SERVICE, None if live is None else build_snapshot(live))
        if live is None:
            context.log(f"Service {self.service} is already deleted", "success")
            return
        context.set_outputs(serviceArn=live.arn)
        context.log(f"Service {live.name} has {live.running} of {live.desired} tasks running")


@action
@dataclass(frozen=True)
class StopServiceTasks(Action):
    """Set the desired count to 0, and wait until the tasks have ended; no undo starts them again."""

    service: str
    expected: list[str]

    @property
    def title(self) -> str:
        return "Stop the tasks"

    def start(self, context: StepContext) -> None:
        before = context.load_for_rollback(_SAVED_SERVICE)
        live = _read_service(context, self.service, self.expected) if before else None
        if live is None or live.desired == 0 or is_daemon(live.raw):
            return
        context.save_for_rollback(_SAVED_DEPLOYMENTS, [deployment.id for deployment in live.deployments])
        context.log(f"Updating Service {self.service} from {live.desired} to 0 tasks")
        context.ecs.update_service(context.cluster, self.service, {"desiredCount": 0})
        context.wait_for_service(self.service)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_service_write(context, call, task_definition="", before=_SAVED_DEPLOYMENTS)

    def is_done(self, context: StepContext) -> bool:
        if not context.load_for_rollback(_SAVED_SERVICE):
            return True
        service = context.observe_service(self.service).service
        if service is None or service.status in GONE_STATUSES or is_daemon(service.raw):
            return True
        context.show_counts(running=service.running, desired=service.desired, pending=service.pending)
        if not service.running and not service.pending:
            context.log(f"Service {self.service} has no tasks any more", "success")
            return True
        if context.progress.get("running") != service.running:
            context.progress["running"] = service.running
            context.log(f"Waiting until {service.running} tasks of Service {self.service} have ended")
        context.wait_for_change()
        return False


@action
@dataclass(frozen=True)
class DeleteEcsService(Action):
    """Delete the ECS service, and wait until it is inactive; it has no undo."""

    service: str
    expected: list[str]

    @property
    def title(self) -> str:
        return f"Delete Service {self.service}"

    def start(self, context: StepContext) -> None:
        if not context.load_for_rollback(_SAVED_SERVICE):
            return
        live = _read_service(context, self.service, self.expected)
        if live is not None and live.desired and not is_daemon(live.raw):
            raise ActionFailed(
                "SUPERSEDED",
                f"Somebody set the desired count of Service {self.service} to {live.desired} after its tasks "
                "were stopped. It is not deleted. Run the pipeline again if it is not needed.",
                outcome="SUPERSEDED",
            )
        # Without force, AWS refuses a service that runs one task on each instance.
        delete_ecs_service(context, self.service, live)
        context.wait_for_service(self.service)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_service_write(context, call, task_definition="", before="")

    def is_done(self, context: StepContext) -> bool:
        if not context.load_for_rollback(_SAVED_SERVICE):
            return True
        context.wait_for_change()
        service = context.observe_service(self.service).service
        if service is not None and service.status != "INACTIVE":
            return False
        context.log(f"Service {self.service} is deleted", "success")
        return True
