"""Who changed what when, as far as AWS and Slipway tell; who held AWS's keys is in CloudTrail alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from aws.types import Deployment, EcsService, last_part
from deployments.models import StepExecution
from guards.text import clean
from inventory.drift.changes import Change
from inventory.drift.desired import Desired, slots_of
from inventory.drift.judging import Look
from inventory.models.drift import KnownRevision
from inventory.models.instances import SeenEvent, SeenService
from inventory.sync.owning import keys_of

LONGEST: Final = 1000
_BREAKER: Final = "rolling back to deployment"
_NOBODY: Final = (
    "ECS does not tell who did this; CloudTrail does, under UpdateService and calls of auto scaling."
)


@dataclass(frozen=True)
class Teller:
    """What is known of changes to these ECS services; three queries for all of them.

    `rolled_back` are the events by which AWS's circuit breaker announced where it goes back to, `scaled` the
    last of auto scaling, by the keys of seen services; `registered` the steps that registered revisions.
    """

    look: Look
    rolled_back: Mapping[int, Sequence[SeenEvent]]
    scaled: Mapping[int, SeenEvent]
    registered: Mapping[str, StepExecution]

    @classmethod
    def of(cls, look: Look, changed: Sequence[tuple[SeenService, Desired]]) -> Self:
        """What tells of changes since these were deployed."""
        keys = [seen.pk for seen, _ in changed]
        events = SeenEvent.objects.filter(seen__in=keys).order_by("at", "pk")
        rolled_back: dict[int, list[SeenEvent]] = {}
        for one in events.filter(kind=SeenEvent.Kind.ECS, message__contains=_BREAKER):
            rolled_back.setdefault(one.seen_id, []).append(one)
        counted = events.filter(kind=SeenEvent.Kind.SCALING, count__isnull=False)
        arns = {seen.task_definition for seen, desired in changed if seen.task_definition != desired.revision}
        keys_of_slots = keys_of(look.cluster, {name for seen, _ in changed for name in slots_of(seen.name)})
        scaled = {one.seen_id: one for one in counted}
        return cls(look, rolled_back, scaled, _registered(arns, keys_of_slots))

    def told(self, seen: SeenService, desired: Desired, paths: Sequence[str]) -> str:
        """What is known of who made the changes in `paths`."""
        sentences = [*self._of_execution(seen), *self._of_deployment(seen, desired)]
        if "desiredCount" in paths:
            sentences += self._of_count(seen)
        return clean(" ".join(sentences) or _NOBODY)[:LONGEST]

    def _of_execution(self, seen: SeenService) -> list[str]:
        """An execution of Slipway that ended badly and was not taken back may have left it so."""
        left = self.look.wanted.left.get(seen.name)
        if left is None or not _runs(seen, left):
            return []
        step = left.step
        return [f"Slipway left it so: {step.name} of {_named(step)} ended as {step.status}, not taken back."]

    def _of_deployment(self, seen: SeenService, desired: Desired) -> list[str]:
        primary = EcsService.from_aws(seen.answered).primary
        sentences = []
        if seen.task_definition != desired.revision:
            sentences.append(self._of_revision(seen.task_definition))
            if primary is not None and primary.created_at is not None:
                sentences.append(
                    f"The deployment that runs it, {primary.number}, began at {_at(primary.created_at)}."
                )
        back = self._breaker(seen, primary)
        if back is not None:
            sentences.append(
                f"AWS's circuit breaker gave up a deployment at {_at(back.at)} and went back to "
                f"{primary.number if primary else 'an earlier one'}: nobody asked for what runs now."
            )
        return sentences

    def _breaker(self, seen: SeenService, primary: Deployment | None) -> SeenEvent | None:
        """The event by which AWS came to the deployment that runs now."""
        if primary is None:
            return None
        found = [one for one in self.rolled_back.get(seen.pk, ()) if primary.id in one.message]
        return found[-1] if found else None

    def _of_revision(self, arn: str) -> str:
        name, step = last_part(arn), self.registered.get(arn)
        if step is not None:
            return f"It runs {name}, which {_named(step)} had registered."
        return _foreign(name, self.look.revisions.get(arn))

    def _of_count(self, seen: SeenService) -> list[str]:
        scaled = self.scaled.get(seen.pk)
        if scaled is not None and scaled.count == seen.desired:
            return [f"Auto scaling set the desired count to {scaled.count} at {_at(scaled.at)}."]
        return ["Somebody asked ECS for another count; AWS does not tell who."]


def _registered(arns: Collection[str], slots: Collection[str]) -> dict[str, StepExecution]:
    """The steps that registered these revisions, of those that have changed these slots."""
    if not arns:
        return {}
    steps = StepExecution.objects.filter(claims__key__in=slots, outputs__taskDefinitionArn__in=arns)
    rows = steps.select_related("stage__execution__pipeline").order_by("pk")
    return {str(step.outputs["taskDefinitionArn"]): step for step in rows}


def _runs(seen: SeenService, change: Change) -> bool:
    """Whether what runs is what a step has sent."""
    primary = EcsService.from_aws(seen.answered).primary
    known = change.step.outputs
    is_it = primary is not None and primary.id == known.get("deploymentId")
    return is_it or seen.task_definition == known.get("taskDefinitionArn")


def _named(step: StepExecution) -> str:
    execution = step.stage.execution
    return f"execution #{execution.number} of {execution.pipeline.name}"


def _foreign(name: str, revision: KnownRevision | None) -> str:
    by = f" by {revision.registered_by}" if revision and revision.registered_by else ""
    when = f" at {_at(revision.registered_at)}" if revision and revision.registered_at else ""
    known = f"; it was registered{by}{when}" if by or when else ""
    return f"It runs {name}, which no deployment of Slipway has registered{known}."


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
