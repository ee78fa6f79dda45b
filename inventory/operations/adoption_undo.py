"""Undo of an adoption without deployments."""

from typing import Final

from django.db import transaction

from catalog.operations import delete_service
from deployments.models import Execution, StageExecution
from inventory.drift.findings import delete_orphaned_comparisons
from inventory.models.adoption import Adoption
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
    "The service was deployed after its adoption, so the adoption cannot be undone. Delete the pipeline and "
    "the service instead."
)


def undo_adoption(*, actor: User, adoption: Adoption) -> Adoption:
    """Delete the service and pipeline of an adoption; nothing is called in AWS.

    The proposal stays for a day. Raises `Conflict` once it has an execution, `ResourceInUse` while
    another pipeline uses the service, and `Forbidden`.
    """
    require(actor, EDIT_ENVIRONMENT, adoption)
    if reason := describe_undo_obstacle(adoption):
        raise Conflict(reason)
    service, pipeline = adoption.service, adoption.pipeline
    before = {"service": str(service), "pipeline": str(pipeline) if pipeline else None}
    with transaction.atomic():
        # The condition on the state makes a concurrent undo fail.
        unchanged = Adoption.objects.filter(pk=adoption.pk, state=AdoptionStates.ADOPTED)
        if not unchanged.update(
            state=AdoptionStates.READY,
            reserved_arn="",
            service=None,
            pipeline=None,
            adopted_at=None,
            adopted_by=None,
            requested_at=get_database_time(),
        ):
            raise Conflict("Another user has already undone this adoption.")
        if pipeline is not None:
            _delete_unused(actor, pipeline)
        if service is not None:
            delete_service(actor=actor, service=service)
        assign_owner(adoption.ecs_service, None, None)
        delete_orphaned_comparisons(adoption.ecs_service.cluster_id)
        record_audit_entry(actor=actor, action="adoption.undo", thing=adoption, before=before)
    adoption.refresh_from_db()
    return adoption


def describe_undo_obstacle(adoption: Adoption) -> str:
    """Describe why an adoption cannot be undone; empty if it can."""
    if adoption.state != AdoptionStates.ADOPTED or adoption.service is None:
        return "This ECS service is not adopted, so there is nothing to undo."
    executions = Execution.objects.filter(pipeline=adoption.pipeline_id) if adoption.pipeline_id else None
    if (executions is not None and executions.exists()) or StageExecution.objects.filter(
        service=adoption.service
    ).exists():
        return _ALREADY_DEPLOYED_REASON
    return ""


def can_undo_adoption(reader: Principal, adoption: Adoption) -> bool:
    """Return whether the reader has the permissions for undoing."""
    parts = ((adoption.service, "core_service_delete"), (adoption.pipeline, "core_pipeline_delete"))
    return can(reader, EDIT_ENVIRONMENT, adoption) and all(
        can(reader, permission, resource) for resource, permission in parts if resource
    )


def _delete_unused(actor: User, pipeline: Pipeline) -> None:
    delete_pipeline(actor=actor, pipeline=pipeline)
    # A pipeline that was just run stays, with its execution.
    if Pipeline.with_deleted.filter(pk=pipeline.pk).exists():
        raise Conflict(_ALREADY_DEPLOYED_REASON)
