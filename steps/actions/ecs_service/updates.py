"""Actions that save an ECS service and then create or update it; undo restores it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.apis.ecs_types import EcsService
from aws.errors import Invalid
from steps.actions.base import Action, ActionFailed, ChecklistEntry, InterventionRequired, action
from steps.actions.blue_green.scale_down import save_replaced_pair
from steps.actions.confirmations import (
    CallRecord,
    Confirmation,
    clear_observation,
    has_recent_write,
    wait_past_read_lag,
)
from steps.actions.context import EarlierStep, StepContext
from steps.actions.ecs_service.confirmation import confirm_forced_update, confirm_service_write
from steps.actions.ecs_service.daemons import get_scheduling, is_daemon
from steps.actions.ecs_service.desired_count import (
    COUNT_NOT_REQUESTED,
    COUNT_REQUESTED,
    FOREIGN_COUNT_NOTE,
    compute_initial_count,
    compute_restored_count,
    compute_update_count,
    is_count_restored,
    is_foreign_count,
)
from steps.actions.ecs_service.snapshots import (
    GONE_STATUSES,
    build_snapshot,
    delete_ecs_service,
    describe_restore,
    filter_stale_service,
    format_service,
    get_pair_names,
    has_existed_before,
    is_deleted,
    is_own_deployment,
    recreate_ecs_service,
    refuse_foreign_controller,
    refuse_foreign_deployment,
    save_deployment_times,
)
from steps.actions.ecs_service.update_fields import (
    build_restoring_update,
    list_ignored_fields,
    read_revision_fields,
    requires_new_deployment,
    select_changeable_fields,
)
from steps.actions.manifests import TASK_DEFINITION_ARN
from steps.actions.task_definitions import (
    LIVE_SERVICE,
    confirm_registration,
    is_reused_revision,
    reregister_task_definition,
)

# The output that names the task definition that stands in for an inactive one.
RESTORED_TASK_DEFINITION = "restoredTaskDefinitionArn"


@action
@dataclass(frozen=True)
class SaveCurrentService(Action):
    """Save the state that a rollback needs, before any change (R193).

    `definition` is the rollback key of the service definition. The service lock is always that of the service
    that the stage finally deploys. `for_native` for a deployment by ECS's own strategy.
    """

    definition: str = "service definition"
    for_native: bool = False

    @property
    def title(self) -> str:
        return "Save the current ECS service"

    def start(self, context: StepContext) -> None:
        context.acquire_service_lock(context.load_for_rollback("service definition")["serviceName"])
        definition = context.load_for_rollback(self.definition)
        name = definition["serviceName"]
        live_name = context.load_for_rollback("service definition")["serviceName"]
        names = dict.fromkeys([name, live_name, *get_pair_names(live_name)])
        services = {
            candidate.name: candidate
            for candidate in context.ecs.describe_services(context.cluster, list(names))
        }
        service, live = services.pop(name, None), services.pop(live_name, None)
        before = context.save_for_rollback(
            "service before",
            None
            if service is None
            else build_snapshot(service, read_revision_fields(context.ecs, definition, service)),
        )
        # Only a new canary shares its revision: an update is confirmed by a revision of its own.
        if live is not None and (service is None or service.status in GONE_STATUSES):
            context.save_for_rollback(LIVE_SERVICE, build_snapshot(live))
        save_replaced_pair(context, definition, service, list(services.values()))
        if before is None or before["status"] in GONE_STATUSES:
            context.log(f"Service {name} does not exist yet and will be created")
            context.log("A rollback deletes it")
            return
        refuse_foreign_controller(before, for_native=self.for_native, scheduling=get_scheduling(definition))
        context.log(
            f"Service {name} runs {before['running']}/{before['desired']} tasks of "
            f"{before['task_definition']} (deployment {before['primary']})"
        )
        restored = "task definition" if is_daemon(definition) else "task definition and desired count"
        context.log(f"A rollback restores this {restored}")

    def is_done(self, context: StepContext) -> bool:
        """Wait until a draining service of this name is inactive; CreateService would fail before (T20)."""
        before = context.load_for_rollback("service before")
        if before is None or before["status"] != "DRAINING":
            return True
        name = before["name"]
        if not context.progress.get("announced"):
            context.log(f"Waiting for existing Service {name} to reach inactive state")
            context.progress["announced"] = True
        service = context.observe_service(name).service
        if service is not None and service.status == "DRAINING":
            context.wait_for_change()
            return False
        context.log(f"Existing Service {name} reached inactive state")
        return True


@action
@dataclass(frozen=True)
class CreateOrUpdateService(Action):
    """Update the ECS service to the new task definition, or create it (R198, R211).

    With `force` None, a task definition by ARN is deployed with a new deployment (R162).
    """

    has_undo = True

    force: bool | None = None
    keep_count: bool = False
    definition: str = "service definition"

    @property
    def title(self) -> str:
        return "Create or update the ECS service"

    def start(self, context: StepContext) -> None:
        definition = context.load_for_rollback(self.definition)
        arn = context.get_output("taskDefinitionArn")
        live = context.ecs.describe_service(context.cluster, definition["serviceName"])
        if has_existed_before(context) or context.get_output("deploymentId"):
            service = self._update(context, definition, arn, live)
        else:
            service = self._create(context, definition, arn, live)
        self.save_outputs(context, service)
        save_deployment_times(context, service)

    def save_outputs(self, context: StepContext, service: EcsService) -> None:
        context.set_outputs(
            serviceArn=service.arn,
            deploymentId=service.primary.id if service.primary else "",
            desiredCount=service.desired,
        )

    def _create(
        self, context: StepContext, definition: Mapping[str, Any], arn: str, live: EcsService | None
    ) -> EcsService:
        name = definition["serviceName"]
        if live is not None and live.status == "ACTIVE":
            raise ActionFailed(
                "SUPERSEDED",
                f"Service {name} did not exist when this deployment began, but was created since. "
                "Run the pipeline again to deploy onto it.",
                outcome="SUPERSEDED",
            )
        count = compute_initial_count(context, definition, as_running=self.keep_count)
        parameters = {**definition, "taskDefinition": arn}
        parameters |= {} if count is None else {"desiredCount": count}
        context.log(f"Creating Service {name} with task definition {arn}{_format_count(definition, count)}")
        return context.ecs.create_service(parameters, cluster=context.cluster, client_token=context.intent)

    def _update(
        self, context: StepContext, definition: Mapping[str, Any], arn: str, live: EcsService | None
    ) -> EcsService:
        name = definition["serviceName"]
        # A retry finds the deployment of its earlier attempt and deploys again.
        earlier = context.get_output("deploymentId")
        known_ids = {earlier, (context.load_for_rollback("service before") or {}).get("primary")}
        if live is None or live.primary is None or live.primary.id not in known_ids:
            raise ActionFailed(
                "SUPERSEDED",
                f"Somebody else changed Service {name} after this deployment read it. Nothing was changed; "
                "run the pipeline again.",
                outcome="SUPERSEDED",
            )
        for warning in list_ignored_fields(definition, live):
            context.log(warning, "warning")
        changes = {**select_changeable_fields(definition), "taskDefinition": arn}
        count = compute_update_count(context, definition, live, as_running=self.keep_count)
        if count is None:
            context.save_for_rollback(COUNT_NOT_REQUESTED, True)
        else:
            changes["desiredCount"] = count
            context.save_for_rollback(COUNT_REQUESTED, count)
        if earlier or self._is_forced(context) or requires_new_deployment(definition, live):
            changes["forceNewDeployment"] = True
        context.save_for_rollback(
            _get_deployments_key(context), [deployment.id for deployment in live.deployments]
        )
        displayed_count = _format_count(live.raw, live.desired if count is None else count)
        context.log(f"Updating Service {name} with task definition {arn}{displayed_count}")
        return context.ecs.update_service(context.cluster, name, changes)

    def _is_forced(self, context: StepContext) -> bool:
        if context.force_new_deployment is not None:
            return context.force_new_deployment
        if is_reused_revision(context, context.get_output("taskDefinitionArn")):
            return True
        by_arn = context.load_for_rollback(TASK_DEFINITION_ARN) is not None
        return by_arn if self.force is None else self.force

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        arn, key = context.get_output("taskDefinitionArn"), _get_deployments_key(context)
        if call.operation == "UpdateService" and is_reused_revision(context, arn):
            return confirm_forced_update(context, call, task_definition=arn, before=key)
        return confirm_service_write(context, call, task_definition=arn, before=key)

    def may_undo(self, context: StepContext) -> bool:
        name = context.get_output("serviceName")
        observation = context.observe_service(name)
        service = observation.service
        if service is None or service.status in GONE_STATUSES or service.primary is None:
            clear_observation(context, "foreign primary")
            # A name is free once its earlier service has drained.
            return service is None or service.status != "DRAINING" or not has_existed_before(context)
        return is_own_deployment(context, observation, service.primary, _list_known_deployments(context))

    def undo(self, context: StepContext) -> None:
        name = context.get_output("serviceName")
        live = context.ecs.describe_service(context.cluster, name)
        refuse_foreign_deployment(context, live, _list_known_deployments(context))
        if not has_existed_before(context):
            delete_ecs_service(context, name, live)
        elif live is None or live.status in GONE_STATUSES:
            _recreate_deleted_service(context, name)
        else:
            _restore(context, context.load_for_rollback(self.definition), live)

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        if call.operation == "RegisterTaskDefinition":
            return confirm_registration(context, call)
        task_definition = call.params.get("taskDefinition", "")
        return confirm_service_write(
            context, call, task_definition=task_definition, before="deployments before undo"
        )

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        return describe_restore(saved)

    def is_undone(self, context: StepContext) -> bool:
        context.wait_for_change()
        service = context.observe_service(context.get_output("serviceName")).service
        if not has_existed_before(context):
            is_gone = is_deleted(context, service)
            if is_gone:
                context.show_counts(running=0, desired=0, pending=0)
            elif service is None:
                wait_past_read_lag(context)
            return is_gone
        if service is None or service.primary is None:
            return False
        context.show_counts(running=service.running, desired=service.desired, pending=service.pending)
        if (
            service.primary.task_definition != get_restored_task_definition(context)
            or len(service.deployments) > 1
        ):
            return False
        if has_recent_write(context):
            wait_past_read_lag(context)
            return False
        is_settled = service.primary.rollout_state in ("COMPLETED", "", None)
        # A lower count alone starts no deployment, so its tasks end after this one is COMPLETED.
        return is_settled and service.running == service.desired and _is_count_restored(context, service)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        name = context.get_output("serviceName")
        service = context.ecs.describe_service(context.cluster, name)
        before = context.load_for_rollback("service before")
        if not has_existed_before(context):
            is_gone = service is None or service.status in GONE_STATUSES
            return [
                ChecklistEntry(
                    f"Service {name}",
                    "does not exist",
                    "does not exist" if is_gone else format_service(service),
                    is_gone,
                )
            ]
        if service is None or service.primary is None:
            return [ChecklistEntry(f"Service {name}", "ACTIVE", "does not exist", ok=False)]
        pairs = (
            ("Task definition", get_restored_task_definition(context), service.primary.task_definition),
            ("Running tasks", service.desired, service.running),
            ("Deployments under way", 1, len(service.deployments)),
        )
        is_kept = is_count_restored(context, before, service.desired)
        note = ""
        if is_kept and service.desired != before["desired"]:
            by_others = is_foreign_count(context, before, service.desired)
            note = FOREIGN_COUNT_NOTE if by_others else "changed by auto scaling"
        count = str(before["desired"])
        entry = ChecklistEntry(f"Desired count of Service {name}", count, str(service.desired), is_kept, note)
        return [
            # ECS sets the count of a DAEMON service to that of its container instances.
            *(() if is_daemon(service.raw) else (entry,)),
            *(
                ChecklistEntry(f"{subject} of Service {name}", str(expected), str(actual), expected == actual)
                for subject, expected, actual in pairs
            ),
        ]


def _is_count_restored(context: StepContext, service: EcsService) -> bool:
    """Return whether the desired count is restored; a read may be older than the undo."""
    return is_count_restored(context, context.load_for_rollback("service before"), service.desired)


def _restore(context: StepContext, definition: Mapping[str, Any], live: EcsService) -> None:
    before, name = context.load_for_rollback("service before"), live.name
    count: int | None = compute_restored_count(context, before, live)
    visible = filter_stale_service(context, live)
    is_count_known = visible is None and context.get_output("desiredCount") == before["desired"]
    if is_count_known or is_daemon(live.raw):
        count = None
    changes = build_restoring_update(
        definition, before, visible, count=count, task_definition=get_restored_task_definition(context)
    )
    context.save_for_rollback("deployments before undo", [deployment.id for deployment in live.deployments])
    if not changes:
        context.log(f"Service {name} already matches its previous state")
        return
    restored_count = _format_count(live.raw, changes.get("desiredCount", live.desired))
    context.log(
        f"Updating Service {name} with task definition {get_restored_task_definition(context)}"
        f"{restored_count}"
    )
    try:
        service = context.ecs.update_service(context.cluster, name, changes)
    except Invalid as refused:
        if "inactive" not in refused.message.lower() or "taskDefinition" not in changes:
            raise
        changes["taskDefinition"] = reregister_task_definition(context, before["task_definition"])
        context.set_outputs(**{RESTORED_TASK_DEFINITION: changes["taskDefinition"]})
        service = context.ecs.update_service(context.cluster, name, changes)
    context.set_outputs(rollbackDeploymentId=service.primary.id if service.primary else "")


def _format_count(document: Mapping[str, Any], count: int | None) -> str:
    """Return the count of a service for a sentence after its task definition."""
    return " on each container instance" if is_daemon(document) else f" and desired count {count}"


def _list_known_deployments(context: StepContext) -> set[Any]:
    """Return the deployments that an undo may find: the saved one, ours, and that of an earlier try."""
    before = context.load_for_rollback("service before") or {}
    return {
        context.get_output("deploymentId"),
        before.get("primary"),
        context.get_output("rollbackDeploymentId"),
    }


def _recreate_deleted_service(context: StepContext, name: str) -> None:
    """Recreate a service that was deleted during the step, after a user's consent."""
    before = context.load_for_rollback("service before")
    count = _format_count(before["raw"], before["desired"])
    as_before = f"task definition {get_restored_task_definition(context)}{count}"
    if not context.is_undo_retry_requested:
        raise InterventionRequired(
            "SERVICE_DELETED",
            f"Service {name} was deleted during the deployment. Retry to create it again with {as_before}, "
            f"or ignore to leave it deleted.",
        )
    context.add_note(
        f"Service {name} was deleted outside Slipway; the rollback created it again with {as_before}"
    )
    service = recreate_ecs_service(context, before, get_restored_task_definition(context))
    context.set_outputs(rollbackDeploymentId=service.primary.id if service.primary else "")


def get_restored_task_definition(context: StepContext) -> str:
    """Return the task definition that a rollback restores: the saved one, or its new registration."""
    return str(
        context.get_output(RESTORED_TASK_DEFINITION)
        or context.load_for_rollback("service before")["task_definition"]
    )


def _get_deployments_key(context: StepContext) -> str:
    """Return the rollback key of the deployments before a write; each attempt has its own."""
    earlier = context.get_output("deploymentId")
    return f"deployments after {earlier}" if earlier else "deployments before update"
