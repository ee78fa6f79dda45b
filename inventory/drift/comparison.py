"""Comparison of one ECS service with its desired state."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from guards.text import sanitize_text
from inventory.drift.cursor import DriftCursor
from inventory.drift.desired_state import ClusterDesiredState, DesiredState
from inventory.drift.documents.differences import (
    FieldDifference,
    ServiceDocuments,
    find_aws_defaults,
    find_differences,
)
from inventory.drift.documents.field_rules import SERVICE_DEFINITION
from inventory.drift.running_state import build_running_documents
from inventory.models.drift import DriftComparison, TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord, SyncedCluster

LOCKED_REASON: Final = (
    "An execution has the right to change this ECS service now. It is compared once that has ended and sync "
    "has seen what it left."
)
NOT_DEPLOYED_REASON: Final = "Nothing that Slipway has deployed with success runs here under this name."
INVALID_RESPONSE_REASON: Final = "AWS shows this ECS service in a way that cannot be compared."
_MAX_REASON_LENGTH: Final = 512


@dataclass(frozen=True)
class ComparisonContext:
    """All that is known of one cluster as it is compared."""

    cluster: SyncedCluster
    cursor: DriftCursor
    desired_state: ClusterDesiredState
    revisions: Mapping[str, TaskDefinitionRevision]
    now: datetime


@dataclass(frozen=True)
class ComparisonResult:
    """What was found; without `desired` nothing was compared, and `state` says how that is called."""

    reason: str = ""
    state: DriftComparison.State = DriftComparison.State.NOT_COMPARED
    desired: DesiredState | None = None
    differences: tuple[FieldDifference, ...] = ()


def is_unread_revision(look: ComparisonContext, seen: EcsServiceRecord) -> bool:
    """Whether it runs a revision that the look did not know of when it began."""
    if seen.name in look.desired_state.deploying:
        return False
    desired, arn = look.desired_state.desired.get(seen.name), seen.task_definition
    is_ours = desired is None or arn == desired.revision
    return not is_ours and arn not in look.revisions and arn not in look.cursor.requested_revisions


def compare_service(
    look: ComparisonContext, seen: EcsServiceRecord, comparison: DriftComparison
) -> ComparisonResult:
    """Compare an ECS service; what AWS had chosen for a deployment is noted in `comparison` once."""
    if seen.name in look.desired_state.deploying:
        return ComparisonResult(LOCKED_REASON, DriftComparison.State.DEPLOYING)
    desired = look.desired_state.desired.get(seen.name)
    if desired is None:
        return ComparisonResult(_describe_obstacle(look, seen))
    try:
        return _compare_documents(look, seen, comparison, desired)
    except (ValueError, TypeError, AttributeError, LookupError):
        # Whatever one of them is shown as, the others are compared.
        return ComparisonResult(INVALID_RESPONSE_REASON)


def _describe_obstacle(look: ComparisonContext, seen: EcsServiceRecord) -> str:
    latest = look.desired_state.latest.get(seen.name)
    if latest is None or latest.ecs_service in ("", seen.name):
        return NOT_DEPLOYED_REASON
    return sanitize_text(
        f"It stands beside {latest.ecs_service}, which was deployed last and is compared in its place."
    )[:_MAX_REASON_LENGTH]


def _compare_documents(
    look: ComparisonContext, seen: EcsServiceRecord, comparison: DriftComparison, desired: DesiredState
) -> ComparisonResult:
    found, expected = _build_document_pair(look, seen, desired)
    chosen = comparison.aws_defaults
    if comparison.aws_defaults_deployment != desired.key:
        chosen = find_aws_defaults(expected, found)
    different = [*find_differences(expected, found, chosen=chosen)]
    if not different and seen.task_definition != desired.revision:
        # The same document as another revision: nothing else would tell.
        different.append(
            FieldDifference(SERVICE_DEFINITION, "taskDefinition", desired.revision, seen.task_definition)
        )
    comparison.aws_defaults, comparison.aws_defaults_deployment = chosen, desired.key
    reason = look.cursor.scaling_read_error[:_MAX_REASON_LENGTH]
    return ComparisonResult(reason, desired=desired, differences=tuple(different))


def _build_document_pair(
    look: ComparisonContext, seen: EcsServiceRecord, desired: DesiredState
) -> tuple[ServiceDocuments, ServiceDocuments]:
    """What runs, and what should, of which both are known."""
    revision = look.revisions.get(seen.task_definition)
    is_foreign = seen.task_definition != desired.revision and revision is not None
    definition = json.loads(revision.content) if revision is not None and is_foreign else None
    found = build_running_documents(
        seen,
        task_definition=definition,
        target=look.cursor.targets.get(seen.name),
        policies=look.cursor.policies.get(seen.name, {}),
    )
    expected = desired.documents
    if look.cursor.scaling_read_error:
        expected = ServiceDocuments(expected.task_definition, expected.service, tags=expected.tags)
    elif found.target is not None or expected.target is not None:
        # The count is auto scaling's.
        expected = replace(expected, count=None)
    return found, expected
