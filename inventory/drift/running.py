"""What runs, as documents: from the rows of sync, and what the look has read besides."""

from collections.abc import Mapping
from typing import Any

from aws.types import EcsService, tags_from_aws
from inventory.drift.documents.comparing import Documents
from inventory.models.instances import SeenService
from steps.actions.service_fields import with_deployment_fields


def running_documents(
    seen: SeenService,
    *,
    task_definition: Mapping[str, Any] | None,
    target: Mapping[str, Any] | None,
    policies: Mapping[str, Mapping[str, Any]],
) -> Documents:
    """An ECS service as AWS shows it; without `task_definition` where it is not to be compared."""
    live = EcsService.from_aws(seen.answered)
    raw = with_deployment_fields(live)
    if "roleArn" in raw:
        raw["role"] = raw["roleArn"]
    return Documents(
        task_definition=task_definition,
        service=raw,
        count=None if target is not None else live.desired,
        target=target,
        policies=policies,
        tags=tags_from_aws(raw.get("tags")),
    )
