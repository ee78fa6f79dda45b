"""Operation that undoes an adoption, as long as nothing was deployed by it."""

from typing import Final

from django.db import transaction

from catalog.operations import delete_service
from deployments.models import Execution, StageExecution
from inventory.models.adoption import Adoption
from inventory.models.drift import DriftComparison
from inventory.operations.adoptions import assign_owner
from inventory.queries.drift import EDIT_ENVIRONMENT
from pipelines.models import Pipeline
from pipelines.operations.pipelines import delete_pipeline
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import Principal, can, require
from web.clock import get_database_time
from web.http.problems import Conflict

AdoptionStates = Adoption.State
_ALREADY_DEPLOYED_REASON: Final = (
    "It has been deployed since it was adopted, so the adoption cannot be taken back. Roll that deployment "
    "back, or delete the pipeline and the service."
)


def undo_adoption(*, actor: User, adoption: Adoption) -> Adoption:
    """Remove the service and the pipeline that an adoption made; nothing in AWS is called.

    What was read back stays for a day. Raises `Conflict` once an execution of it exists, `ResourceInUse`
    while another pipeline means the service, and `Forbidden`.
    """
    require(actor, EDIT_ENVIRONMENT, adoption)
    if reason := describe_undo_obstacle(adoption):
        raise Conflict(reason)
    service, pipeline = adoption.service, adoption.pipeline
    before = {"service": str(service), "pipeline": str(pipeline) if pipeline else None}
    with transaction.atomic():
        # The row is found again by nobody who does the same at this moment.
        mine = Adoption.objects.filter(pk=adoption.pk, state=AdoptionStates.ADOPTED)
        if not mine.update(
            state=AdoptionStates.READY,
            reserved_arn="",
            service=None,
            pipeline=None,
            adopted_at=None,
            adopted_by=None,
            requested_at=get_database_time(),
        ):
            raise Conflict("Somebody else has taken it back meanwhile.")
        if pipeline is not None:
            _delete_unused(actor, pipeline)
        if service is not None:
            delete_service(actor=actor, service=service)
        assign_owner(adoption.ecs_service, None, None)
        DriftComparison.objects.filter(
            ecs_service__service=None, ecs_service__cluster=adoption.ecs_service.cluster_id
        ).delete()
        record_audit_entry(actor=actor, action="adoption.take_back", thing=adoption, before=before)
    adoption.refresh_from_db()
    return adoption


def describe_undo_obstacle(adoption: Adoption) -> str:
    """What keeps an adoption from being taken back; empty if nothing does."""
    if adoption.state != AdoptionStates.ADOPTED or adoption.service is None:
        return "It is not adopted, so there is nothing to take back."
    ran = Execution.objects.filter(pipeline=adoption.pipeline_id) if adoption.pipeline_id else None
    if (ran is not None and ran.exists()) or StageExecution.objects.filter(service=adoption.service).exists():
        return _ALREADY_DEPLOYED_REASON
    return ""


def can_undo_adoption(reader: Principal, adoption: Adoption) -> bool:
    """Whether somebody has the rights that taking back needs."""
    parts = ((adoption.service, "core_service_delete"), (adoption.pipeline, "core_pipeline_delete"))
    return can(reader, EDIT_ENVIRONMENT, adoption) and all(
        can(reader, right, one) for one, right in parts if one
    )


def _delete_unused(actor: User, pipeline: Pipeline) -> None:
    delete_pipeline(actor=actor, pipeline=pipeline)
    # One that was run at this moment stays, with its execution.
    if Pipeline.with_deleted.filter(pk=pipeline.pk).exists():
        raise Conflict(_ALREADY_DEPLOYED_REASON)
