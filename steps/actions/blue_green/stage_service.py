"""Actions that replace the green ECS service: remove it, create the stage service, wait for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.apis.ecs_types import EcsService
from steps.actions.base import Action, ActionFailed, ChecklistEntry, action
from steps.actions.blue_green.auto_scaling import (
    compute_stage_count,
    read_scaling_if_allowed,
    restore_policies,
    restore_target,
)
from steps.actions.blue_green.pair import is_service_inactive
from steps.actions.blue_green.tags import confirm_tag_write, restore_tags
from steps.actions.blue_green.traffic import refuse_production
from steps.actions.confirmations import Applied, CallRecord, Confirmation, has_recent_write, is_read_stale
from steps.actions.context import EarlierStep, StepContext
from steps.actions.ecs_service.confirmation import confirm_service_write
from steps.actions.ecs_service.snapshots import (
    GONE_STATUSES,
    build_service_checks,
    delete_ecs_service,
    describe_restore,
    filter_stale_service,
    format_service,
    has_existed_before,
    is_deleted,
    is_own_deployment,
    is_restored,
    recreate_ecs_service,
    refuse_foreign_deployment,
    save_deployment_times,
)
from steps.actions.ecs_service.steady_state import WaitForSteadyState
from steps.actions.ecs_service.update_fields import (
    build_restoring_update,
    list_ignored_fields,
    select_changeable_fields,
)
from steps.actions.scaling_state import ScalingState, confirm_scaling_write

# Rollback key of the deployments of a green service that an undo has created again.
_RECREATED = "deployments of green"


@action
@dataclass(frozen=True)
class CreateStageService(Action):
    """Create the stage service, or update green if the step says so (R236, R240)."""

    has_undo = True

    update: bool = False
    keep_count: bool = False

    @property
    def title(self) -> str:
        return "Create or update the stage service"

    def start(self, context: StepContext) -> None:
        name = context.get_output("serviceName")
        definition = {
            **context.load_for_rollback("service definition"),
            "serviceName": name,
            "taskDefinition": context.get_output("taskDefinitionArn"),
        }
        definition["desiredCount"] = self._compute_count(context, definition)
        live = context.ecs.describe_service(context.cluster, name)
        if self._is_update(context):
            service = self._update(context, definition, live)
        else:
            service = self._create(context, definition, live)
        context.set_outputs(
            serviceArn=service.arn,
            deploymentId=service.primary.id if service.primary else "",
            desiredCount=service.desired,
        )
        save_deployment_times(context, service)

    def _is_update(self, context: StepContext) -> bool:
        return self.update and has_existed_before(context)

    def _compute_count(self, context: StepContext, definition: Mapping[str, Any]) -> int:
        """Return the live service's count if the step or auto scaling keeps it (R208, P07)."""
        blue = context.load_for_rollback("blue before")
        scaling = ScalingState.from_record(context.load_for_rollback("scaling of blue"))
        if blue is not None and (self.keep_count or scaling.target is not None):
            return compute_stage_count(context, blue, scaling)
        return int(definition.get("desiredCount", 1))

    def _create(
        self, context: StepContext, definition: Mapping[str, Any], live: EcsService | None
    ) -> EcsService:
        if live is not None and live.is_active:
            raise _build_superseded_error(live.name, "was created after this deployment read it")
        _log_definition(context, "Creating", definition)
        return context.ecs.create_service(definition, cluster=context.cluster, client_token=context.intent)

    def _update(
        self, context: StepContext, definition: Mapping[str, Any], live: EcsService | None
    ) -> EcsService:
        name = definition["serviceName"]
        before = context.load_for_rollback("service before")
        if live is None or live.primary is None or live.primary.id != before["primary"]:
            raise _build_superseded_error(name, "was changed after this deployment read it")
        refuse_production(context, live, "to overwrite it")
        context.save_for_rollback(
            "deployments before update", [deployment.id for deployment in live.deployments]
        )
        _log_definition(context, "Updating", definition)
        # AWS accepts launchType, schedulingStrategy and role only at creation (R241).
        for warning in list_ignored_fields(definition, live):
            context.log(warning, "warning")
        changes = {**select_changeable_fields(definition), "forceNewDeployment": True}
        changes |= {key: definition[key] for key in ("taskDefinition", "desiredCount")}
        return context.ecs.update_service(context.cluster, name, changes)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_service_write(
            context,
            call,
            task_definition=context.get_output("taskDefinitionArn"),
            before="deployments before update",
        )

    def may_undo(self, context: StepContext) -> bool:
        """Return whether the stage service runs only deployments of ours and no production traffic."""
        name = context.get_output("serviceName")
        observation = context.observe_service(name)
        service = observation.service
        before = context.load_for_rollback("service before") or {}
        if service is None or service.status in GONE_STATUSES or service.primary is None:
            return True
        refuse_production(context, service, "to take it back")
        return is_own_deployment(
            context, observation, service.primary, {context.get_output("deploymentId"), before.get("primary")}
        )

    def undo(self, context: StepContext) -> None:
        name = context.get_output("serviceName")
        live = context.ecs.describe_service(context.cluster, name)
        before = context.load_for_rollback("service before") or {}
        refuse_foreign_deployment(context, live, {context.get_output("deploymentId"), before.get("primary")})
        if not self._is_update(context):
            delete_ecs_service(context, name, live)
            return
        if live is None:
            return
        changes = build_restoring_update(
            context.load_for_rollback("service definition"),
            before,
            filter_stale_service(context, live),
            count=before["desired"],
            task_definition=before["task_definition"],
        )
        context.save_for_rollback(
            "deployments before undo", [deployment.id for deployment in live.deployments]
        )
        if not changes:
            context.log(f"Service {name} already matches its previous state")
            return
        context.log(
            f"Updating Service {name} with task definition {before['task_definition']} "
            f"and desired count {before['desired']}"
        )
        context.ecs.update_service(context.cluster, name, changes)

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        before = context.load_for_rollback("service before") or {}
        return confirm_service_write(
            context, call, task_definition=before.get("task_definition", ""), before="deployments before undo"
        )

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        return describe_restore(saved)

    def is_undone(self, context: StepContext) -> bool:
        service = context.observe_service(context.get_output("serviceName")).service
        if self._is_update(context):
            return is_restored(context, context.load_for_rollback("service before"), service)
        if not is_deleted(context, service):
            context.wait_for_change()
            return False
        live = context.load_for_rollback("blue before") or {"running": 0, "desired": 0}
        context.show_counts(running=live["running"], desired=live["desired"], pending=0)
        return True

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        if has_existed_before(context):
            return (
                build_service_checks(context, context.load_for_rollback("service before"))
                if self.update
                else []
            )
        name = context.get_output("serviceName")
        service = context.ecs.describe_service(context.cluster, name)
        is_gone = service is None or service.status in GONE_STATUSES
        actual = "does not exist" if is_gone else format_service(service)
        return [ChecklistEntry(f"Service {name}", "does not exist", actual, is_gone)]


def _log_definition(context: StepContext, verb: str, definition: Mapping[str, Any]) -> None:
    context.log("")
    context.log(
        f"{verb} Stage Service {definition['serviceName']} with task definition "
        f"{definition['taskDefinition']} and desired count {definition['desiredCount']}"
    )


def _build_superseded_error(name: str, predicate: str) -> ActionFailed:
    return ActionFailed(
        "SUPERSEDED",
        f"Service {name} {predicate} outside Slipway. Nothing was changed; run the pipeline again.",
        outcome="SUPERSEDED",
    )


@action
@dataclass(frozen=True)
class WaitForStageService(WaitForSteadyState):
    """Wait for the steady state of the stage service, with the success lines of blue/green."""

    update: bool = False

    @property
    def title(self) -> str:
        return "Wait for the stage service's steady state"

    def log_success(self, context: StepContext, name: str) -> None:
        is_update = self.update and context.load_for_rollback("service before")
        verb = "Updated" if is_update else "Created"
        context.log(f"{verb} Stage Service {name} with Arn {context.get_output('serviceArn')}")


def _recreate(context: StepContext, before: Mapping[str, Any]) -> EcsService:
    context.log(
        f"Creating Service {before['name']} again with task definition {before['task_definition']} "
        f"and desired count {before['desired']}"
    )
    service = recreate_ecs_service(context, before, before["task_definition"])
    context.set_outputs(rollbackDeploymentId=service.primary.id if service.primary else "")
    return service


@action
@dataclass(frozen=True)
class RemoveGreenService(Action):
    """Delete green if it exists and wait until it is gone (R240, T20); the undo creates it again."""

    has_undo = True

    @property
    def title(self) -> str:
        return "Delete the old stage service"

    def start(self, context: StepContext) -> None:
        if not has_existed_before(context):
            return
        name = context.get_output("serviceName")
        live = context.ecs.describe_service(context.cluster, name)
        if live is not None and live.is_active:
            before = context.load_for_rollback("service before")
            if live.primary is None or live.primary.id != before["primary"]:
                raise _build_superseded_error(name, "was changed after this deployment read it")
            refuse_production(context, live, "to delete it")
            context.save_for_rollback("scaling of green", read_scaling_if_allowed(context, name).to_record())
        delete_ecs_service(context, name, live)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_service_write(context, call, task_definition="", before="")

    def is_done(self, context: StepContext) -> bool:
        return not has_existed_before(context) or is_service_inactive(
            context, context.get_output("serviceName")
        )

    def may_undo(self, context: StepContext) -> bool:
        """Return whether the deleted service is gone, so that its name is free."""
        service = context.observe_service(context.get_output("serviceName")).service
        if service is not None and service.is_active and has_recent_write(context):
            return False
        return service is None or service.status != "DRAINING"

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        before = saved.load_for_rollback("service before") or {}
        count = before.get("desired")
        return (
            f"Create Service {saved.get_output('serviceName')} again as it was before, with count {count}",
        )

    def undo(self, context: StepContext) -> None:
        before = context.load_for_rollback("service before")
        live = context.ecs.describe_service(context.cluster, before["name"])
        if live is None or not live.is_active or is_read_stale(context):
            live = _recreate(context, before)
        elif live.primary is None or live.primary.id != context.get_output("rollbackDeploymentId"):
            context.log(f"Service {before['name']} already exists")
            return
        # An earlier try of this undo may have created it, and then failed.
        restore_tags(context, live.arn, before["name"], now={})
        scaling = ScalingState.from_record(context.load_for_rollback("scaling of green"))
        # AWS brings the count within the bounds of a new scalable target, even of a suspended one.
        is_registered = restore_target(context, before["name"], scaling)
        if is_registered or live.desired != before["desired"]:
            context.save_for_rollback(_RECREATED, [deployment.id for deployment in live.deployments])
            context.ecs.update_service(context.cluster, before["name"], {"desiredCount": before["desired"]})
        restore_policies(context, before["name"], scaling)

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        if call.operation in ("TagResource", "UntagResource"):
            return confirm_tag_write(context, call)
        if call.service == "application-autoscaling":
            return confirm_scaling_write(context, call)
        before = context.load_for_rollback("service before")
        confirmation = confirm_service_write(
            context, call, task_definition=before["task_definition"], before=_RECREATED
        )
        return (
            Applied({"service": confirmation.answer["service"]})
            if isinstance(confirmation, Applied)
            else confirmation
        )

    def is_undone(self, context: StepContext) -> bool:
        before = context.load_for_rollback("service before")
        return is_restored(context, before, context.observe_service(before["name"]).service)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        return build_service_checks(context, context.load_for_rollback("service before"))
