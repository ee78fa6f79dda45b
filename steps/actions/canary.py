"""Actions of a canary: its definition, its ECS service with one task, and its deletion."""

from dataclasses import dataclass

from aws.apis.ecs_types import EcsService
from steps.actions.base import Action, ActionFailed, action
from steps.actions.canary_traffic import load_canary_share, replace_target_group
from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import EarlierStep, StepContext
from steps.actions.ecs_service.confirmation import confirm_service_write
from steps.actions.ecs_service.snapshots import (
    CANARY_SUFFIX,
    GONE_STATUSES,
    build_snapshot,
    delete_ecs_service,
    has_existed_before,
)
from steps.actions.ecs_service.updates import CreateOrUpdateService

CANARY_DEFINITION = "canary definition"


@action
@dataclass(frozen=True)
class PlanCanary(Action):
    """Derive the canary's definition from the service's, with its own name and one task (R220).

    A canary with a share of the traffic has a target group of its own instead of that of the rule.
    """

    @property
    def title(self) -> str:
        return "Plan the canary"

    def start(self, context: StepContext) -> None:
        definition = context.load_for_rollback("service definition")
        name = f"{definition['serviceName']}{CANARY_SUFFIX}"
        plan = {**definition, "serviceName": name, "desiredCount": 1}
        if share := load_canary_share(context):
            plan |= {"desiredCount": share.tasks, "loadBalancers": replace_target_group(definition, share)}
        context.save_for_rollback(CANARY_DEFINITION, plan)
        context.set_outputs(serviceName=name)


@action
@dataclass(frozen=True)
class CreateCanary(CreateOrUpdateService):
    """Create the canary, or update a leftover one; the undo logs like its deletion (R221, R223)."""

    @property
    def title(self) -> str:
        return "Create the canary"

    def start(self, context: StepContext) -> None:
        if has_existed_before(context):
            name = context.get_output("serviceName")
            context.log(
                f"Service {name} is a leftover of an earlier deployment and becomes the canary of this one",
                "warning",
            )
        super().start(context)

    def undo(self, context: StepContext) -> None:
        super().undo(context)
        if not has_existed_before(context):
            _log_wait(context, context.get_output("serviceName"))

    def is_undone(self, context: StepContext) -> bool:
        is_undone = super().is_undone(context)
        if is_undone and not has_existed_before(context):
            _log_deleted(context, context.get_output("serviceName"))
        return is_undone


@action
@dataclass(frozen=True)
class DeleteCanary(Action):
    """Delete the ECS service that the canary step of this stage deployed (R223)."""

    supersedes_undo_of = ("EcsCanaryDeploy",)

    @property
    def title(self) -> str:
        return "Delete the canary"

    def start(self, context: StepContext) -> None:
        canary = context.get_earlier_step("EcsCanaryDeploy")
        if canary is None or not canary.get_output("serviceArn"):
            context.log("This stage has no canary: nothing to delete", "warning")
            return
        name = canary.get_output("serviceName")
        context.set_outputs(serviceName=name)
        live = context.ecs.describe_service(context.cluster, name)
        context.save_for_rollback("service before", None if live is None else build_snapshot(live))
        _refuse_foreign_deployment(live, canary)
        delete_ecs_service(context, name, live)
        _log_wait(context, name)
        context.wait_for_service(name)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_service_write(context, call, task_definition="", before="")

    def is_done(self, context: StepContext) -> bool:
        name = context.get_output("serviceName")
        if not name:
            return True
        context.wait_for_change()
        service = context.observe_service(name).service
        if service is not None:
            context.show_counts(running=service.running, desired=service.desired, pending=service.pending)
        if service is not None and service.status != "INACTIVE":
            return False
        _log_deleted(context, name)
        return True


def _refuse_foreign_deployment(live: EcsService | None, canary: EarlierStep) -> None:
    if live is None or live.status in GONE_STATUSES or live.primary is None:
        return
    before = canary.load_for_rollback("service before") or {}
    if live.primary.id not in (canary.get_output("deploymentId"), before.get("primary")):
        raise ActionFailed(
            "SUPERSEDED",
            f"Somebody else deployed Service {live.name} meanwhile (deployment {live.primary.id}). It is not "
            "deleted. Check it, delete it in AWS if it is not needed, and run the pipeline again.",
            outcome="SUPERSEDED",
        )


def _log_wait(context: StepContext, name: str) -> None:
    context.log(f"Waiting for existing Service {name} to reach inactive state")


def _log_deleted(context: StepContext, name: str) -> None:
    context.log(f"Existing Service {name} reached inactive state")
    context.log(f"Canary service {name} deleted")
