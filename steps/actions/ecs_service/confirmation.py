"""Confirmation of ECS service writes whose answer was lost (DESIGN 5, rule 9)."""

from datetime import datetime, timedelta
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


def confirm_service_write(
    context: StepContext, call: CallRecord, *, task_definition: str, before: str
) -> Confirmation:
    """Judge a CreateService, UpdateService or DeleteService.

    `task_definition` is the one that the write asked for, `before` the name under which the ids of the
    deployments right before the write are saved: an undo's task definition was running before, too.
    """
    late = is_past_read_lag(context, call)
    name = call.params.get("service") or call.params["serviceName"]
    service = context.ecs.describe_service(context.cluster, name)
    if call.operation == "DeleteService":
        return _confirm_delete(service, late)
    if service is None or service.status != "ACTIVE":
        return NotApplied() if late else Unconfirmed()
    earlier_ids = context.load_for_rollback(before) or []
    if ours := _find_own_deployment(service, call, task_definition, earlier_ids):
        return Applied({"service": _build_answer(service, ours)})
    if not late:
        return Unconfirmed()
    # An update that begins no deployment leaves none behind: one of our definition is somebody else's.
    begins_one = call.operation != "UpdateService" or "taskDefinition" in call.params
    if begins_one and (passed := _find_finished_deployment(context, service, call.sent_at, task_definition)):
        return Applied({"service": {**service.raw, "deployments": [passed]}})
    if service.primary is not None and service.primary.id not in earlier_ids:
        raise ActionFailed(
            "SUPERSEDED",
            f"Somebody else changed Service {name} (deployment {service.primary.id}) while the answer to our "
            f"{call.operation} was lost. Slipway changes it no further.",
            outcome="SUPERSEDED",
        )
    return NotApplied()


def _confirm_delete(service: EcsService | None, late: bool) -> Confirmation:
    if service is None or service.status in ("DRAINING", "INACTIVE"):
        return Applied({"service": service.raw if service else {}})
    return NotApplied() if late else Unconfirmed()


def _find_own_deployment(
    service: EcsService, call: CallRecord, task_definition: str, earlier_ids: list[str]
) -> EcsDeployment | None:
    """The deployment that this write began: our task definition under an id that was not there before."""
    if call.operation == "UpdateService" and "taskDefinition" not in call.params:
        return _confirm_update_fields(service, call.params)
    for deployment in service.deployments:
        if deployment.id not in earlier_ids and deployment.task_definition == task_definition:
            return deployment
    return None


def _confirm_update_fields(service: EcsService, params: Any) -> EcsDeployment | None:
    """Return an update without a task definition begins no deployment: its fields are the evidence."""
    shown = all(
        service.raw.get(key) == value for key, value in params.items() if key not in ("cluster", "service")
    )
    return service.primary if shown else None


def _build_answer(service: EcsService, ours: EcsDeployment) -> dict[str, Any]:
    """Return the service as the lost answer showed it: ours PRIMARY, whatever became of it since."""
    shown = service.raw.get("deployments", [])
    mine = [{**one, "status": "PRIMARY"} for one in shown if one.get("id") == ours.id]
    others = [one for one in shown if one.get("id") != ours.id]
    return {**service.raw, "deployments": mine + others}


def _find_finished_deployment(
    context: StepContext, service: EcsService, sent_at: datetime, task_definition: str
) -> dict[str, Any] | None:
    """Our deployment, if it began and was already rolled back and forgotten by DescribeServices."""
    since = sent_at - CLOCK_SKEW
    try:
        past = context.ecs.list_service_deployments(context.cluster, service.name, after=since)
        targets = context.ecs.describe_service_revisions([one.target_revision for one in past])
        ours = {one.arn for one in targets if one.task_definition == task_definition}
        for one in past:
            if one.target_revision in ours:
                return {"id": f"ecs-svc/{get_arn_name(one.arn)}", "status": "PRIMARY"}
    except Denied as denied:
        context.log(f"{denied.display_message} Slipway uses the events of the service instead.", "warning")
        if any("rolling back to deployment" in e.message and e.at and e.at >= since for e in service.events):
            return {"id": "ecs-svc/unknown", "status": "PRIMARY"}
    return None
