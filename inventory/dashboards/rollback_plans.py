"""Plans of rollbacks to earlier deployments: what runs, what would run, and what prevents it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef, QuerySet

from catalog.manifests.stores import TASK_DEFINITION_ARN
from catalog.models import Service
from deployments.execution.planning.rollback_to_earlier import EarlierManifests, find_earlier_manifests
from deployments.execution.planning.run_requests import validate_run
from deployments.execution.queries import SUCCEEDED
from deployments.freezes.operations import can_view_freezes, list_active_windows, list_execution_targets
from deployments.models import Execution, StageExecution, StepExecution
from inventory.dashboards.deployment_differences import (
    VersionDifference,
    compare_versions,
    load_deployed_documents,
    load_secret_mask,
)
from inventory.dashboards.running_services import format_revision
from inventory.drift.desired_state import strip_name_suffix
from inventory.drift.documents.differences import ServiceDocuments
from inventory.models.drift import DriftComparison, TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord
from inventory.queries.freshness import STALE_AFTER
from inventory.queries.service_deployments import get_latest_deployment, list_active_deployments
from rbac.models import User
from rbac.policy import Forbidden, NotVisible, can, filter_visible
from steps.states import Status
from web.clock import get_database_time
from web.http.problems import Problem

RUN_PIPELINE: Final = "core_pipeline_execute"
VIEW_ENVIRONMENT: Final = "core_environment_view"
_MAX_ERRORS: Final = 5


@dataclass(frozen=True)
class Obstacle:
    """Reason why a deployment cannot be restored, and the remedy."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class LiveVersion:
    """Task definition that runs as far as it is known, with the deployment that it came from.

    `unknown` says what is not known, and why; empty if everything is.
    """

    task_definition: str = ""
    documents: ServiceDocuments | None = None
    deployment: StageExecution | None = None
    ecs_service: EcsServiceRecord | None = None
    unknown: str = ""
    notes: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        return format_revision(self.task_definition)

    @property
    def read_at(self) -> datetime | None:
        return self.ecs_service.confirmed_at if self.ecs_service else None


@dataclass(frozen=True)
class RollbackPlan:
    """Rollback to `target`, compared with the running version or else with the deployment `baseline`."""

    target: StageExecution
    live: LiveVersion
    baseline: StageExecution | None = None
    difference: VersionDifference | None = None
    undiffed: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    notes: tuple[str, ...] = ()
    other_stages: tuple[StageExecution, ...] = field(default=())

    @property
    def is_possible(self) -> bool:
        return not self.obstacles


def can_redeploy(deployment: StageExecution) -> bool:
    """Return whether a deployment succeeded, so that it can be repeated."""
    return deployment.execution.has_succeeded and deployment.status != Status.SKIPPED


def list_restorable_deployments(
    deployments: QuerySet[StageExecution], infrastructure: int
) -> QuerySet[StageExecution]:
    """Return the successful deployments to an infrastructure, those of `can_redeploy`."""
    # EXISTS, as SQLite would begin with all successful executions.
    is_successful = Exists(Execution.objects.filter(SUCCEEDED, pk=OuterRef("execution_id")))
    return deployments.filter(is_successful, infrastructure=infrastructure).exclude(status=Status.SKIPPED)


def build_rollback_plan(
    principal: User, service: Service, deployments: QuerySet[StageExecution], target: StageExecution
) -> RollbackPlan:
    """Return the plan for a deployment of `deployments`, the visible ones of the service.

    The number of queries is fixed.
    """
    live = load_live_version(principal, service, deployments, target)
    stages = list(target.execution.stages.order_by("position"))
    manifests = find_earlier_manifests(target.execution) if can_redeploy(target) else EarlierManifests()
    baseline = live.deployment
    if live.documents is None:
        baseline = get_latest_deployment(deployments, target)
    compared = [target] if baseline is None else [baseline, target]
    known = load_deployed_documents(compared)
    old = live.documents or (known.get(baseline.pk) if baseline else None)
    new = known.get(target.pk)
    difference = compare_versions(old, new, load_secret_mask(compared)) if old and new else None
    return RollbackPlan(
        target,
        live,
        baseline,
        difference,
        "" if difference else _describe_missing_documents(target, baseline, is_target_known=new is not None),
        tuple(_find_obstacles(principal, target, stages, manifests)),
        (*live.notes, *_list_notes(principal, deployments, target, manifests)),
        tuple(stage for stage in stages if stage.pk != target.pk),
    )


def _describe_missing_documents(
    target: StageExecution, baseline: StageExecution | None, *, is_target_known: bool
) -> str:
    if not is_target_known:
        return (
            f"The task definition that #{target.execution.number} deployed is not stored, so it cannot be "
            "compared. The rollback renders it again from the manifests of that execution."
        )
    if baseline is None:
        return "No running version and no earlier deployment is known to compare with."
    return f"The task definition that #{baseline.execution.number} deployed is not stored."


def find_live_services(principal: User, service: Service, target: StageExecution) -> list[EcsServiceRecord]:
    """Return the ECS services of the target's place that have tasks or should have some; one query.

    A blue/green deployment has two ECS services, of which both may run.
    """
    rows = EcsServiceRecord.objects.filter(
        service=service, infrastructure=target.infrastructure_id, gone_at=None
    ).select_related("cluster", "comparison")
    name = strip_name_suffix(target.ecs_service)
    return [
        row
        for row in filter_visible(principal, VIEW_ENVIRONMENT, rows).order_by("name")
        if (row.desired or row.running) and name in ("", strip_name_suffix(row.name))
    ]


def get_live_task_definition(ecs_services: Sequence[EcsServiceRecord]) -> str:
    """Return the ARN of the task definition that runs, or an empty text while it is not known for sure."""
    return ecs_services[0].task_definition if len(ecs_services) == 1 else ""


def load_live_version(
    principal: User, service: Service, deployments: QuerySet[StageExecution], target: StageExecution
) -> LiveVersion:
    """Return the running version; what sync does not know stays unknown."""
    ecs_services = find_live_services(principal, service, target)
    if not ecs_services:
        return LiveVersion(unknown=_describe_missing_service(principal, target))
    if len(ecs_services) > 1:
        names = " and ".join(f"{row.name} ({format_revision(row.task_definition)})" for row in ecs_services)
        return LiveVersion(unknown=f"Several ECS services run: {names}.")
    (ecs_service,) = ecs_services
    arn = ecs_service.task_definition
    documents, deployment = _load_live_documents(deployments, ecs_service)
    unknown = ""
    if documents is None:
        unknown = (
            f"{format_revision(arn) or 'The running task definition'} was not registered by a deployment "
            "that you may view, and no drift check has read it yet."
        )
    return LiveVersion(arn, documents, deployment, ecs_service, unknown, tuple(_list_live_notes(ecs_service)))


def _describe_missing_service(principal: User, target: StageExecution) -> str:
    infrastructure = target.infrastructure
    if infrastructure is None:
        return "The infrastructure of this deployment was deleted."
    if not can(principal, VIEW_ENVIRONMENT, infrastructure.environment):
        return f"You need {VIEW_ENVIRONMENT} on the environment {infrastructure.environment.identifier}."
    return "No sync has read a running ECS service of this service there."


def _load_live_documents(
    deployments: QuerySet[StageExecution], ecs_service: EcsServiceRecord
) -> tuple[ServiceDocuments | None, StageExecution | None]:
    """Return the documents of the running revision: those of its deployment, or as AWS described it."""
    deployment = find_deployment_of_revision(deployments, ecs_service)
    if deployment is not None:
        documents = load_deployed_documents([deployment]).get(deployment.pk)
        if documents is not None:
            return documents, deployment
    revision = TaskDefinitionRevision.objects.filter(arn=ecs_service.task_definition).first()
    return (ServiceDocuments(json.loads(revision.content)) if revision else None), deployment


def find_deployment_of_revision(
    deployments: QuerySet[StageExecution], ecs_service: EcsServiceRecord
) -> StageExecution | None:
    """Return the newest deployment that used the running task definition; one query."""
    # Of one stage after the other, the newest first: no index has the outputs of all steps.
    steps = StepExecution.objects.filter(
        stage=OuterRef("pk"),
        outputs__taskDefinitionArn=ecs_service.task_definition,
        status=Status.SUCCESS,
    )
    rows = deployments.filter(Exists(steps), infrastructure=ecs_service.infrastructure_id)
    return rows.order_by("-pk").first() if ecs_service.task_definition else None


def _list_live_notes(ecs_service: EcsServiceRecord) -> Iterable[str]:
    if ecs_service.confirmed_at < get_database_time() - STALE_AFTER:
        yield (
            f"The last sync read {ecs_service.name} at {ecs_service.confirmed_at:%Y-%m-%d %H:%M} UTC. "
            "What runs may have changed since."
        )
    rollouts = ecs_service.description.get("deployments")
    if isinstance(rollouts, list) and len(rollouts) > 1:
        yield f"ECS is replacing tasks of {ecs_service.name} now; older task definitions still run too."
    comparison = getattr(ecs_service, "comparison", None)
    if comparison is not None and comparison.state == DriftComparison.State.DRIFTED:
        yield f"{ecs_service.name} was changed outside Slipway; see its drift. A rollback applies manifests."


def _find_obstacles(
    principal: User, target: StageExecution, stages: Sequence[StageExecution], manifests: EarlierManifests
) -> Iterable[Obstacle]:
    """Yield what prevents the rollback, by the rules of the run that it starts."""
    execution = target.execution
    if not can_redeploy(target):
        yield Obstacle(
            "You can only roll back to a successful deployment.", "Choose another deployment of this service."
        )
        return
    if not can(principal, RUN_PIPELINE, execution.pipeline):
        yield Obstacle(
            f"You need {RUN_PIPELINE} on the pipeline {execution.pipeline.name}.",
            "Ask someone who manages users for a role that grants it.",
        )
        return
    yield from _find_run_obstacles(principal, execution)
    if manifests.missing:
        yield Obstacle(
            f"The files of these manifests of #{execution.number} are gone: {', '.join(manifests.missing)}.",
            "Restore the files in the file store, or run the pipeline with the tag to deploy.",
        )
    yield from _find_inactive_definitions(stages)


def _find_run_obstacles(principal: User, execution: Execution) -> Iterable[Obstacle]:
    try:
        validate_run(
            actor=principal,
            pipeline=execution.pipeline,
            yaml=execution.yaml,
            artifact_tag=execution.artifact.get("tag", ""),
            inputs={**execution.inputs, **execution.secret_input_values},
            is_replay=True,
        )
    except (Forbidden, NotVisible) as denied:
        yield Obstacle(str(denied), "Ask someone who manages users for the missing role.")
    except Problem as problem:
        errors = [str(error["message"]) for error in problem.errors[:_MAX_ERRORS]]
        yield Obstacle(
            " ".join([problem.detail, *errors]),
            "Restore what is missing, or deploy the tag with the pipeline as it is now.",
        )


def _find_inactive_definitions(stages: Iterable[StageExecution]) -> Iterable[Obstacle]:
    arns = _list_named_definitions(stages)
    rows = TaskDefinitionRevision.objects.filter(arn__in=arns) if arns else ()
    for revision in rows:
        state = json.loads(revision.content).get("status")
        if state not in (None, "ACTIVE"):
            yield Obstacle(
                f"The task definition {format_revision(revision.arn)} is {state}: ECS starts no tasks of it.",
                "Register the same content as a new revision, name it in the service's manifest, and run "
                "the pipeline.",
            )


def _list_named_definitions(stages: Iterable[StageExecution]) -> list[str]:
    """Return the task definitions that manifests name by ARN; a rollback does not register them."""
    rows = (row for stage in stages for row in stage.sources)
    return [str(row.get("content", "")) for row in rows if row.get("store") == TASK_DEFINITION_ARN]


def _list_notes(
    principal: User,
    deployments: QuerySet[StageExecution],
    target: StageExecution,
    manifests: EarlierManifests,
) -> Iterable[str]:
    """Yield what a person should know before the rollback although it does not prevent it."""
    execution = target.execution
    if manifests.unstored:
        yield (
            f"#{execution.number} did not store the files of {', '.join(manifests.unstored)}. The rollback "
            "uses them as they are now, so more may change than is shown."
        )
    for arn in _list_named_definitions([target]):
        yield (
            f"The rollback uses the registered task definition {format_revision(arn)}. If it is inactive by "
            "then, the execution fails before it changes anything."
        )
    infrastructure = target.infrastructure
    if infrastructure is not None and not infrastructure.is_dynamic:
        place = (infrastructure.connector_id, infrastructure.region, infrastructure.cluster)
        if place != (target.connector_id, target.region, target.cluster):
            yield (
                f"#{execution.number} deployed to {target.cluster} in {target.region}. The infrastructure "
                f"{infrastructure.identifier} has changed since: the rollback deploys to "
                f"{infrastructure.cluster} in {infrastructure.region}."
            )
    same_place = deployments.filter(infrastructure=target.infrastructure_id)
    for stage in list_active_deployments(same_place):
        yield (
            f"{stage.execution.pipeline.name} #{stage.execution.number} is deploying there now. The rollback "
            "waits until it has ended."
        )
    yield from _list_freeze_notes(principal, execution)


def _list_freeze_notes(principal: User, execution: Execution) -> Iterable[str]:
    if not can_view_freezes(principal, execution.scope):
        return
    for window, period in list_active_windows(execution.scope, list_execution_targets(execution))[:1]:
        yield (
            f"Deployments are frozen until {period.ends:%Y-%m-%d %H:%M} UTC by {window.name}. A freeze does "
            "not block rollbacks."
        )
