"""What all actions of one look share: the rows, the lease, the door, the snapshot of the group."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from deployments.actions.base import Seen
from deployments.engine.branches import Turns
from deployments.engine.lease import Lease
from deployments.engine.parking import Parking
from deployments.engine.world import Door, RemoteDoor, World
from deployments.kept_texts import put_away
from deployments.models import ActionRun, AwsEvent, Execution, Slot, SlotClaim, StageExecution, StepExecution
from deployments.regions import region_for
from deployments.step_manifests import FROZEN, with_kept
from deployments.waiting_lines import waiting_claims
from guards.masks import Mask


@dataclass
class Snapshot:
    """ECS services that several executions wait for, described together, ten to a call (rule 5)."""

    _seen: dict[tuple[str, str], Seen] = field(default_factory=dict)

    def seen(self, cluster: str, name: str, *, after: datetime) -> Seen | None:
        """The service as this snapshot shows it, if it was begun late enough to be judged (rule 10)."""
        seen = self._seen.pop((cluster, name), None)
        return seen if seen is not None and seen.begun > after else None

    def keep(self, cluster: str, name: str, seen: Seen) -> None:
        """Keep one service for whoever of the group looks next."""
        self._seen[cluster, name] = seen


@dataclass
class Shared:
    """The execution under way as one look sees it."""

    execution: Execution
    stage: StageExecution
    lease: Lease
    world: World
    snapshot: Snapshot
    secrets: tuple[str, ...] = ()
    parking: Parking | None = None
    turns: Turns = field(default_factory=Turns)
    _doors: dict[str, Door | RemoteDoor] = field(default_factory=dict)
    _events: list[AwsEvent] = field(default_factory=list)
    _touched: dict[int, set[str]] = field(default_factory=dict)
    _pinned: bool = False
    _pinned_steps: dict[int, StepExecution] = field(default_factory=dict)
    _artifact_pinned: bool = False

    @cached_property
    def mask(self) -> Mask:
        """Hides this execution's secrets in its log."""
        return Mask(self.secrets)

    @cached_property
    def claims(self) -> list[SlotClaim]:
        """What the steps of the stage want to change, or hold, as it was when this was first asked."""
        found = SlotClaim.objects.filter(stage=self.stage).select_related("step")
        return list(found.order_by("wanted_at", "pk"))

    @cached_property
    def waiting(self) -> list[SlotClaim]:
        """Those of the claims that are not granted now."""
        return list(waiting_claims().filter(stage=self.stage).select_related("step")) if self.claims else []

    def forget_claims(self) -> None:
        """They have changed: the next question is asked of the database."""
        self.__dict__.pop("claims", None)
        self.__dict__.pop("waiting", None)

    def door_for(self, step: StepExecution) -> Door | RemoteDoor:
        """The way of a step's calls. Raises `DoorClosed`."""
        region = region_for(self.stage, step)
        if region not in self._doors:
            self._doors[region] = self.world.open_door(self.stage.connector, region)
        return self._doors[region]

    @cached_property
    def known_events(self) -> set[str]:
        """The ids of the AWS events that this execution has shown already."""
        return set(AwsEvent.objects.filter(execution=self.execution).values_list("event_id", flat=True))

    def keep_event(self, event: AwsEvent) -> None:
        self.known_events.add(event.event_id)
        self._events.append(event)

    def forget_events(self) -> None:
        """A look that was cut short has shown nothing."""
        self.known_events.difference_update(event.event_id for event in self._events)
        self._events = []

    def flush_events(self) -> None:
        AwsEvent.objects.bulk_create(self._events, ignore_conflicts=True)
        self._events = []

    def pin(self, number: int, source: dict[str, Any]) -> dict[str, Any]:
        """Let the stage go on with the files of a manifest as they were fetched; the first ones stay."""
        if not self.stage.sources[number].get("texts"):
            self.stage.sources[number] = source
            self._pinned = True
        return dict(self.stage.sources[number])

    def pin_own(self, step: StepExecution, source: dict[str, Any]) -> dict[str, Any]:
        """Let a step go on with a manifest of its own as it was fetched; the first one stays."""
        name = source["identifier"]
        if not step.spec[name][FROZEN].get("texts"):
            step.spec = {**step.spec, name: {FROZEN: source}}
            self._pinned_steps[step.pk] = step
        return dict(step.spec[name][FROZEN])

    def pin_artifact(self, artifact: dict[str, Any]) -> None:
        """Let the execution go on with an image as it was settled; the first one stays."""
        if not self.execution.artifact.get("digest"):
            self.execution.artifact = artifact
            self._artifact_pinned = True

    def flush_pins(self) -> None:
        if self._artifact_pinned:
            self.execution.save(update_fields=["artifact"])
            self._artifact_pinned = False
        if self._pinned:
            self.stage.sources = put_away(self.stage, self.stage.sources)
            self.stage.save(update_fields=["sources"])
            self._pinned = False
        for step in self._pinned_steps.values():
            step.spec = with_kept(self.stage, step.type, step.spec)
            step.save(update_fields=["spec"])
        self._pinned_steps = {}

    def slot_is_held_for(self, step: StepExecution, ecs_service: str) -> bool:
        key = slot_key(self.stage, ecs_service)
        has_claim = SlotClaim.objects.filter(step=step, key=key, held_at__isnull=False).exists()
        return has_claim and Slot.objects.filter(key=key, stage=self.stage).exists()

    def change(self, row: ActionRun, **values: object) -> None:
        """Change an action's row in memory; the next commit writes it."""
        for name, value in values.items():
            setattr(row, name, value)
        self._touched.setdefault(row.pk, set()).update(values)

    def touched(self, row: ActionRun) -> set[str]:
        return self._touched.pop(row.pk, set())

    def save_view(self, step: StepExecution, counts: dict[str, int] | None) -> None:
        """What the page shows beside the stage: counts and the deployment id."""
        deployment = str(step.outputs.get("deploymentId", self.stage.deployment_id))
        has_counts = counts is not None and counts != self.stage.counts
        has_deployment = deployment != self.stage.deployment_id
        if not (has_counts or has_deployment) or self._changes_another(step):
            return
        self.stage.counts = counts if has_counts else self.stage.counts
        self.stage.deployment_id = deployment
        self.stage.save(update_fields=["counts", "deployment_id"])

    def _changes_another(self, step: StepExecution) -> bool:
        """Whether a step changes another ECS service than the one that is shown."""
        changed = list(step.claims.values_list("ecs_service", flat=True))
        return bool(changed) and self.stage.ecs_service not in changed


def slot_key(stage: StageExecution, ecs_service: str) -> str:
    """What one stage at a time may change (rule 13)."""
    return "/".join((stage.account, stage.region, stage.cluster, ecs_service))
