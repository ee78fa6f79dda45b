"""Desired state of ECS services: the last effective deployment, or the adopted documents."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws.apis.ecs_types import parse_tags
from deployments.models import Execution, RollbackValue
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
# The ECS services that a deployment makes beside the one of its manifest.
_NAME_SUFFIX: Final = re.compile(r"(__[12]|__?[Cc]anary)\Z")


@dataclass(frozen=True)
class DesiredState:
    """What an ECS service should be since `at`; `key` tells one deployment from the next.

    `revision` is the ARN of the task definition that was registered, `change` what made it so, if a step did.
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
    """What is known of the ECS services of one cluster, by their names.

    `deploying` are those that an execution is changing now, `settling` those that were not looked at since
    one has. `latest` is the last change that stands of a slot, also where it made another ECS service
    than this one; `left` the last that did not end well, or was not taken back wholly, where it came later.
    """

    desired: Mapping[str, DesiredState]
    deploying: frozenset[str]
    settling: frozenset[str]
    latest: Mapping[str, ExecutionChange]
    failed_changes: Mapping[str, ExecutionChange]


def strip_name_suffix(name: str) -> str:
    """The name in the manifest of an ECS service that a strategy made under another: app of app__1."""
    return _NAME_SUFFIX.sub("", name)


def list_lock_names(name: str) -> frozenset[str]:
    """Under which names executions claim an ECS service: its own, and that of its manifest."""
    return frozenset({name, strip_name_suffix(name)})


def get_desired_state(
    cluster: SyncedCluster, seen: Sequence[EcsServiceRecord], began: datetime
) -> ClusterDesiredState:
    """What was deployed last to each of these ECS services; a fixed number of queries for all of them.

    `began` tells since when what scales them was read.
    """
    slots = {one.name: list_lock_names(one.name) for one in seen}
    looked = {one.name: min(one.seen_at, began) for one in seen}
    names = sorted({name for both in slots.values() for name in both})
    changes = ExecutionChanges.of(cluster, names, min(looked.values(), default=None))
    latest = {
        name: found
        for name in slots
        if (found := _get_last_change(changes.deployed, slots[name], stands=True))
    }
    made = [change for name, change in latest.items() if change.ecs_service == name]
    # Of a pair that was taken over, the first deployment leaves that one behind.
    adopted = {
        name: one
        for name, one in _read_adopted_states(seen).items()
        if not _is_superseded(one, latest.get(name))
    }
    desired = {**_read_deployed_states(made), **adopted}
    left = {
        name: found
        for name in slots
        if (found := _get_last_change(changes.deployed, slots[name], stands=False))
    }
    return ClusterDesiredState(
        {name: _apply_scale_step(name, one, changes, slots[name]) for name, one in desired.items()},
        frozenset(name for name in slots if slots[name] & changes.locked),
        frozenset(name for name in slots if _is_settling(looked[name], changes, slots[name])),
        latest,
        {name: one for name, one in left.items() if name not in latest or latest[name].order < one.order},
    )


def _get_last_change(
    changes: Mapping[str, Sequence[ExecutionChange]], slots: Iterable[str], *, stands: bool
) -> ExecutionChange | None:
    found = [one for slot in slots for one in changes.get(slot, ()) if one.is_effective == stands]
    return max(found, key=lambda one: one.order, default=None)


def _is_superseded(adopted: DesiredState, latest: ExecutionChange | None) -> bool:
    """Whether something was deployed at that slot since it was taken over."""
    return latest is not None and latest.ended_at >= adopted.at


def _is_settling(looked: datetime, changes: ExecutionChanges, slots: Iterable[str]) -> bool:
    """Whether what was seen may be from the middle of a deployment, or of its rollback."""
    return any(changes.released_at[slot] > looked for slot in slots if slot in changes.released_at)


def _read_deployed_states(made: Sequence[ExecutionChange]) -> dict[str, DesiredState]:
    memories = _read_rollback_values(made)
    return {
        one.ecs_service: _build_desired_state(one, kept)
        for one in made
        if _SERVICE_DEFINITION_KEY in (kept := memories.get(one.step.pk, {}))
    }


def _build_desired_state(change: ExecutionChange, kept: Mapping[str, Any]) -> DesiredState:
    step, targets, policies = change.step, kept.get(SCALABLE_TARGETS) or (), kept.get(SCALING_POLICIES) or ()
    documents = build_documents(
        kept.get(_TASK_DEFINITION_KEY),
        kept[_SERVICE_DEFINITION_KEY],
        targets[-1] if targets else None,
        policies,
    )
    revision = str(step.outputs.get("taskDefinitionArn", ""))
    found = DesiredState(documents, revision, f"step {step.pk} {step.run}", change.ended_at, change)
    return _replace_count(found, step.outputs.get("desiredCount"))


def _replace_count(desired: DesiredState, count: Any) -> DesiredState:
    if count is None:
        return desired
    return replace(desired, documents=replace(desired.documents, count=int(count)))


def _apply_scale_step(
    name: str, desired: DesiredState, changes: ExecutionChanges, slots: Iterable[str]
) -> DesiredState:
    """With the count that a step has given the ECS service since."""
    later = [
        one
        for slot in slots
        for one in changes.scaled.get(slot, ())
        if one.is_effective and one.ecs_service == name and _is_later(one, desired)
    ]
    last = max(later, key=lambda one: one.order, default=None)
    return _replace_count(desired, last.step.outputs.get("desiredCount")) if last else desired


def _is_later(change: ExecutionChange, desired: DesiredState) -> bool:
    return change.order > desired.change.order if desired.change else change.ended_at > desired.at


def build_documents(
    task_definition: Mapping[str, Any] | None,
    service: Mapping[str, Any],
    target: Mapping[str, Any] | None,
    policies: Iterable[Mapping[str, Any]],
) -> ServiceDocuments:
    """The documents of manifests."""
    count = service.get("desiredCount")
    return ServiceDocuments(
        task_definition=task_definition,
        service=service,
        count=int(count) if count is not None else None,
        target=target,
        policies={str(one.get("PolicyName", "")): one for one in policies},
        tags=parse_tags(service.get("tags")),
    )


def _read_rollback_values(made: Sequence[ExecutionChange]) -> dict[int, dict[str, Any]]:
    runs = {one.step.pk: one.step.run for one in made}
    found: dict[int, dict[str, Any]] = {}
    for one in RollbackValue.objects.filter(step__in=runs, name__in=_ROLLBACK_KEYS):
        if one.run == runs[one.step_id]:
            found.setdefault(one.step_id, {})[one.name] = json.loads(one.value)
    return found


def _read_adopted_states(seen: Sequence[EcsServiceRecord]) -> dict[str, DesiredState]:
    rows = Adoption.objects.filter(ecs_service__in=seen, state=Adoption.State.ADOPTED).select_related(
        "ecs_service"
    )
    found = {}
    for row in rows:
        kept = json.loads(row.documents)
        documents = build_documents(
            kept[TASK_DEFINITION],
            kept[SERVICE_DEFINITION],
            kept.get(SCALABLE_TARGET),
            kept.get(SCALING_POLICY) or (),
        )
        at = row.adopted_at or row.requested_at
        found[row.ecs_service.name] = DesiredState(documents, row.task_definition, f"adoption {row.pk}", at)
    return found
