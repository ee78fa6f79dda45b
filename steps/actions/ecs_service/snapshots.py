"""Snapshots of ECS services: saved state, ownership checks, restore and deletion."""

from collections.abc import Mapping, Set
from datetime import datetime
from typing import Any

from aws.apis.ecs_types import EcsDeployment, EcsService
from aws.errors import NotFound
from aws.shapes import get_parameter_names
from steps.actions.base import ActionFailed, ChangedByOthers, ChecklistEntry
from steps.actions.confirmations import (
    clear_observation,
    has_recent_write,
    is_observed_twice,
    is_read_stale,
    wait_past_read_lag,
)
from steps.actions.context import EarlierStep, ServiceObservation, StepContext
from steps.actions.ecs_service.daemons import get_scheduling, is_daemon
from steps.actions.ecs_service.express_services import refuse_express
from steps.actions.ecs_service.update_fields import merge_deployment_fields

ECS = "ECS"
CONTROLLER_TOOLS = {"CODE_DEPLOY": "AWS CodeDeploy", "EXTERNAL": "the tool that owns its task sets"}
GONE_STATUSES = ("INACTIVE", "DRAINING")
# Fields that DescribeServices returns and CreateService accepts, but that a copy must not have.
_NOT_COPIED = ("cluster", "tags", "clientToken", "role", "deploymentController")
CANARY_SUFFIX = "Canary"
"""Suffix of the name of a canary's ECS service."""


def get_pair_names(base: str) -> tuple[str, str]:
    """Return the names of the two ECS services that blue/green deployments alternate between."""
    return f"{base}__1", f"{base}__2"


def get_base_name(name: str) -> str:
    """Return the manifest's service name for an ECS service that a strategy may have named."""
    for suffix in (CANARY_SUFFIX, *get_pair_names("")):
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def lock_named_service(context: StepContext, name: str) -> None:
    """Acquire the lock of an ECS service that a step names, and that of deployments which may use it too.

    Those of blue/green and canary lock the base name, which is first: they hold it if they want the other.
    """
    for locked in dict.fromkeys((get_base_name(name), name)):
        context.acquire_service_lock(locked, is_main=False)


def format_service(service: EcsService | None) -> str:
    """Return status and counts of an ECS service for a checklist."""
    return (
        "does not exist"
        if service is None
        else f"{service.status}, {service.running}/{service.desired} running"
    )


def has_existed_before(context: StepContext | EarlierStep) -> bool:
    """Return whether the ECS service existed when the step began."""
    before = context.load_for_rollback("service before")
    return bool(before) and before["status"] not in GONE_STATUSES


def build_snapshot(service: EcsService, revision_fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the state of an ECS service that rollbacks and diagnoses need.

    `revision_fields` is the result of `read_revision_fields`.
    """
    primary = service.primary
    return {
        "name": service.name,
        "arn": service.arn,
        "status": service.status,
        "primary": primary.id if primary else "",
        "task_definition": service.task_definition,
        "desired": service.desired,
        "running": service.running,
        "newest_events": [event.id for event in service.events],
        "raw": merge_deployment_fields(service) | dict(revision_fields or {}),
    }


def save_deployment_times(context: StepContext, service: EcsService) -> None:
    """Save when AWS created the deployment in the answer to our write, and when it created the service."""
    primary = service.primary
    if primary is not None and primary.created_at is not None:
        context.save_for_rollback(f"begun {primary.id}", primary.created_at.isoformat())
    if primary is not None and service.raw.get("createdAt"):
        context.save_for_rollback(f"created {primary.id}", str(service.raw["createdAt"]))


def get_deployment_start(context: StepContext, deployment_id: str) -> datetime | None:
    """Return when AWS created a deployment of ours; None if unknown."""
    begun = context.load_for_rollback(f"begun {deployment_id}")
    return datetime.fromisoformat(begun) if begun else None


def describe_restore(saved: EarlierStep) -> tuple[str, ...]:
    """Return sentences about the restore of an ECS service to its state before this step (P05)."""
    name = saved.get_output("serviceName")
    if not has_existed_before(saved):
        return (f"Delete Service {name} with its tasks: created by this execution",)
    before = saved.load_for_rollback("service before")
    sentences = []
    if (arn := saved.get_output("taskDefinitionArn")) and arn != before["task_definition"]:
        old, new = (text.rsplit("/", 1)[-1] for text in (before["task_definition"], arn))
        sentences.append(f"Service {name}: task definition {new} back to {old}")
    count = saved.get_output("desiredCount")
    if count is not None and count != before["desired"] and not is_daemon(before["raw"]):
        sentences.append(f"Service {name}: restore desired count from {count} to {before['desired']}")
    return (*sentences,) or (f"Service {name}: restore the changed settings",)


def get_controller(service: Mapping[str, Any]) -> str:
    """Return the deployment controller in a description of an ECS service: ECS, CODE_DEPLOY or EXTERNAL."""
    return str((service.get("deploymentController") or {}).get("type", ECS))


def refuse_foreign_controller(
    before: Mapping[str, Any], *, for_native: bool = False, scheduling: str = "REPLICA"
) -> None:
    """Raise `ActionFailed` unless ECS's rolling update deploys the service; `for_native` any of ECS.

    `scheduling` is the scheduling strategy of the service definition.
    """
    raw = before["raw"]
    controller = get_controller(raw)
    strategy = raw.get("deploymentConfiguration", {}).get("strategy", "ROLLING")
    name = before["name"]
    refuse_express(name, raw)
    if controller != ECS:
        raise _build_controller_error(
            f"Service {name} is deployed by the {controller} controller. Deploy it with "
            f"{CONTROLLER_TOOLS.get(controller, controller)}, or hand it to ECS with the step "
            "EcsChangeController before this one."
        )
    if strategy != "ROLLING" and not for_native:
        raise _build_controller_error(
            f"Service {name} has AWS's own {strategy} strategy, which moves traffic by itself. Deploy it "
            "with the step EcsNativeDeploy, or set its strategy to ROLLING in AWS and run again."
        )
    if (current := get_scheduling(raw)) != scheduling:
        raise _build_controller_error(
            f"Service {name} has {current} scheduling, and the service definition {scheduling}. AWS cannot "
            f"change it. Use schedulingStrategy {current} with the step EcsRollingDeploy, or give the "
            "service definition another serviceName."
        )


def _build_controller_error(message: str) -> ActionFailed:
    return ActionFailed("CONTROLLER_NOT_SUPPORTED", message)


def recreate_ecs_service(context: StepContext, before: Mapping[str, Any], task_definition: str) -> EcsService:
    """Create a deleted ECS service from its snapshot."""
    fields = get_parameter_names("ecs", "CreateService") - set(_NOT_COPIED)
    # AWS returns unset fields as empty lists, and treats some empty lists as a setting.
    definition = {
        key: value for key, value in before["raw"].items() if key in fields and value not in (None, [], "")
    }
    definition |= {"taskDefinition": task_definition}
    definition |= {} if is_daemon(before["raw"]) else {"desiredCount": before["desired"]}
    if "capacityProviderStrategy" in definition:
        definition.pop("launchType", None)
    return context.ecs.create_service(definition, cluster=context.cluster, client_token=context.intent)


def delete_ecs_service(context: StepContext, name: str, live: EcsService | None) -> None:
    """Delete an ECS service with its tasks unless it is already deleted."""
    is_hidden = live is None and is_read_stale(context)
    if not is_hidden and (live is None or live.status in GONE_STATUSES):
        context.log(f"Service {name} is already deleted")
        return
    context.log(f"Deleting service {name}..")
    try:
        context.ecs.delete_service(context.cluster, name, force=True)
    except NotFound:
        context.log(f"Service {name} is already deleted")


def is_deleted(context: StepContext, service: EcsService | None) -> bool:
    """Return whether a service is gone; a service that this action has just created may be invisible."""
    if service is None:
        return not has_recent_write(context)
    return service.status == "INACTIVE"


def filter_stale_service(context: StepContext, live: EcsService) -> EcsService | None:
    """Return the service for comparison by an undo; None if the read is too old to show our deployment."""
    is_stale = live.find_deployment(context.get_output("deploymentId") or "") is None and is_read_stale(
        context
    )
    return None if is_stale else live


def refuse_foreign_deployment(context: StepContext, live: EcsService | None, known_ids: Set[Any]) -> None:
    """Raise `ActionFailed` unless the PRIMARY deployment is known or ours, right before an undo writes.

    The check that allowed the undo may be a minute old; the next try of the undo checks again.
    """
    if live is None or live.status in GONE_STATUSES or live.primary is None:
        return
    if live.primary.id in known_ids or live.primary.id in _list_own_deployments(context):
        return
    raise ActionFailed(
        "SUPERSEDED",
        f"Deployment {live.primary.id} of Service {live.name} is not ours: it may be a newer deployment. "
        f"The rollback reads the service again.",
        outcome="SUPERSEDED",
    )


def is_own_deployment(
    context: StepContext, observation: ServiceObservation, primary: EcsDeployment, known_ids: Set[Any]
) -> bool:
    """Return whether the PRIMARY deployment is known or ours; False means check again.

    Raises `ChangedByOthers` once it is certain that somebody else has deployed there (rule 12).
    """
    if primary.id in known_ids or primary.id in _list_own_deployments(context):
        clear_observation(context, "foreign primary")
        return True
    if not is_observed_twice(context, "foreign primary", observation.read_started_at):
        return False
    raise ChangedByOthers(
        f"Somebody else deployed Service {observation.name} meanwhile (deployment {primary.id}). "
        "The rollback changes nothing."
    )


def _list_own_deployments(context: StepContext) -> set[Any]:
    """Return the deployments that other steps of this execution made, and those that undid them.

    An ECS service may be deployed more than once, or deployed and scaled: the later step is undone first.
    """
    return {
        step.get_output(name)
        for step in context.list_other_steps()
        for name in ("deploymentId", "rollbackDeploymentId")
    }


def is_restored(context: StepContext, before: Mapping[str, Any], service: EcsService | None) -> bool:
    """Return whether the task definition and the running tasks are those from before."""
    if service is None or service.primary is None:
        return False
    if service.primary.task_definition != before["task_definition"] or len(service.deployments) > 1:
        return False
    is_over = service.primary.rollout_state in ("COMPLETED", "", None)
    is_back = is_over and service.running == service.desired == before["desired"]
    if is_back and not has_recent_write(context):
        return True
    if is_back:
        wait_past_read_lag(context)
    else:
        context.wait_for_change()
    return False


def build_service_checks(context: StepContext, before: Mapping[str, Any]) -> list[ChecklistEntry]:
    """Return checklist entries with the saved and the current state of the ECS service."""
    name = before["name"]
    service = context.ecs.describe_service(context.cluster, name)
    if service is None or service.primary is None or service.status in GONE_STATUSES:
        return [ChecklistEntry(f"Service {name}", before["status"], format_service(service), ok=False)]
    pairs = (
        ("Task definition", before["task_definition"], service.primary.task_definition),
        ("Desired count", before["desired"], service.desired),
        ("Running tasks", before["desired"], service.running),
        ("Deployments under way", 1, len(service.deployments)),
    )
    return [
        ChecklistEntry(f"{subject} of Service {name}", str(expected), str(actual), expected == actual)
        for subject, expected, actual in pairs
    ]
