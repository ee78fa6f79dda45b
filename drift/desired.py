"""What was deployed to ECS services last: manifests of the step that succeeded, or those taken over."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db.models import Max, Q, QuerySet

from aws.types import tags_from_aws
from deployments.actions.scaling.state import POLICIES, TARGETS
from deployments.models import Execution, Memory, StageExecution, StepExecution
from deployments.states import TERMINAL, Status
from drift.documents.comparing import Documents
from drift.documents.shape import SCALABLE_TARGET, SCALING_POLICY, SERVICE_DEFINITION, TASK_DEFINITION
from drift.models import Adoption
from instances.models import SeenService, SyncedCluster

DEPLOYING: Final = ("EcsRollingDeploy", "EcsBlueGreenCreateService")
SCALES: Final = "EcsScale"
_SUCCEEDED: Final = (Status.SUCCESS, Status.IGNORE_FAILED)
_REMEMBERED: Final = ("task definition", "service definition", TARGETS, POLICIES)
# The ECS services that a deployment makes beside the one of its manifest.
_BESIDE: Final = re.compile(r"(__[12]|__?[Cc]anary)\Z")


@dataclass(frozen=True)
class Desired:
    """What an ECS service should be; `key` tells one deployment from the next.

    `revision` is the ARN of the task definition that was registered.
    """

    documents: Documents
    revision: str
    key: str
    execution: Execution | None = None


@dataclass(frozen=True)
class Wanted:
    """What is known of the ECS services of one cluster, by their names.

    `deploying` are those that an execution is changing now.
    """

    desired: Mapping[str, Desired]
    deploying: frozenset[str]


def base_of(name: str) -> str:
    """The name in the manifest of an ECS service that a strategy made under another: app of app__1."""
    return _BESIDE.sub("", name)


def wanted_of(cluster: SyncedCluster, seen: Sequence[SeenService]) -> Wanted:
    """What was deployed last to each of these ECS services; a fixed number of queries for all of them."""
    names = {one.name for one in seen}
    bases = names | {base_of(name) for name in names}
    stages = StageExecution.objects.filter(
        connector=cluster.connector_id, region=cluster.region, cluster=cluster.cluster, ecs_service__in=bases
    )
    deployed = _deployed(stages)
    found = {**_adopted(seen, {base_of(name) for name in deployed}), **deployed}
    under_way = stages.exclude(execution__status__in=TERMINAL).values_list("ecs_service", flat=True)
    busy = set(under_way.distinct())
    return Wanted(
        {name: one for name, one in found.items() if name in names},
        frozenset(name for name in names if name in busy or base_of(name) in busy),
    )


def _deployed(stages: QuerySet[StageExecution]) -> dict[str, Desired]:
    steps = StepExecution.objects.filter(
        stage__in=stages.filter(status__in=_SUCCEEDED), status__in=_SUCCEEDED
    )
    latest = (
        steps.filter(type__in=DEPLOYING)
        .values("stage__ecs_service")
        .annotate(latest=Max("pk"))
        .values_list("latest", flat=True)
    )
    rows = list(
        StepExecution.objects.filter(pk__in=list(latest)).select_related("stage__execution__pipeline")
    )
    memories = _memories(rows)
    scaled = _scaled(steps, rows)
    found = {}
    for step in rows:
        name = str(step.outputs.get("serviceName", ""))
        kept = memories.get(step.pk, {})
        if name and SERVICE_DEFINITION_MEMORY in kept:
            count = scaled.get((step.pk, name), step.outputs.get("desiredCount"))
            found[name] = _of_step(step, kept, count)
    return found


SERVICE_DEFINITION_MEMORY: Final = "service definition"


def _of_step(step: StepExecution, kept: Mapping[str, Any], count: Any) -> Desired:
    targets, policies = kept.get(TARGETS) or (), kept.get(POLICIES) or ()
    documents = documents_of(
        kept.get("task definition"),
        kept[SERVICE_DEFINITION_MEMORY],
        targets[-1] if targets else None,
        policies,
    )
    documents = replace(documents, count=int(count) if count is not None else documents.count)
    revision = str(step.outputs.get("taskDefinitionArn", ""))
    return Desired(documents, revision, f"step {step.pk} {step.run}", step.stage.execution)


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


def _memories(steps: Sequence[StepExecution]) -> dict[int, dict[str, Any]]:
    runs = {step.pk: step.run for step in steps}
    found: dict[int, dict[str, Any]] = {}
    for one in Memory.objects.filter(step__in=runs, name__in=_REMEMBERED):
        if one.run == runs[one.step_id]:
            found.setdefault(one.step_id, {})[one.name] = json.loads(one.value)
    return found


def _scaled(steps: QuerySet[StepExecution], deploying: Sequence[StepExecution]) -> dict[tuple[int, str], int]:
    """The counts that steps have given ECS services since they were deployed."""
    if not deploying:
        return {}
    since = min(step.pk for step in deploying)
    # A step that scales may stand in a stage of another ECS service of the same cluster.
    here = deploying[0].stage
    rows = StepExecution.objects.filter(
        Q(pk__gt=since),
        type=SCALES,
        status__in=_SUCCEEDED,
        stage__connector=here.connector_id,
        stage__region=here.region,
        stage__cluster=here.cluster,
    ).order_by("pk")
    found = {}
    for row in rows:
        for step in deploying:
            name = step.outputs.get("serviceName")
            if row.pk > step.pk and row.outputs.get("serviceName") == name and "desiredCount" in row.outputs:
                found[step.pk, str(name)] = int(row.outputs["desiredCount"])
    return found


def _adopted(seen: Sequence[SeenService], deployed: Collection[str]) -> dict[str, Desired]:
    """What was taken over; of a pair until the first deployment, which leaves that one behind."""
    rows = Adoption.objects.filter(seen__in=seen, state=Adoption.State.ADOPTED).select_related("seen")
    found = {}
    for row in rows:
        if base_of(row.seen.name) != row.seen.name and base_of(row.seen.name) in deployed:
            continue
        kept = json.loads(row.documents)
        documents = documents_of(
            kept[TASK_DEFINITION],
            kept[SERVICE_DEFINITION],
            kept.get(SCALABLE_TARGET),
            kept.get(SCALING_POLICY) or (),
        )
        found[row.seen.name] = Desired(documents, row.task_definition, f"adoption {row.pk}")
    return found
