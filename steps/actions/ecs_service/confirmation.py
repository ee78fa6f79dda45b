"""Confirmation of ECS service writes whose answer was lost (DESIGN 5, rule 9)."""

from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from aws.apis.ecs_types import EcsDeployment, EcsService, get_arn_name
from aws.errors import Denied
from steps.actions.base import ActionFailed
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import StepContext

CLOCK_SKEW = timedelta(seconds=5)
# Rollback key of the newest service deployments before an update to the running revision.
EARLIER_SERVICE_DEPLOYMENTS = "service deployments before"


def confirm_service_write(
    context: StepContext, call: CallRecord, *, task_definition: str, before: str
) -> Confirmation:
    """Confirm a CreateService, UpdateService or DeleteService.

    `task_definition` is the one that the write requested. `before` is the rollback key of the ids of the
    deployments right before the write: the task definition of an undo was running before, too.
    """
    late = is_past_read_lag(context, call)
    name = call.params.get("service") or call.params["serviceName"]
    service = context.ecs.describe_service(context.cluster, name)
    if call.operation == "DeleteService":
        return _confirm_delete(service, late)
    if service is None or service.status != "ACTIVE":
        return NotApplied() if late else Unconfirmed()
    earlier_ids = context.load_for_rollback(before) or []
    if own_deployment := _find_own_deployment(service, call, task_definition, earlier_ids):
        return Applied({"service": _build_answer(service, own_deployment)})
    if not late:
        return Unconfirmed()
    # An update without a task definition starts no deployment: a new one is somebody else's.
    starts_deployment = call.operation != "UpdateService" or "taskDefinition" in call.params
    if starts_deployment and (
        finished := _find_finished_deployment(context, service, call.sent_at, task_definition)
    ):
        return Applied({"service": {**service.raw, "deployments": [finished]}})
    _refuse_new_primary(service, call, earlier_ids)
    return NotApplied()


def confirm_forced_update(
    context: StepContext, call: CallRecord, *, task_definition: str, before: str
) -> Confirmation:
    """Confirm an UpdateService to the revision that was running before.

    Any other new deployment, also a rollback by ECS, runs this revision too. So the first service deployment
    after those from before counts, which ECS lists even after a rollback; a rollback starts none.
    """
    if not call.params.get("forceNewDeployment"):
        # ECS starts no deployment, and a repetition changes nothing further.
        return confirm_service_write(context, call, task_definition=task_definition, before=before)
    late = is_past_read_lag(context, call)
    service = context.ecs.describe_service(context.cluster, call.params["service"])
    if service is None or service.status != "ACTIVE":
        return NotApplied() if late else Unconfirmed()
    earlier_ids = context.load_for_rollback(before) or []
    try:
        first_id = _find_first_deployment(context, service, task_definition, earlier_ids)
    except Denied:
        if late:
            raise
        # The service may show the deployment soon; then no revision is read.
        return Unconfirmed()
    if first_id:
        own_deployment = service.find_deployment(first_id)
        answer = _build_answer(service, own_deployment) if own_deployment else None
        ended = {**service.raw, "deployments": [{"id": first_id, "status": "PRIMARY"}]}
        return Applied({"service": answer or ended})
    if not late:
        return Unconfirmed()
    _refuse_new_primary(service, call, earlier_ids)
    return NotApplied()


def _find_first_deployment(
    context: StepContext, service: EcsService, task_definition: str, earlier_ids: list[str]
) -> str:
    """Return the id of the first deployment of this revision that was not there before; empty if none.

    Revisions are only read for deployments that the service no longer shows. Raises `Denied` if they may not
    be read: then nobody knows whether the update took effect.
    """
    known = context.load_for_rollback(EARLIER_SERVICE_DEPLOYMENTS) or []
    deployments = context.ecs.list_service_deployments(context.cluster, service.name)
    new_deployments = takewhile(lambda deployment: deployment.arn not in known, deployments)
    targets = [deployment.target_revision for deployment in new_deployments][::-1]
    definitions = {deployment.id: deployment.task_definition for deployment in service.deployments}
    for index, target in enumerate(targets):
        deployment_id = _get_deployment_id(target)
        if deployment_id in earlier_ids:
            continue
        if deployment_id not in definitions:
            revisions = context.ecs.describe_service_revisions(targets[index:])
            definitions |= {_get_deployment_id(item.arn): item.task_definition for item in revisions}
        if definitions.get(deployment_id) == task_definition:
            return deployment_id
    return ""


def _get_deployment_id(service_revision: str) -> str:
    """Return the id of the deployment of a service revision: both have the same number.

    The name of a service deployment is another one, of letters and digits.
    """
    return f"ecs-svc/{get_arn_name(service_revision)}"


def _refuse_new_primary(service: EcsService, call: CallRecord, earlier_ids: list[str]) -> None:
    """Raise `ActionFailed` if the PRIMARY deployment is new and not that of our write."""
    if service.primary is not None and service.primary.id not in earlier_ids:
        raise ActionFailed(
            "SUPERSEDED",
            f"Somebody else changed Service {service.name} (deployment {service.primary.id}) while the "
            f"answer to our {call.operation} was lost. Slipway changes it no further.",
            outcome="SUPERSEDED",
        )


def _confirm_delete(service: EcsService | None, late: bool) -> Confirmation:
    if service is None or service.status in ("DRAINING", "INACTIVE"):
        return Applied({"service": service.raw if service else {}})
    return NotApplied() if late else Unconfirmed()


def _find_own_deployment(
    service: EcsService, call: CallRecord, task_definition: str, earlier_ids: list[str]
) -> EcsDeployment | None:
    """Return the deployment that this write started: our task definition under a new id."""
    if call.operation == "UpdateService" and "taskDefinition" not in call.params:
        return _confirm_update_fields(service, call.params)
    for deployment in service.deployments:
        if deployment.id not in earlier_ids and deployment.task_definition == task_definition:
            return deployment
    return None


def _confirm_update_fields(service: EcsService, params: Any) -> EcsDeployment | None:
    """Return the PRIMARY deployment if the updated fields are visible."""
    is_visible = all(
        service.raw.get(key) == value for key, value in params.items() if key not in ("cluster", "service")
    )
    return service.primary if is_visible else None


def _build_answer(service: EcsService, own_deployment: EcsDeployment) -> dict[str, Any]:
    """Return the service as in the lost answer, with our deployment PRIMARY, whatever happened since."""
    deployments = service.raw.get("deployments", [])
    own = [
        {**deployment, "status": "PRIMARY"}
        for deployment in deployments
        if deployment.get("id") == own_deployment.id
    ]
    other_deployments = [
        deployment for deployment in deployments if deployment.get("id") != own_deployment.id
    ]
    return {**service.raw, "deployments": own + other_deployments}


def _find_finished_deployment(
    context: StepContext, service: EcsService, sent_at: datetime, task_definition: str
) -> dict[str, Any] | None:
    """Return our deployment if AWS already rolled it back and DescribeServices no longer shows it."""
    since = sent_at - CLOCK_SKEW
    try:
        deployments = context.ecs.list_service_deployments(context.cluster, service.name, after=since)
        targets = context.ecs.describe_service_revisions(
            [deployment.target_revision for deployment in deployments]
        )
        own_revisions = {
            deployment.arn for deployment in targets if deployment.task_definition == task_definition
        }
        for deployment in deployments:
            if deployment.target_revision in own_revisions:
                return {"id": _get_deployment_id(deployment.target_revision), "status": "PRIMARY"}
    except Denied as denied:
        context.log(f"{denied.display_message} Slipway uses the events of the service instead.", "warning")
        if any(
            "rolling back to deployment" in event.message and event.at and event.at >= since
            for event in service.events
        ):
            return {"id": "ecs-svc/unknown", "status": "PRIMARY"}
    return None
