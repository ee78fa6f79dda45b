"""Comparison of one ECS service with its desired state."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws.apis.ecs_types import EcsService, parse_tags
from guards.text import sanitize_text
from inventory.drift.cursor import DriftCursor
from inventory.drift.desired_state import ClusterDesiredState, DesiredState
from inventory.drift.documents.differences import (
    FieldDifference,
    ServiceDocuments,
    find_aws_defaults,
    find_differences,
)
from inventory.drift.documents.field_rules import SCALABLE_TARGET, SCALING_POLICY, SERVICE_DEFINITION
from inventory.models.drift import Drift, DriftComparison, TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from steps.actions.ecs_service.daemons import is_daemon
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
        # ECS sets the count of a DAEMON service to that of its container instances.
        count=None if target is not None or is_daemon(raw) else live.desired,
        target=target,
        policies=policies,
        tags=parse_tags(raw.get("tags")),
    )


LOCKED_REASON: Final = (
    "An execution holds the service lock of this ECS service. It is compared after the execution ends "
    "and the next sync completes."
)
NOT_DEPLOYED_REASON: Final = "This ECS service has no successful deployment by Slipway."
INVALID_RESPONSE_REASON: Final = "AWS returned this ECS service in a form that cannot be compared."
_MAX_REASON_LENGTH: Final = 512


@dataclass(frozen=True)
class ComparisonContext:
    """The data that the comparison of one cluster uses."""

    cluster: SyncedCluster
    cursor: DriftCursor
    desired_state: ClusterDesiredState
    revisions: Mapping[str, TaskDefinitionRevision]
    now: datetime


@dataclass(frozen=True)
class ComparisonResult:
    """Result of a comparison; without `desired`, `state` gives the obstacle."""

    reason: str = ""
    state: DriftComparison.State = DriftComparison.State.NOT_COMPARED
    desired: DesiredState | None = None
    differences: tuple[FieldDifference, ...] = ()


def is_unread_revision(context: ComparisonContext, ecs_service: EcsServiceRecord) -> bool:
    """Return whether the service runs a revision that is newer than the start of the scan."""
    if ecs_service.name in context.desired_state.deploying:
        return False
    desired, arn = context.desired_state.desired.get(ecs_service.name), ecs_service.task_definition
    is_deployed = desired is None or arn == desired.revision
    return not is_deployed and arn not in context.revisions and arn not in context.cursor.requested_revisions


def compare_service(
    context: ComparisonContext, ecs_service: EcsServiceRecord, comparison: DriftComparison
) -> ComparisonResult:
    """Compare an ECS service, and store the AWS defaults of a new deployment in `comparison`.

    The defaults of auto scaling are stored by the first comparison that could read it.
    """
    if ecs_service.name in context.desired_state.deploying:
        return ComparisonResult(LOCKED_REASON, DriftComparison.State.DEPLOYING)
    desired = context.desired_state.desired.get(ecs_service.name)
    if desired is None:
        return ComparisonResult(_describe_obstacle(context, ecs_service))
    try:
        return _compare_documents(context, ecs_service, comparison, desired)
    except (ValueError, TypeError, AttributeError, LookupError):
        # One malformed response must not stop the other comparisons.
        return ComparisonResult(INVALID_RESPONSE_REASON)


def _describe_obstacle(context: ComparisonContext, ecs_service: EcsServiceRecord) -> str:
    latest = context.desired_state.latest.get(ecs_service.name)
    if latest is None or latest.ecs_service in ("", ecs_service.name):
        return NOT_DEPLOYED_REASON
    return sanitize_text(f"The last deployment went to {latest.ecs_service}, which is compared instead.")[
        :_MAX_REASON_LENGTH
    ]


def _compare_documents(
    context: ComparisonContext,
    ecs_service: EcsServiceRecord,
    comparison: DriftComparison,
    desired: DesiredState,
) -> ComparisonResult:
    actual, expected = _build_document_pair(context, ecs_service, desired)
    aws_defaults = comparison.aws_defaults if comparison.aws_defaults_deployment == desired.key else {}
    has_scaling = not context.cursor.scaling_read_error
    if not aws_defaults or (has_scaling and SCALABLE_TARGET not in aws_defaults):
        found = find_aws_defaults(expected, actual)
        aws_defaults = _select_known_kinds(found, has_scaling=has_scaling) | aws_defaults
    used = _select_known_kinds(aws_defaults, has_scaling=has_scaling)
    differences = [*find_differences(expected, actual, aws_defaults=used)]
    if not differences and ecs_service.task_definition != desired.revision:
        # Only the revision shows that an equal task definition was registered again.
        differences.append(
            FieldDifference(
                SERVICE_DEFINITION, "taskDefinition", desired.revision, ecs_service.task_definition
            )
        )
    comparison.aws_defaults, comparison.aws_defaults_deployment = aws_defaults, desired.key
    reason = context.cursor.scaling_read_error[:_MAX_REASON_LENGTH]
    return ComparisonResult(reason, desired=desired, differences=tuple(differences))


def _select_known_kinds(aws_defaults: Mapping[str, Any], *, has_scaling: bool) -> dict[str, Any]:
    """Return the AWS defaults, without those of auto scaling if it could not be read."""
    unread = () if has_scaling else (SCALABLE_TARGET, SCALING_POLICY)
    return {kind: values for kind, values in aws_defaults.items() if kind not in unread}


def is_unread(context: ComparisonContext, drift: Drift) -> bool:
    """Return whether a scan without auto scaling could not compare the field of a drift.

    Auto scaling may own the desired count.
    """
    is_scaling = drift.document in (SCALABLE_TARGET, SCALING_POLICY)
    is_count = (drift.document, drift.path) == (SERVICE_DEFINITION, "desiredCount")
    return bool(context.cursor.scaling_read_error) and (is_scaling or is_count)


def _build_document_pair(
    context: ComparisonContext, ecs_service: EcsServiceRecord, desired: DesiredState
) -> tuple[ServiceDocuments, ServiceDocuments]:
    """Return the running and the expected documents, without the parts that either side lacks."""
    revision = context.revisions.get(ecs_service.task_definition)
    is_foreign = ecs_service.task_definition != desired.revision and revision is not None
    definition = json.loads(revision.content) if revision is not None and is_foreign else None
    actual = build_running_documents(
        ecs_service,
        task_definition=definition,
        target=context.cursor.targets.get(ecs_service.name),
        policies=context.cursor.policies.get(ecs_service.name, {}),
    )
    expected = desired.documents
    if context.cursor.scaling_read_error:
        expected = ServiceDocuments(expected.task_definition, expected.service, tags=expected.tags)
    elif actual.target is not None or expected.target is not None:
        # Auto scaling owns the desired count.
        expected = replace(expected, count=None)
    return actual, expected
