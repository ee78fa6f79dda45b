"""Attribution of drift to authors and times, from ECS events, revisions and executions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from aws.apis.ecs_types import EcsDeployment, EcsService, get_arn_name
from deployments.models import StepExecution
from guards.text import sanitize_text
from inventory.drift.comparison import ComparisonContext
from inventory.drift.desired_state import DesiredState, list_lock_names
from inventory.drift.service_changes import ExecutionChange
from inventory.models.drift import TaskDefinitionRevision
from inventory.models.instances import EcsServiceEvent, EcsServiceRecord
from inventory.sync.owners import list_lock_keys

MAX_TEXT_LENGTH: Final = 1000
_CIRCUIT_BREAKER_TEXT: Final = "rolling back to deployment"
_UNKNOWN_AUTHOR_TEXT: Final = (
    "ECS does not record who made the change. Look in CloudTrail for UpdateService and Application Auto "
    "Scaling events."
)


@dataclass(frozen=True)
class DriftAttributor:
    """Attribution of changes to the ECS services of one scan; three queries in all.

    `rolled_back` holds the circuit breaker events and `scaled` the last scaling event by ECS service key;
    `registered` holds the steps that registered revisions.
    """

    context: ComparisonContext
    rolled_back: Mapping[int, Sequence[EcsServiceEvent]]
    scaled: Mapping[int, EcsServiceEvent]
    registered: Mapping[str, StepExecution]

    @classmethod
    def of(cls, context: ComparisonContext, changes: Sequence[tuple[EcsServiceRecord, DesiredState]]) -> Self:
        """Load the events and steps that explain changes to these services."""
        keys = [ecs_service.pk for ecs_service, _ in changes]
        events = EcsServiceEvent.objects.filter(ecs_service__in=keys).order_by("at", "pk")
        rolled_back: dict[int, list[EcsServiceEvent]] = {}
        for event in events.filter(kind=EcsServiceEvent.Kind.ECS, message__contains=_CIRCUIT_BREAKER_TEXT):
            rolled_back.setdefault(event.ecs_service_id, []).append(event)
        counted = events.filter(kind=EcsServiceEvent.Kind.SCALING, count__isnull=False)
        arns = {
            ecs_service.task_definition
            for ecs_service, desired in changes
            if ecs_service.task_definition != desired.revision
        }
        lock_keys = list_lock_keys(
            context.cluster,
            {name for ecs_service, _ in changes for name in list_lock_names(ecs_service.name)},
        )
        scaled = {event.ecs_service_id: event for event in counted}
        return cls(context, rolled_back, scaled, _get_registering_steps(arns, lock_keys))

    def describe_changes(
        self, ecs_service: EcsServiceRecord, desired: DesiredState, paths: Sequence[str]
    ) -> str:
        """Describe the authors of the changes at `paths`."""
        sentences = [*self._describe_execution(ecs_service), *self._describe_deployment(ecs_service, desired)]
        if "desiredCount" in paths:
            sentences += self._describe_count(ecs_service)
        return sanitize_text(" ".join(sentences) or _UNKNOWN_AUTHOR_TEXT)[:MAX_TEXT_LENGTH]

    def _describe_execution(self, ecs_service: EcsServiceRecord) -> list[str]:
        """Describe the failed execution that left the service this way, if any."""
        change = self.context.desired_state.failed_changes.get(ecs_service.name)
        if change is None or not _is_running_change(ecs_service, change):
            return []
        step = change.step
        return [
            (
                f"Left by Slipway: {step.name} of {_describe_step(step)} ended as {step.status} and was not "
                "rolled back."
            )
        ]

    def _describe_deployment(self, ecs_service: EcsServiceRecord, desired: DesiredState) -> list[str]:
        primary = EcsService.from_aws(ecs_service.description).primary
        sentences = []
        if ecs_service.task_definition != desired.revision:
            sentences.append(self._describe_revision(ecs_service.task_definition))
            if primary is not None and primary.created_at is not None:
                sentences.append(
                    f"The current ECS deployment {primary.short_id} started at "
                    f"{_format_time(primary.created_at)}."
                )
        rollback = self._find_breaker_event(ecs_service, primary)
        if rollback is not None:
            sentences.append(
                f"The ECS deployment circuit breaker rolled back at {_format_time(rollback.at)} to "
                f"{primary.short_id if primary else 'an earlier deployment'}."
            )
        return sentences

    def _find_breaker_event(
        self, ecs_service: EcsServiceRecord, primary: EcsDeployment | None
    ) -> EcsServiceEvent | None:
        """Return the circuit breaker event that started the running deployment."""
        if primary is None:
            return None
        events = [event for event in self.rolled_back.get(ecs_service.pk, ()) if primary.id in event.message]
        return events[-1] if events else None

    def _describe_revision(self, arn: str) -> str:
        name, step = get_arn_name(arn), self.registered.get(arn)
        if step is not None:
            return f"It runs {name}, registered by {_describe_step(step)}."
        return _describe_outside_revision(name, self.context.revisions.get(arn))

    def _describe_count(self, ecs_service: EcsServiceRecord) -> list[str]:
        event = self.scaled.get(ecs_service.pk)
        if event is not None and event.count == ecs_service.desired:
            return [f"Auto scaling set the desired count to {event.count} at {_format_time(event.at)}."]
        return ["The desired count was changed in ECS. AWS does not record by whom."]


def _get_registering_steps(arns: Collection[str], lock_keys: Collection[str]) -> dict[str, StepExecution]:
    """Return the steps that registered these revisions under these locks."""
    if not arns:
        return {}
    steps = StepExecution.objects.filter(claims__key__in=lock_keys, outputs__taskDefinitionArn__in=arns)
    rows = steps.select_related("stage__execution__pipeline").order_by("pk")
    return {str(step.outputs["taskDefinitionArn"]): step for step in rows}


def _is_running_change(ecs_service: EcsServiceRecord, change: ExecutionChange) -> bool:
    """Return whether the running deployment is the one of `change`."""
    primary = EcsService.from_aws(ecs_service.description).primary
    outputs = change.step.outputs
    is_same_deployment = primary is not None and primary.id == outputs.get("deploymentId")
    return is_same_deployment or ecs_service.task_definition == outputs.get("taskDefinitionArn")


def _describe_step(step: StepExecution) -> str:
    execution = step.stage.execution
    return f"execution #{execution.number} of {execution.pipeline.name}"


def _describe_outside_revision(name: str, revision: TaskDefinitionRevision | None) -> str:
    by = f" by {revision.registered_by}" if revision and revision.registered_by else ""
    when = f" at {_format_time(revision.registered_at)}" if revision and revision.registered_at else ""
    registration = f". It was registered{by}{when}" if by or when else ""
    return f"It runs {name}, which was not registered by Slipway{registration}."


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
