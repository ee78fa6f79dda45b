"""What all actions of one look share: the rows, the lease, the door, the snapshot of the group."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Model

from connectors.models import Connector
from delegates.doors import door_key
from deployments.engine.branches import Turns
from deployments.engine.execution_rows import ExecutionRows
from deployments.engine.lease import Lease
from deployments.engine.parking import Parking
from deployments.engine.sources import known_values
from deployments.engine.world import Door, RemoteDoor, World
from deployments.kept_texts import put_away, with_kept
from deployments.models import AwsEvent, Execution, SlotClaim, StageExecution, StepExecution
from deployments.regions import region_for
from guards.masks import Mask
from pipelines.definition.step_manifests import FROZEN
from steps.actions.base import Seen


@dataclass
class Doors:
    """The ways to AWS that the passes of one group have opened."""

    _opened: dict[tuple[str, str], Door | RemoteDoor] = field(default_factory=dict)

    def open(self, world: World, connector: Connector, region: str) -> Door | RemoteDoor:
        """The way of a connector in a region. Raises `DoorClosed`."""
        key = (door_key(connector), region)
        if key not in self._opened:
            self._opened[key] = world.open_door(connector, region)
        return self._opened[key]


@dataclass
class Snapshot:
    """ECS services that several executions wait for, described together, ten to a call (rule 5)."""

    doors: Doors = field(default_factory=Doors)
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

    rows: ExecutionRows
    stage: StageExecution
    snapshot: Snapshot
    turns: Turns = field(default_factory=Turns)
    parking: Parking | None = None
    _events: list[AwsEvent] = field(default_factory=list)

    @property
    def execution(self) -> Execution:
        return self.rows.execution

    @property
    def lease(self) -> Lease:
        return self.rows.lease

    @property
    def world(self) -> World:
        return self.rows.lease.world

    @property
    def mask(self) -> Mask:
        """Hides this execution's secrets in its log."""
        return self.rows.mask_of(self.stage)

    def commit(self, *, reload: bool = False) -> AbstractContextManager[None]:
        """A fenced commit of all that has changed: see `ExecutionRows.commit`."""
        return self.rows.commit(reload=reload)

    def save(self) -> None:
        """Commit what has changed."""
        self.rows.save()

    @property
    def claims(self) -> list[SlotClaim]:
        """What the steps of the stage want to change, or hold."""
        return self.rows.claims_of(self.stage)

    @property
    def waiting(self) -> list[SlotClaim]:
        """Those of the claims that are not granted now."""
        return self.rows.waiting_claims_of(self.stage)

    def forget_claims(self) -> None:
        """They have changed: the next question is asked of the database."""
        self.rows.forget_claims()

    def known_values(self) -> dict[str, Any]:
        """Everything that an expression can name at this point of the execution."""
        return known_values(self.execution, self.stage, self.rows.steps_until(self.stage))

    def door_for(self, step: StepExecution) -> Door | RemoteDoor:
        """The way of a step's calls. Raises `DoorClosed`."""
        return self.snapshot.doors.open(self.world, self.stage.connector, region_for(self.stage, step))

    @property
    def known_events(self) -> set[str]:
        """The ids of the AWS events that this execution has shown already."""
        return self.rows.known_events

    def keep_event(self, event: AwsEvent) -> None:
        self.known_events.add(event.event_id)
        self._events.append(event)

    def forget_events(self) -> None:
        """A look that was cut short has shown nothing."""
        self.known_events.difference_update(event.event_id for event in self._events)
        self._events = []

    def flush_events(self) -> None:
        self.rows.add_events(self._events)
        self._events = []

    def pin(self, number: int, source: dict[str, Any]) -> dict[str, Any]:
        """Let the stage go on with the files of a manifest as they were fetched; the first ones stay."""
        stage = self.stage
        if not stage.sources[number].get("texts"):
            stage.sources[number] = source
            self.rows.on_write(lambda: self.change(stage, sources=put_away(stage, stage.sources)))
        return dict(stage.sources[number])

    def pin_own(self, step: StepExecution, source: dict[str, Any]) -> dict[str, Any]:
        """Let a step go on with a manifest of its own as it was fetched; the first one stays."""
        name = source["identifier"]
        if not step.spec[name][FROZEN].get("texts"):
            step.spec = {**step.spec, name: {FROZEN: source}}
            self.rows.on_write(lambda: self.change(step, spec=with_kept(self.stage, step.type, step.spec)))
        return dict(step.spec[name][FROZEN])

    def pin_artifact(self, artifact: dict[str, Any]) -> None:
        """Let the execution go on with an image as it was settled; the first one stays."""
        if not self.execution.artifact.get("digest"):
            self.change(self.execution, artifact=artifact)

    def slot_is_held_for(self, step: StepExecution, ecs_service: str) -> bool:
        key = slot_key(self.stage, ecs_service)
        own = [claim for claim in self.claims if claim.step_id == step.pk and claim.key == key]
        return any(claim.held_at is not None and claim not in self.waiting for claim in own)

    def change(self, row: Model, **values: object) -> None:
        """Change a row in memory; the next commit writes it."""
        self.rows.change(row, **values)

    def save_view(self, step: StepExecution, counts: dict[str, int] | None) -> None:
        """What the page shows beside the stage: counts and the deployment id."""
        deployment = str(step.outputs.get("deploymentId", self.stage.deployment_id))
        has_counts = counts is not None and counts != self.stage.counts
        has_deployment = deployment != self.stage.deployment_id
        if not (has_counts or has_deployment) or self.rows.changes_only_another(step):
            return
        self.change(self.stage, counts=counts if has_counts else self.stage.counts, deployment_id=deployment)


def slot_key(stage: StageExecution, ecs_service: str) -> str:
    """What one stage at a time may change (rule 13)."""
    return "/".join((stage.account, stage.region, stage.cluster, ecs_service))
