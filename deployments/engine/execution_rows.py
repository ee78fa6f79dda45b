"""Rows of one execution, loaded once per reconcile pass and written by fenced commits."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models import Exists, F, OuterRef

from deployments.engine.lease import Lease, LeaseLostError
from deployments.engine.status_log import StatusLog
from deployments.engine.steps.scheduler import StepFlow
from deployments.journal.runtime import failpoint
from deployments.journal.secret_values import build_stage_mask
from deployments.log import NewLogLine, append_lines, keep_hidden_lines, prepare_lines
from deployments.models import (
    ActionRun,
    AwsCall,
    AwsEvent,
    Execution,
    RollbackValue,
    ServiceLock,
    ServiceLockClaim,
    StageExecution,
    StepExecution,
    StepGroup,
)
from guards.masks import HidingMask, SecretMask
from steps.states import TERMINAL_STATUSES, CallState

Section = StepExecution.Section
# Columns of a stored call that may change; its encrypted parameters never do.
_ANSWER_COLUMNS = (
    "state",
    "send_number",
    "repeat_count",
    "result",
    "error",
    "planned_at",
    "sent_at",
    "answered_at",
    "duration_ms",
)
# Columns from which the secrets of a stage are read.
_MASK_COLUMNS = {"secret_outputs", "spec"}
_OPEN = (CallState.PLANNED, CallState.SENT, CallState.UNKNOWN)
# Rows are locked in this order (rule 1).
_LOCK_ORDER = (StageExecution, StepGroup, StepExecution, ActionRun)


class ExecutionRows:
    """Rows of one execution for a reconcile pass: stages, steps, actions, calls, rollback values, claims."""

    def __init__(self, lease: Lease, execution: Execution, status_log: StatusLog | None = None) -> None:
        self.lease = lease
        self._status_log = status_log or StatusLog()
        self.is_stale = False
        self.execution = execution
        self.has_interrupts: bool = execution.has_interrupts  # type: ignore[attr-defined]
        self._may_wait_for_service: bool = execution.has_waiting_claims  # type: ignore[attr-defined]
        self._may_change_several: bool = execution.changes_several_services  # type: ignore[attr-defined]
        self.stages, self._steps = _load_stages(self.execution)
        self._actions: dict[int, list[ActionRun]] | None = None
        self._groups: dict[int, list[StepGroup]] | None = None
        self._calls: dict[int, list[AwsCall]] = {}
        self._rollback_values: dict[tuple[int, int], dict[str, RollbackValue]] = {}
        self._claims: dict[int, list[ServiceLockClaim]] = {}
        self._known_events: set[str] | None = None
        self._masks: dict[int, SecretMask] = {}
        self._changed: dict[int, tuple[models.Model, set[str]]] = {}
        self._new_calls: list[AwsCall] = []
        self._new_rollback_values: list[RollbackValue] = []
        self._new_events: list[AwsEvent] = []
        self._lines: list[tuple[Sequence[NewLogLine], SecretMask]] = []
        self._extra_writes: list[Callable[[], object]] = []
        self._log_statuses()

    # --- reading ----------------------------------------------------------------------------------

    @property
    def current_stage(self) -> StageExecution:
        """Return the first unfinished stage, else the last one."""
        return next(
            (stage for stage in self.stages if stage.status not in TERMINAL_STATUSES), self.stages[-1]
        )

    def list_section_steps(
        self, stage: StageExecution, section: str = Section.EXECUTION
    ) -> list[StepExecution]:
        """Return the steps of one section of a stage, in order."""
        return [step for step in self._steps[stage.pk] if step.section == section]

    def list_steps_before(self, step: StepExecution, step_type: str) -> list[StepExecution]:
        """Return the steps of a type before another one of their section, newest first, also skipped ones."""
        return [
            other
            for other in reversed(self._steps[step.stage_id])
            if (other.section, other.type) == (step.section, step_type) and other.position < step.position
        ]

    def list_stage_steps(self, stage: StageExecution) -> list[StepExecution]:
        """Return all steps of a stage, forward and rollback."""
        return self._steps[stage.pk]

    def list_steps_until(self, stage: StageExecution) -> list[StepExecution]:
        """Return the steps of this stage and of those before it, in order."""
        stages = (stage_row for stage_row in self.stages if stage_row.position <= stage.position)
        return [step for stage_row in stages for step in self._steps[stage_row.pk]]

    @property
    def all_steps(self) -> list[StepExecution]:
        return [step for stage in self.stages for step in self._steps[stage.pk]]

    def build_flow(self, stage: StageExecution, section: str = Section.EXECUTION) -> StepFlow:
        """Return the steps and groups of one section of a stage in their current state."""
        steps = self.list_section_steps(stage, section)
        has_groups = any(step.group_id is not None for step in steps)
        return StepFlow(steps, self._list_groups(stage) if has_groups else [])

    def list_actions(self, step: StepExecution) -> list[ActionRun]:
        """Return the actions of a step, in order."""
        if self._actions is None:
            steps = {step_row.pk: step_row for step_row in self.all_steps}
            self._actions = {pk: [] for pk in steps}
            for row in ActionRun.objects.filter(step__in=list(steps)).order_by("step", "position"):
                row.step = steps[row.step_id]
                self._actions[row.step_id].append(row)
        return self._actions[step.pk]

    def list_phase_calls(self, action: ActionRun, attempt: int, phase: str) -> list[AwsCall]:
        """Return the stored and new calls of one phase of an action."""
        calls = self.list_action_calls(action)
        return [row for row in calls if row.attempt == attempt and row.phase == phase]

    def list_action_calls(self, action: ActionRun) -> list[AwsCall]:
        """Return the calls of an action in all its phases."""
        return [row for row in self._calls_of_step(action.step) if row.action_id == action.pk]

    def get_last_answer_time(self, step: StepExecution) -> datetime | None:
        """Return when AWS answered the last write of a step."""
        answers = (
            row.answered_at
            for row in self._calls_of_step(step)
            if row.is_write and row.state == CallState.ANSWERED and row.answered_at is not None
        )
        return max(answers, default=None)

    def reload_open_calls(self, step: StepExecution) -> None:
        """Reload the calls of a step if one is open: a delegate may record its answer at any time."""
        if any(row.pk is not None and row.state in _OPEN for row in self._calls.get(step.pk, ())):
            del self._calls[step.pk]

    def get_rollback_values(self, step: StepExecution, run: int) -> dict[str, RollbackValue]:
        """Return the rollback values of one run of a step by name."""
        key = (step.pk, run)
        if key not in self._rollback_values:
            self._rollback_values[key] = {
                row.name: row for row in RollbackValue.objects.filter(step=step, run=run)
            }
        return self._rollback_values[key]

    def list_claims(self, stage: StageExecution) -> list[ServiceLockClaim]:
        """Return the lock claims of a stage's steps; `is_granted` is whether the lock is held."""
        if stage.pk not in self._claims:
            granted = Exists(ServiceLock.objects.filter(key=OuterRef("key"), stage=OuterRef("stage")))
            rows = ServiceLockClaim.objects.filter(stage=stage).annotate(is_granted=granted)
            steps = {step.pk: step for step in self.all_steps}
            self._claims[stage.pk] = list(rows.order_by("requested_at", "pk"))
            for claim in self._claims[stage.pk]:
                claim.step = steps[claim.step_id]
        return self._claims[stage.pk]

    def list_waiting_claims(self, stage: StageExecution) -> list[ServiceLockClaim]:
        """Return the claims of a stage that are not granted now, oldest first."""
        if not self._may_wait_for_service:
            return []
        return [claim for claim in self.list_claims(stage) if not claim.is_granted]  # type: ignore[attr-defined]

    def changes_other_service(self, step: StepExecution) -> bool:
        """Return whether a step changes only other ECS services than the stage's main one."""
        if not self._may_change_several:
            return False
        claims = self.list_claims(step.stage)
        services = {claim.ecs_service for claim in claims if claim.step_id == step.pk}
        return bool(services) and step.stage.ecs_service not in services

    def reload_claims(self) -> None:
        """Discard the loaded claims, which have changed in the database."""
        self._claims, self._may_wait_for_service, self._may_change_several = {}, True, True

    @property
    def known_events(self) -> set[str]:
        """Return the ids of the AWS events that are already in the log."""
        if self._known_events is None:
            events = AwsEvent.objects.filter(execution=self.execution)
            self._known_events = set(events.values_list("event_id", flat=True))
        return self._known_events

    def get_mask(self, stage: StageExecution) -> SecretMask:
        """Return the mask of the secrets that no line of a stage may show."""
        if stage.pk not in self._masks:
            self._masks[stage.pk] = build_stage_mask(stage, steps=self.all_steps)
        return self._masks[stage.pk]

    # --- changes ----------------------------------------------------------------------------------

    def change(self, row: models.Model, /, **values: object) -> None:
        """Change columns of a row in memory; the next commit writes them."""
        for name, value in values.items():
            setattr(row, name, value)
        if not _MASK_COLUMNS.isdisjoint(values):
            self._masks = {}
        self._changed.setdefault(id(row), (row, set()))[1].update(values)

    def add_lines(self, lines: Sequence[NewLogLine], mask: SecretMask) -> None:
        """Append redacted lines to the log with the next commit."""
        self._lines.append((list(lines), mask))

    def add_rollback_values(self, rollback_values: Sequence[RollbackValue]) -> None:
        """Save rollback values with the next commit; the first value of a name stays."""
        for value in rollback_values:
            self.get_rollback_values(value.step, value.run).setdefault(value.name, value)
        self._new_rollback_values += rollback_values

    def add_events(self, events: Sequence[AwsEvent]) -> None:
        """Record with the next commit that these AWS events are in the log."""
        self._new_events += events

    def add_call(self, row: AwsCall) -> None:
        """Write a new or changed call with the next commit."""
        calls = self._calls_of_step(row.step)
        if not any(known_call is row for known_call in calls):
            calls.append(row)
        if row.pk is None:
            if not any(known_call is row for known_call in self._new_calls):
                self._new_calls.append(row)
            return
        self._changed.setdefault(id(row), (row, set()))[1].update(_ANSWER_COLUMNS)

    def add_write(self, write: Callable[[], object]) -> None:
        """Run a function inside the next commit."""
        self._extra_writes.append(write)

    # --- writing ----------------------------------------------------------------------------------

    @contextmanager
    def commit(self, *, reload: bool = False) -> Iterator[None]:
        """Run one transaction under the fence (rule 2) that writes all changes.

        Changes made before the body are in the database when it runs. `reload` means that the body changes
        rows by queries or other objects. Raises `LeaseLostError`.
        """
        failpoint("commit.before")
        try:
            with transaction.atomic():
                self._write(is_first=True)
                yield
                self._write(is_first=False)
                transaction.on_commit(self.lease.publish_changes, robust=True)
        except BaseException:
            self.discard_changes()
            raise
        self.is_stale = self.is_stale or reload
        self._log_statuses()
        failpoint("commit.after")

    def save(self) -> None:
        """Commit the changes, if any. Raises `LeaseLostError`."""
        if self.has_changes:
            with self.commit():
                pass

    def release(self, **columns: Any) -> None:
        """Write the remaining changes and release the lease in the last commit of the pass."""
        failpoint("commit.before")
        with transaction.atomic():
            self._write(is_first=True, **columns)
            transaction.on_commit(self.lease.publish_changes, robust=True)
        self._log_statuses()
        failpoint("commit.after")
        failpoint("lease.released")

    def flush(self) -> None:
        """Write the changes so far; inside a commit."""
        self._write(is_first=False)

    @property
    def has_changes(self) -> bool:
        """Return whether there are changes for the next commit."""
        waiting = (self._changed, self._new_calls, self._new_rollback_values, self._new_events, self._lines)
        return any(waiting) or bool(self._extra_writes)

    def _log_statuses(self) -> None:
        self._status_log.record(self.execution, self.stages, self.all_steps)

    def discard_changes(self) -> None:
        """Discard uncommitted changes; the rows are loaded again."""
        self._changed, self._new_calls, self._new_rollback_values, self._new_events = {}, [], [], []
        self._lines, self._extra_writes = [], []
        self.is_stale = True

    def _write(self, *, is_first: bool, **columns: Any) -> None:
        batches, self._lines = self._lines, []
        rows = [
            row
            for lines, mask in batches
            for row in prepare_lines(lines, mask=mask, steps=self.all_steps, change=self.change)
        ]
        changed = self._pop_changed_columns(self.execution)
        if is_first or rows or changed or columns:
            values = {name: getattr(self.execution, name) for name in changed}
            first = self._write_execution({**values, **columns}, len(rows))
            if rows:
                for step, number in self._list_first_lines(rows, first):
                    self.change(step, first_line=number)
                append_lines(self.execution.pk, first, rows)
        for lines, mask in batches:
            if isinstance(mask, HidingMask):
                keep_hidden_lines(self.execution.pk, lines)
        extra_writes, self._extra_writes = self._extra_writes, []
        for write in extra_writes:
            write()
        self._write_rows()

    def _write_execution(self, values: dict[str, Any], lines: int) -> int:
        """Update the execution under the fence; return the number of the first new line."""
        owned = self.lease.filter_owned()
        execution = self.execution
        first = execution.next_line_number
        if lines:
            with_expected_number = owned.filter(next_line_number=first)
            if with_expected_number.update(
                **{"fence": self.lease.fence, **values, "next_line_number": first + lines}
            ):
                execution.next_line_number = first + lines
                return first
            # Another process appended lines meanwhile, such as a decision on an approval.
            values = {**values, "next_line_number": F("next_line_number") + lines}
        if not owned.update(**{"fence": self.lease.fence, **values}):
            raise LeaseLostError
        if lines:
            execution.next_line_number = Execution.objects.values_list("next_line_number", flat=True).get(
                pk=execution.pk
            )
            first = execution.next_line_number - lines
            numbers = StepExecution.objects.filter(stage__execution=execution).values_list("pk", "first_line")
            first_lines = dict(numbers)
            for step in self.all_steps:
                step.first_line = first_lines[step.pk]
        return first

    def _list_first_lines(self, rows: Sequence[Any], first: int) -> Iterator[tuple[StepExecution, int]]:
        steps = {step.pk: step for step in self.all_steps if step.first_line is None}
        for number, (line, _) in enumerate(rows, first):
            if (step := steps.pop(line.step_id, None)) is not None:
                yield step, number

    def _write_rows(self) -> None:
        changed, self._changed = self._changed, {}
        for row, names in sorted(changed.values(), key=lambda pair: _get_lock_rank(pair[0])):
            row.save(update_fields=names)
        new, self._new_calls = self._new_calls, []
        if new:
            AwsCall.objects.bulk_create(new)
        rollback_values, self._new_rollback_values = self._new_rollback_values, []
        if rollback_values:
            RollbackValue.objects.bulk_create(rollback_values, ignore_conflicts=True)
        events, self._new_events = self._new_events, []
        if events:
            AwsEvent.objects.bulk_create(events, ignore_conflicts=True)

    def _pop_changed_columns(self, row: models.Model) -> set[str]:
        return self._changed.pop(id(row), (row, set()))[1]

    def _list_groups(self, stage: StageExecution) -> list[StepGroup]:
        if self._groups is None:
            self._groups = defaultdict(list)
            for group in StepGroup.objects.filter(stage__in=self.stages).order_by("position"):
                self._groups[group.stage_id].append(group)
        return self._groups[stage.pk]

    def _calls_of_step(self, step: StepExecution) -> list[AwsCall]:
        if step.pk not in self._calls:
            self._calls[step.pk] = list(AwsCall.objects.filter(step=step).order_by("pk"))
            for row in self._calls[step.pk]:
                row.step, row.execution = step, self.execution
        return self._calls[step.pk]


def _get_lock_rank(row: models.Model) -> int:
    kind = type(row)
    return _LOCK_ORDER.index(kind) if kind in _LOCK_ORDER else len(_LOCK_ORDER)


def _load_stages(execution: Execution) -> tuple[list[StageExecution], dict[int, list[StepExecution]]]:
    """Return the stages and their steps, in order, with one query: every stage has steps."""
    rows = StepExecution.objects.filter(stage__execution=execution).select_related("stage__connector__secret")
    stages: dict[int, StageExecution] = {}
    steps: dict[int, list[StepExecution]] = defaultdict(list)
    for step in rows.order_by("stage__position", "section", "position"):
        step.stage = stages.setdefault(step.stage_id, step.stage)
        step.stage.execution = execution
        steps[step.stage_id].append(step)
    return list(stages.values()), steps


class RollbackData:
    """Rollback data of one run of a step; `new` entries wait for the next commit."""

    def __init__(self, step: StepExecution, run: int, loaded: Mapping[str, RollbackValue]) -> None:
        self._step = step
        self._run = run
        self._values = dict(loaded)
        self.new: list[RollbackValue] = []

    def save_for_rollback(self, name: str, value: Any) -> Any:
        """Save a value unless the name has one; return the saved value."""
        if name not in self._values:
            self._values[name] = RollbackValue(
                step=self._step, run=self._run, name=name, value=json.dumps(value)
            )
            self.new.append(self._values[name])
        return json.loads(self._values[name].value)

    def load_for_rollback(self, name: str) -> Any:
        """Return the saved value, or None."""
        row = self._values.get(name)
        return None if row is None else json.loads(row.value)


class EarlierStepData:
    """Rollback data and outputs of the last run of an earlier step."""

    def __init__(self, step: StepExecution, loaded: Mapping[str, RollbackValue] | None = None) -> None:
        self._step = step
        if loaded is None:
            loaded = {row.name: row for row in RollbackValue.objects.filter(step=step, run=step.run)}
        self._rollback_values = RollbackData(step, step.run, loaded)

    def load_for_rollback(self, name: str) -> Any:
        """Return a value that the step saved for its rollback, or None."""
        return self._rollback_values.load_for_rollback(name)

    def get_output(self, name: str) -> Any:
        """Return an output of the step, or None."""
        return self._step.all_outputs.get(name)

    @property
    def has_ended(self) -> bool:
        return self._step.status in TERMINAL_STATUSES


UNDO_TRIES = 3
# Maximum number of notes of an execution.
MOST_NOTES = 50
