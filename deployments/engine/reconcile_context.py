"""Shared state of one reconcile pass: rows, lease, AWS access, log."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Model

from aws.apis.ecs_types import EcsService
from connectors.models import Connector
from connectors.specs.aws import get_session_key
from delegates.access.aws_access import build_cache_key
from deployments.engine.execution_rows import MOST_NOTES, ExecutionRows
from deployments.engine.lease import Lease
from deployments.engine.service_waits import ServiceWait
from deployments.engine.steps.inputs import build_expression_values
from deployments.engine.steps.scheduler import StepScheduler
from deployments.execution.planning.stored_inputs import store_own_texts, store_texts
from deployments.journal.referenced_secrets import unsent_while_pending
from deployments.journal.runtime import DirectAwsAccess, EngineRuntime, QueuedAwsAccess
from deployments.log import NewLogLine
from deployments.models import AwsEvent, Execution, ServiceLockClaim, StageExecution, StepExecution
from deployments.regions import get_call_region
from guards.log_lines import bind_log_fields
from guards.masks import SecretMask
from pipelines.definition.step_manifests import FROZEN_KEY
from steps.actions.context import ServiceObservation
from steps.states import Status


@dataclass
class AwsAccessPool:
    """AWS access opened by the passes of one batch."""

    _opened: dict[tuple[str, str, str], DirectAwsAccess | QueuedAwsAccess] = field(default_factory=dict)

    def open(
        self, runtime: EngineRuntime, connector: Connector, region: str
    ) -> DirectAwsAccess | QueuedAwsAccess:
        """Return the access of a connector in a region. Raises `ConnectorUnavailable`."""
        key = (build_cache_key(connector), region, get_session_key(connector))
        if key not in self._opened:
            self._opened[key] = runtime.open_aws_access(connector, region)
        return self._opened[key]


@dataclass
class ServiceSnapshot:
    """ECS services of several waiting executions, described together, ten per call (rule 5)."""

    aws_access_pool: AwsAccessPool = field(default_factory=AwsAccessPool)
    # By batch key, for clusters of two regions or accounts may have the same name, and by service.
    _observations: dict[tuple[str, str], ServiceObservation] = field(default_factory=dict)

    def pop_observation(self, batch_key: str, name: str, *, after: datetime) -> ServiceObservation | None:
        """Return the service if its read started after `after` (rule 10), and remove it."""
        observation = self._observations.pop((batch_key, name), None)
        return observation if observation is not None and observation.read_started_at > after else None

    def add(self, batch_key: str, name: str, observation: ServiceObservation) -> None:
        """Add a service for the next pass of the batch."""
        self._observations[batch_key, name] = observation


@dataclass
class ReconcileContext:
    """Rows, stage and scheduler of an execution in one reconcile pass."""

    rows: ExecutionRows
    stage: StageExecution
    snapshot: ServiceSnapshot
    scheduler: StepScheduler = field(default_factory=StepScheduler)
    service_wait: ServiceWait | None = None
    _events: list[AwsEvent] = field(default_factory=list)

    @property
    def execution(self) -> Execution:
        return self.rows.execution

    @property
    def lease(self) -> Lease:
        return self.rows.lease

    @property
    def runtime(self) -> EngineRuntime:
        return self.rows.lease.runtime

    @property
    def mask(self) -> SecretMask:
        """Return the mask of this execution's secrets for its log."""
        return self.rows.get_mask(self.stage)

    def commit(self, *, reload: bool = False) -> AbstractContextManager[None]:
        """Return a fenced commit of all changes: see `ExecutionRows.commit`."""
        return self.rows.commit(reload=reload)

    def save(self) -> None:
        """Commit all changes."""
        self.rows.save()

    @property
    def claims(self) -> list[ServiceLockClaim]:
        """Return the lock claims of the stage's steps, granted or waiting."""
        return self.rows.list_claims(self.stage)

    @property
    def waiting_claims(self) -> list[ServiceLockClaim]:
        """Return the claims that are not granted now."""
        return self.rows.list_waiting_claims(self.stage)

    def reload_claims(self) -> None:
        """Discard the loaded claims, which have changed in the database."""
        self.rows.reload_claims()

    def build_values(self) -> dict[str, Any]:
        """Return the values available to expressions at this point of the execution."""
        return build_expression_values(self.execution, self.stage, self.rows.list_steps_until(self.stage))

    def get_aws_access(self, step: StepExecution) -> DirectAwsAccess | QueuedAwsAccess:
        """Return the AWS access for a step's calls.

        Raises `ConnectorUnavailable`, and `Unavailable` while a delegate reads a secret of the connector.
        """
        with unsent_while_pending():
            return self.snapshot.aws_access_pool.open(
                self.runtime, self.stage.connector, get_call_region(self.stage, step)
            )

    @property
    def known_events(self) -> set[str]:
        """Return the ids of the AWS events that are already in the log."""
        return self.rows.known_events

    def add_event(self, event: AwsEvent) -> None:
        self.known_events.add(event.event_id)
        self._events.append(event)

    def discard_events(self) -> None:
        """Discard the events of an interrupted pass."""
        self.known_events.difference_update(event.event_id for event in self._events)
        self._events = []

    def flush_events(self) -> None:
        self.rows.add_events(self._events)
        self._events = []

    def pin_source(
        self, number: int, source: dict[str, Any], stage: StageExecution | None = None
    ) -> dict[str, Any]:
        """Pin the fetched files of a manifest for the stage, or for another one; the first ones stay."""
        stage = stage or self.stage
        if not stage.sources[number].get("texts"):
            stage.sources[number] = source
            self.rows.add_write(lambda: self.change(stage, sources=store_texts(stage, stage.sources)))
        return dict(stage.sources[number])

    def pin_own_source(self, step: StepExecution, source: dict[str, Any]) -> dict[str, Any]:
        """Pin the fetched files of a step's own manifest; the first ones stay."""
        name = source["identifier"]
        if not step.spec[name][FROZEN_KEY].get("texts"):
            step.spec = {**step.spec, name: {FROZEN_KEY: source}}
            self.rows.add_write(
                lambda: self.change(step, spec=store_own_texts(step.stage, step.type, step.spec))
            )
        return dict(step.spec[name][FROZEN_KEY])

    def pin_artifact(self, artifact: dict[str, Any]) -> None:
        """Pin the image of the execution; the first one stays."""
        if not self.execution.artifact.get("digest"):
            self.change(self.execution, artifact=artifact)

    def is_service_lock_held(self, step: StepExecution, ecs_service: str) -> bool:
        key = build_lock_key(self.stage, ecs_service)
        own = [claim for claim in self.claims if claim.step_id == step.pk and claim.key == key]
        return any(claim.granted_at is not None and claim not in self.waiting_claims for claim in own)

    def change(self, row: Model, **values: object) -> None:
        """Change a row in memory; the next commit writes it."""
        self.rows.change(row, **values)

    def save_view(self, step: StepExecution, counts: dict[str, int] | None) -> None:
        """Update the counts and the deployment id that the stage's page shows."""
        deployment = str(step.outputs.get("deploymentId", self.stage.deployment_id))
        has_counts = counts is not None and counts != self.stage.counts
        has_deployment = deployment != self.stage.deployment_id
        if not (has_counts or has_deployment) or self.rows.changes_other_service(step):
            return
        self.change(self.stage, counts=counts if has_counts else self.stage.counts, deployment_id=deployment)


def build_lock_key(stage: StageExecution, ecs_service: str) -> str:
    """Return the key of the lock of an ECS service (rule 13)."""
    return "/".join((stage.account, stage.region, stage.cluster, ecs_service))


def append_log(
    reconcile_context: ReconcileContext,
    step: StepExecution | None,
    text: str,
    level: str = "info",
    unit: str = "",
) -> None:
    """Append a text, line by line, to the log of a step."""
    now = reconcile_context.runtime.now()
    key, identifier = (step.pk, step.identifier) if step else (None, "")
    lines = [NewLogLine(now, key, identifier, unit, level, line) for line in text.split("\n")]
    reconcile_context.rows.add_lines(lines, reconcile_context.mask)


def append_notes(reconcile_context: ReconcileContext, step: StepExecution, texts: Iterable[str]) -> None:
    """Append notes to the execution, each text once."""
    execution, now = reconcile_context.execution, reconcile_context.runtime.now()
    known_texts = {note["text"] for note in execution.notes}
    masked = map(reconcile_context.mask.mask_text, texts)
    new = [text for text in dict.fromkeys(masked) if text not in known_texts]
    if new := new[: MOST_NOTES - len(known_texts)]:
        added = [{"at": now.isoformat(), "step": step.identifier, "text": text} for text in new]
        reconcile_context.change(execution, notes=[*execution.notes, *added])


# Statuses that wait for a person, most important first; they take precedence over running steps.
_STATUS_PRIORITY = (Status.INTERVENTION_WAITING, Status.APPROVAL_WAITING, Status.INPUT_WAITING)


def update_execution_status(reconcile_context: ReconcileContext) -> None:
    """Set the status of the execution from the statuses of its steps."""
    execution = reconcile_context.execution
    statuses = set(
        StepExecution.objects.filter(stage=reconcile_context.stage, status__in=_STATUS_PRIORITY).values_list(
            "status", flat=True
        )
    )
    default = Status.ROLLING_BACK if execution.rolling_back else Status.RUNNING
    status = next((candidate for candidate in _STATUS_PRIORITY if candidate in statuses), default)
    if execution.status != status:
        execution.status = status
        execution.save(update_fields=["status"])


StepRunner = Callable[[ReconcileContext, StepExecution], timedelta | None]


def run_next_step(
    reconcile_context: ReconcileContext, current: Sequence[StepExecution], advance: StepRunner
) -> timedelta | None:
    """Advance the next of these steps; None means continue immediately."""
    step = reconcile_context.scheduler.choose_step(current)
    wait = None
    if step is not None:
        with bind_log_fields(stage=step.stage.identifier, step=step.identifier):
            wait = advance(reconcile_context, step)
    if step is not None and (wait is None or len(current) == 1):
        return wait
    # A service wait is for one ECS service; another branch would not be checked meanwhile (rule 16).
    reconcile_context.service_wait = None
    if step is not None and wait is not None:
        reconcile_context.scheduler.wait(step, reconcile_context.runtime.now() + wait)
        # Another branch continues and may fail, so the changes of this one are saved first.
        reconcile_context.save()
        return None
    return reconcile_context.scheduler.get_remaining_wait(current, reconcile_context.runtime.now())


def list_new_events(
    reconcile_context: ReconcileContext, before: Mapping[str, Any] | None, service: EcsService
) -> Iterator[str]:
    """Yield the log lines of events that are not in the log yet, oldest first.

    AWS returns the last hundred; those from before the step are skipped.
    """
    earlier_ids = set((before or {}).get("newest_events", ()))
    for event in reversed(service.events):
        if event.id in earlier_ids or event.id in reconcile_context.known_events or event.at is None:
            continue
        reconcile_context.add_event(
            AwsEvent(
                execution=reconcile_context.execution,
                event_id=event.id,
                ecs_service=service.arn,
                at=event.at,
                message=event.message,
            )
        )
        yield f"# AWS Event: {_format_timestamp(event.at)} {event.message}"


def _format_timestamp(at: datetime) -> str:
    """Return the time with milliseconds, without trailing zeros, as `2022-10-06 23:05:02.54`."""
    utc = at.astimezone(UTC)
    fraction = f"{utc.microsecond // 1000:03d}".rstrip("0") or "0"
    return f"{utc:%Y-%m-%d %H:%M:%S}.{fraction}"
