"""What ECS services should be: what was last deployed to them with success and stands, or was taken over."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws.types import tags_from_aws
from deployments.models import Execution, Memory
from inventory.drift.changes import Change, Changes
from inventory.drift.documents.comparing import Documents
from inventory.drift.documents.shape import (
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)
from inventory.models.drift import Adoption
from inventory.models.instances import SeenService, SyncedCluster
from steps.actions.scaling.state import POLICIES, TARGETS

_TASK_DEFINITION_MEMORY: Final = "task definition"
_SERVICE_DEFINITION_MEMORY: Final = "service definition"
_REMEMBERED: Final = (_TASK_DEFINITION_MEMORY, _SERVICE_DEFINITION_MEMORY, TARGETS, POLICIES)
# The ECS services that a deployment makes beside the one of its manifest.
_BESIDE: Final = re.compile(r"(__[12]|__?[Cc]anary)\Z")


@dataclass(frozen=True)
class Desired:
    """What an ECS service should be since `at`; `key` tells one deployment from the next.

    `revision` is the ARN of the task definition that was registered, `change` what made it so, if a step did.
    """

    documents: Documents
    revision: str
    key: str
    at: datetime
    change: Change | None = None

    @property
    def execution(self) -> Execution | None:
        return self.change.step.stage.execution if self.change else None


@dataclass(frozen=True)
class Wanted:
    """What is known of the ECS services of one cluster, by their names.

    `deploying` are those that an execution is changing now, `settling` those that were not looked at since
    one has. `latest` is the last change that stands of a slot, also where it made another ECS service
    than this one; `left` the last that did not end well, or was not taken back wholly, where it came later.
    """

    desired: Mapping[str, Desired]
    deploying: frozenset[str]
    settling: frozenset[str]
    latest: Mapping[str, Change]
    left: Mapping[str, Change]


def base_of(name: str) -> str:
    """The name in the manifest of an ECS service that a strategy made under another: app of app__1."""
    return _BESIDE.sub("", name)


def slots_of(name: str) -> frozenset[str]:
    """Under which names executions claim an ECS service: its own, and that of its manifest."""
    return frozenset({name, base_of(name)})


def wanted_of(cluster: SyncedCluster, seen: Sequence[SeenService], began: datetime) -> Wanted:
    """What was deployed last to each of these ECS services; a fixed number of queries for all of them.

    `began` tells since when what scales them was read.
    """
    slots = {one.name: slots_of(one.name) for one in seen}
    looked = {one.name: min(one.seen_at, began) for one in seen}
    names = sorted({name for both in slots.values() for name in both})
    changes = Changes.of(cluster, names, min(looked.values(), default=None))
    latest = {name: found for name in slots if (found := _last(changes.deployed, slots[name], stands=True))}
    made = [change for name, change in latest.items() if change.ecs_service == name]
    # Of a pair that was taken over, the first deployment leaves that one behind.
    adopted = {name: one for name, one in _adopted(seen).items() if not _is_passed(one, latest.get(name))}
    desired = {**_deployed(made), **adopted}
    left = {name: found for name in slots if (found := _last(changes.deployed, slots[name], stands=False))}
    return Wanted(
        {name: _scaled(name, one, changes, slots[name]) for name, one in desired.items()},
        frozenset(name for name in slots if slots[name] & changes.busy),
        frozenset(name for name in slots if _is_settling(looked[name], changes, slots[name])),
        latest,
        {name: one for name, one in left.items() if name not in latest or latest[name].order < one.order},
    )


def _last(changes: Mapping[str, Sequence[Change]], slots: Iterable[str], *, stands: bool) -> Change | None:
    found = [one for slot in slots for one in changes.get(slot, ()) if one.stands == stands]
    return max(found, key=lambda one: one.order, default=None)


def _is_passed(adopted: Desired, latest: Change | None) -> bool:
    """Whether something was deployed at that slot since it was taken over."""
    return latest is not None and latest.ended_at >= adopted.at


def _is_settling(looked: datetime, changes: Changes, slots: Iterable[str]) -> bool:
    """Whether what was seen may be from the middle of a deployment, or of its rollback."""
    return any(changes.let_go[slot] > looked for slot in slots if slot in changes.let_go)


def _deployed(made: Sequence[Change]) -> dict[str, Desired]:
    memories = _memories(made)
    return {
        one.ecs_service: _of_change(one, kept)
        for one in made
        if _SERVICE_DEFINITION_MEMORY in (kept := memories.get(one.step.pk, {}))
    }


def _of_change(change: Change, kept: Mapping[str, Any]) -> Desired:
    step, targets, policies = change.step, kept.get(TARGETS) or (), kept.get(POLICIES) or ()
    documents = documents_of(
        kept.get(_TASK_DEFINITION_MEMORY),
        kept[_SERVICE_DEFINITION_MEMORY],
        targets[-1] if targets else None,
        policies,
    )
    revision = str(step.outputs.get("taskDefinitionArn", ""))
    found = Desired(documents, revision, f"step {step.pk} {step.run}", change.ended_at, change)
    return _with_count(found, step.outputs.get("desiredCount"))


def _with_count(desired: Desired, count: Any) -> Desired:
    if count is None:
        return desired
    return replace(desired, documents=replace(desired.documents, count=int(count)))


def _scaled(name: str, desired: Desired, changes: Changes, slots: Iterable[str]) -> Desired:
    """With the count that a step has given the ECS service since."""
    later = [
        one
        for slot in slots
        for one in changes.scaled.get(slot, ())
        if one.stands and one.ecs_service == name and _is_later(one, desired)
    ]
    last = max(later, key=lambda one: one.order, default=None)
    return _with_count(desired, last.step.outputs.get("desiredCount")) if last else desired


def _is_later(change: Change, desired: Desired) -> bool:
    return change.order > desired.change.order if desired.change else change.ended_at > desired.at


def documents_of(
    task_definition: Mapping[str, Any] | None,
    service: Mapping[str, Any],
    target: Mapping[str, Any] | None,
    policies: Iterable[Mapping[str, Any]],
) -> Documents:
    """The documents of manifests."""
    count = service.get("desiredCount")
    return Documents(
        task_definition=task_definition,
        service=service,
        count=int(count) if count is not None else None,
        target=target,
        policies={str(one.get("PolicyName", "")): one for one in policies},
        tags=tags_from_aws(service.get("tags")),
    )


def _memories(made: Sequence[Change]) -> dict[int, dict[str, Any]]:
    runs = {one.step.pk: one.step.run for one in made}
    found: dict[int, dict[str, Any]] = {}
    for one in Memory.objects.filter(step__in=runs, name__in=_REMEMBERED):
        if one.run == runs[one.step_id]:
            found.setdefault(one.step_id, {})[one.name] = json.loads(one.value)
    return found


def _adopted(seen: Sequence[SeenService]) -> dict[str, Desired]:
    rows = Adoption.objects.filter(seen__in=seen, state=Adoption.State.ADOPTED).select_related("seen")
    found = {}
    for row in rows:
        kept = json.loads(row.documents)
        documents = documents_of(
            kept[TASK_DEFINITION],
            kept[SERVICE_DEFINITION],
            kept.get(SCALABLE_TARGET),
            kept.get(SCALING_POLICY) or (),
        )
        at = row.adopted_at or row.asked_at
        found[row.seen.name] = Desired(documents, row.task_definition, f"adoption {row.pk}", at)
    return found
