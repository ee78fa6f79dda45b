"""Desired state of ECS services: the last effective deployment, or the adopted documents."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws.apis.ecs_types import parse_tags
from deployments.models import Execution, RollbackValue, StepExecution
from inventory.drift.documents.differences import ServiceDocuments
from inventory.drift.documents.field_rules import (
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)
from inventory.drift.service_changes import ExecutionChange, ExecutionChanges
from inventory.models.adoption import Adoption
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from steps.actions.scaling_state import SCALABLE_TARGETS, SCALING_POLICIES

_TASK_DEFINITION_KEY: Final = "task definition"
_SERVICE_DEFINITION_KEY: Final = "service definition"
_ROLLBACK_KEYS: Final = (_TASK_DEFINITION_KEY, _SERVICE_DEFINITION_KEY, SCALABLE_TARGETS, SCALING_POLICIES)
# The suffixes of the extra ECS services of blue/green and canary deployments.
_NAME_SUFFIX: Final = re.compile(r"(__[12]|__?[Cc]anary)\Z")


@dataclass(frozen=True)
class DesiredState:
    """The desired state of an ECS service since `at`; `key` identifies the deployment.

    `revision` is the ARN of the registered task definition, `change` the step that deployed it, if any.
    """

    documents: ServiceDocuments
    revision: str
    key: str
    at: datetime
    change: ExecutionChange | None = None

    @property
    def execution(self) -> Execution | None:
        return self.change.step.stage.execution if self.change else None


@dataclass(frozen=True)
class ClusterDesiredState:
    """The desired state of the ECS services of one cluster, by name.

    `deploying` services are being changed by an execution, `settling` ones have not been read since one.
    `latest` is the last effective change of each lock, `failed_changes` the last later one that failed or
    was not fully rolled back.
    """

    desired: Mapping[str, DesiredState]
    deploying: frozenset[str]
    settling: frozenset[str]
    latest: Mapping[str, ExecutionChange]
    failed_changes: Mapping[str, ExecutionChange]


def strip_name_suffix(name: str) -> str:
    """Return the manifest's name of an ECS service that a strategy created: app for app__1."""
    return _NAME_SUFFIX.sub("", name)


def list_lock_names(name: str) -> frozenset[str]:
    """Return the names under which executions lock an ECS service: its own and the manifest's."""
    return frozenset({name, strip_name_suffix(name)})


def get_desired_state(
    cluster: SyncedCluster, ecs_services: Sequence[EcsServiceRecord], started_at: datetime
) -> ClusterDesiredState:
    """Return the last deployment of each of these ECS services; a fixed number of queries.

    `started_at` is when auto scaling was read.
    """
    lock_names = {entry.name: list_lock_names(entry.name) for entry in ecs_services}
    read_at = {entry.name: min(entry.seen_at, started_at) for entry in ecs_services}
    names = sorted({name for pair in lock_names.values() for name in pair})
    changes = ExecutionChanges.of(cluster, names, min(read_at.values(), default=None))
    latest = {
        name: last_change
        for name in lock_names
        if (last_change := _get_last_change(changes.deployed, lock_names[name], is_effective=True))
    }
    deployed = [change for name, change in latest.items() if change.ecs_service == name]
    # The first deployment of an adopted pair leaves the adopted half behind.
    adopted = {
        name: entry
        for name, entry in _read_adopted_states(ecs_services).items()
        if not _is_superseded(entry, latest.get(name))
    }
    desired = {**_read_deployed_states(deployed), **adopted}
    failed = {
        name: last_change
        for name in lock_names
        if (last_change := _get_last_change(changes.deployed, lock_names[name], is_effective=False))
    }
    return ClusterDesiredState(
        {name: _apply_scale_step(name, entry, changes, lock_names[name]) for name, entry in desired.items()},
        frozenset(name for name in lock_names if lock_names[name] & changes.locked),
        frozenset(name for name in lock_names if _is_settling(read_at[name], changes, lock_names[name])),
        latest,
        {
            name: entry
            for name, entry in failed.items()
            if name not in latest or latest[name].order < entry.order
        },
    )


def _get_last_change(
    changes: Mapping[str, Sequence[ExecutionChange]], lock_names: Iterable[str], *, is_effective: bool
) -> ExecutionChange | None:
    candidates = [
        change
        for name in lock_names
        for change in changes.get(name, ())
        if change.is_effective == is_effective
    ]
    return max(candidates, key=lambda change: change.order, default=None)


def _is_superseded(adopted: DesiredState, latest: ExecutionChange | None) -> bool:
    """Return whether something was deployed to the lock after the adoption."""
    return latest is not None and latest.ended_at >= adopted.at


def _is_settling(read_at: datetime, changes: ExecutionChanges, lock_names: Iterable[str]) -> bool:
    """Return whether the read may show the middle of a deployment or rollback."""
    return any(changes.released_at[name] > read_at for name in lock_names if name in changes.released_at)


def _read_deployed_states(changes: Sequence[ExecutionChange]) -> dict[str, DesiredState]:
    values_by_step = _read_rollback_values([change.step for change in changes])
    return {
        change.ecs_service: _build_desired_state(change, values)
        for change in changes
        if _SERVICE_DEFINITION_KEY in (values := values_by_step.get(change.step.pk, {}))
    }


def _build_desired_state(change: ExecutionChange, values: Mapping[str, Any]) -> DesiredState:
    step, documents = change.step, _build_saved_documents(values)
    revision = str(step.outputs.get("taskDefinitionArn", ""))
    state = DesiredState(documents, revision, f"step {step.pk} {step.run}", change.ended_at, change)
    return _replace_count(state, step.outputs.get("desiredCount"))


def read_step_documents(steps: Sequence[StepExecution]) -> dict[int, ServiceDocuments]:
    """Return the documents that the last run of each step deployed, by its key; one query."""
    values_by_step = _read_rollback_values(steps)
    return {
        pk: _build_saved_documents(values)
        if _SERVICE_DEFINITION_KEY in values
        else ServiceDocuments(values.get(_TASK_DEFINITION_KEY))
        for pk, values in values_by_step.items()
    }


def _build_saved_documents(values: Mapping[str, Any]) -> ServiceDocuments:
    targets = values.get(SCALABLE_TARGETS) or ()
    return build_documents(
        values.get(_TASK_DEFINITION_KEY),
        values[_SERVICE_DEFINITION_KEY],
        targets[-1] if targets else None,
        values.get(SCALING_POLICIES) or (),
    )


def _replace_count(desired: DesiredState, count: Any) -> DesiredState:
    if count is None:
        return desired
    return replace(desired, documents=replace(desired.documents, count=int(count)))


def _apply_scale_step(
    name: str, desired: DesiredState, changes: ExecutionChanges, lock_names: Iterable[str]
) -> DesiredState:
    """Apply the count that a later scale step set."""
    later = [
        change
        for lock_name in lock_names
        for change in changes.scaled.get(lock_name, ())
        if change.is_effective and change.ecs_service == name and _is_later(change, desired)
    ]
    last = max(later, key=lambda change: change.order, default=None)
    return _replace_count(desired, last.step.outputs.get("desiredCount")) if last else desired


def _is_later(change: ExecutionChange, desired: DesiredState) -> bool:
    return change.order > desired.change.order if desired.change else change.ended_at > desired.at


def build_documents(
    task_definition: Mapping[str, Any] | None,
    service: Mapping[str, Any],
    target: Mapping[str, Any] | None,
    policies: Iterable[Mapping[str, Any]],
) -> ServiceDocuments:
    """Build the documents of these manifests."""
    count = service.get("desiredCount")
    return ServiceDocuments(
        task_definition=task_definition,
        service=service,
        count=int(count) if count is not None else None,
        target=target,
        policies={str(policy.get("PolicyName", "")): policy for policy in policies},
        tags=parse_tags(service.get("tags")),
    )


def _read_rollback_values(steps: Sequence[StepExecution]) -> dict[int, dict[str, Any]]:
    runs = {step.pk: step.run for step in steps}
    by_step: dict[int, dict[str, Any]] = {}
    for row in RollbackValue.objects.filter(step__in=runs, name__in=_ROLLBACK_KEYS):
        if row.run == runs[row.step_id]:
            by_step.setdefault(row.step_id, {})[row.name] = json.loads(row.value)
    return by_step


def _read_adopted_states(ecs_services: Sequence[EcsServiceRecord]) -> dict[str, DesiredState]:
    rows = Adoption.objects.filter(ecs_service__in=ecs_services, state=Adoption.State.ADOPTED).select_related(
        "ecs_service"
    )
    states = {}
    for row in rows:
        manifests = json.loads(row.documents)
        documents = build_documents(
            manifests[TASK_DEFINITION],
            manifests[SERVICE_DEFINITION],
            manifests.get(SCALABLE_TARGET),
            manifests.get(SCALING_POLICY) or (),
        )
        at = row.adopted_at or row.requested_at
        states[row.ecs_service.name] = DesiredState(documents, row.task_definition, f"adoption {row.pk}", at)
    return states
