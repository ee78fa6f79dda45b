"""Attribution of drift: who changed what and when, from ECS events, revisions and executions."""

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
    "ECS does not tell who did this; CloudTrail does, under UpdateService and calls of auto scaling."
)


@dataclass(frozen=True)
class DriftAttributor:
    """What is known of changes to these ECS services; three queries for all of them.

    `rolled_back` are the events by which AWS's circuit breaker announced where it goes back to, `scaled` the
    last of auto scaling, by the keys of seen services; `registered` the steps that registered revisions.
    """

    context: ComparisonContext
    rolled_back: Mapping[int, Sequence[EcsServiceEvent]]
    scaled: Mapping[int, EcsServiceEvent]
    registered: Mapping[str, StepExecution]

    @classmethod
    def of(cls, look: ComparisonContext, changed: Sequence[tuple[EcsServiceRecord, DesiredState]]) -> Self:
        """What tells of changes since these were deployed."""
        keys = [seen.pk for seen, _ in changed]
        events = EcsServiceEvent.objects.filter(ecs_service__in=keys).order_by("at", "pk")
        rolled_back: dict[int, list[EcsServiceEvent]] = {}
        for one in events.filter(kind=EcsServiceEvent.Kind.ECS, message__contains=_CIRCUIT_BREAKER_TEXT):
            rolled_back.setdefault(one.ecs_service_id, []).append(one)
        counted = events.filter(kind=EcsServiceEvent.Kind.SCALING, count__isnull=False)
        arns = {seen.task_definition for seen, desired in changed if seen.task_definition != desired.revision}
        keys_of_slots = list_lock_keys(
            look.cluster, {name for seen, _ in changed for name in list_lock_names(seen.name)}
        )
        scaled = {one.ecs_service_id: one for one in counted}
        return cls(look, rolled_back, scaled, _get_registering_steps(arns, keys_of_slots))

    def describe_changes(self, seen: EcsServiceRecord, desired: DesiredState, paths: Sequence[str]) -> str:
        """What is known of who made the changes in `paths`."""
        sentences = [*self._describe_execution(seen), *self._describe_deployment(seen, desired)]
        if "desiredCount" in paths:
            sentences += self._describe_count(seen)
        return sanitize_text(" ".join(sentences) or _UNKNOWN_AUTHOR_TEXT)[:MAX_TEXT_LENGTH]

    def _describe_execution(self, seen: EcsServiceRecord) -> list[str]:
        """An execution of Slipway that ended badly and was not taken back may have left it so."""
        left = self.context.desired_state.failed_changes.get(seen.name)
        if left is None or not _is_running_change(seen, left):
            return []
        step = left.step
        return [
            f"Slipway left it so: {step.name} of {_describe_step(step)} ended as {step.status}, not taken "
            "back."
        ]

    def _describe_deployment(self, seen: EcsServiceRecord, desired: DesiredState) -> list[str]:
        primary = EcsService.from_aws(seen.description).primary
        sentences = []
        if seen.task_definition != desired.revision:
            sentences.append(self._describe_revision(seen.task_definition))
            if primary is not None and primary.created_at is not None:
                sentences.append(
                    f"The deployment that runs it, {primary.short_id}, began at "
                    f"{_format_time(primary.created_at)}."
                )
        back = self._find_breaker_event(seen, primary)
        if back is not None:
            sentences.append(
                f"AWS's circuit breaker gave up a deployment at {_format_time(back.at)} and went back to "
                f"{primary.short_id if primary else 'an earlier one'}: nobody asked for what runs now."
            )
        return sentences

    def _find_breaker_event(
        self, seen: EcsServiceRecord, primary: EcsDeployment | None
    ) -> EcsServiceEvent | None:
        """The event by which AWS came to the deployment that runs now."""
        if primary is None:
            return None
        found = [one for one in self.rolled_back.get(seen.pk, ()) if primary.id in one.message]
        return found[-1] if found else None

    def _describe_revision(self, arn: str) -> str:
        name, step = get_arn_name(arn), self.registered.get(arn)
        if step is not None:
            return f"It runs {name}, which {_describe_step(step)} had registered."
        return _describe_outside_revision(name, self.context.revisions.get(arn))

    def _describe_count(self, seen: EcsServiceRecord) -> list[str]:
        scaled = self.scaled.get(seen.pk)
        if scaled is not None and scaled.count == seen.desired:
            return [f"Auto scaling set the desired count to {scaled.count} at {_format_time(scaled.at)}."]
        return ["Somebody asked ECS for another count; AWS does not tell who."]


def _get_registering_steps(arns: Collection[str], slots: Collection[str]) -> dict[str, StepExecution]:
    """The steps that registered these revisions, of those that have changed these slots."""
    if not arns:
        return {}
    steps = StepExecution.objects.filter(claims__key__in=slots, outputs__taskDefinitionArn__in=arns)
    rows = steps.select_related("stage__execution__pipeline").order_by("pk")
    return {str(step.outputs["taskDefinitionArn"]): step for step in rows}


def _is_running_change(seen: EcsServiceRecord, change: ExecutionChange) -> bool:
    """Whether what runs is what a step has sent."""
    primary = EcsService.from_aws(seen.description).primary
    known = change.step.outputs
    is_it = primary is not None and primary.id == known.get("deploymentId")
    return is_it or seen.task_definition == known.get("taskDefinitionArn")


def _describe_step(step: StepExecution) -> str:
    execution = step.stage.execution
    return f"execution #{execution.number} of {execution.pipeline.name}"


def _describe_outside_revision(name: str, revision: TaskDefinitionRevision | None) -> str:
    by = f" by {revision.registered_by}" if revision and revision.registered_by else ""
    when = f" at {_format_time(revision.registered_at)}" if revision and revision.registered_at else ""
    known = f"; it was registered{by}{when}" if by or when else ""
    return f"It runs {name}, which no deployment of Slipway has registered{known}."


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
