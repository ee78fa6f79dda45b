"""Running state of ECS services as documents, from rows of sync and responses of the drift scan."""

from collections.abc import Mapping
from typing import Any

from aws.apis.ecs_types import EcsService, parse_tags
from inventory.drift.documents.differences import ServiceDocuments
from inventory.models.instances import EcsServiceRecord
from steps.actions.ecs_service.update_fields import merge_deployment_fields


def build_running_documents(
    ecs_service: EcsServiceRecord,
    *,
    task_definition: Mapping[str, Any] | None,
    target: Mapping[str, Any] | None,
    policies: Mapping[str, Mapping[str, Any]],
) -> ServiceDocuments:
    """Return the documents of an ECS service as AWS describes it; `task_definition` is None if unknown."""
    live = EcsService.from_aws(ecs_service.description)
    raw = merge_deployment_fields(live)
    if "roleArn" in raw:
        raw["role"] = raw["roleArn"]
    return ServiceDocuments(
        task_definition=task_definition,
        service=raw,
        count=None if target is not None else live.desired,
        target=target,
        policies=policies,
        tags=parse_tags(raw.get("tags")),
    )
