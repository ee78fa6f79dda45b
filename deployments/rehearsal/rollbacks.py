"""Rehearsal of a rollback: the undos of an execution, newest change first, in a sandbox filled for it."""

import json
import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F

from aws.errors import AwsError
from aws.preview import PlannedCall
from delegates.access.aws_access import get_local_caller
from deployments.engine.action_phases import build_refusal
from deployments.engine.stage_rollback import ROLLBACK_TIMED_OUT
from deployments.execution.undo_plan import list_open_undos, list_stages_to_undo, order_undos
from deployments.journal.secret_values import build_stage_mask
from deployments.models import ActionRun, AwsCall, Execution, RollbackValue, StageExecution, StepExecution
from deployments.preview.conditions import StageForecast
from deployments.preview.step_context import PreviewedStageData
from deployments.rehearsal.clocks import RehearsalClock
from deployments.rehearsal.cluster_reads import ClusterSnapshot, find_texts, read_cluster
from deployments.rehearsal.rehearsals import explain_unknown_end, fill_sandbox, record_run
from deployments.rehearsal.results import RehearsalResult, RehearsedStep
from deployments.rehearsal.runs import OTHER_PLACE, REHEARSED_PREFIX
from deployments.rehearsal.sandbox_access import RehearsalSandbox, open_sandbox_caller, start_sandbox
from deployments.rehearsal.step_context import (
    OUTSIDE_AWS,
    ManifestReads,
    NotRehearsed,
    RehearsalCaller,
    RehearsedStepData,
    UndoContext,
)
from guards.limits import REHEARSAL_SECONDS
from steps.actions.base import Action, ActionFailed, UnknownActionError, load_action
from steps.states import CallState

NOT_SIMULATED: Final = "IAM's simulation is not asked about a rollback: the sandbox denies nothing."


def rehearse_rollback_of(execution: Execution, behavior: str) -> RehearsalResult:
    """Rehearse the undos of an execution, whose restored images have a behavior of `BEHAVIORS`.

    Only reads are made with the connector, all before the sandbox starts.
    """
    result = RehearsalResult(behavior, execution.artifact)
    deadline = time.monotonic() + float(REHEARSAL_SECONDS)
    stages = list_stages_to_undo(execution)
    with explain_unknown_end(result):
        snapshot = _read_cluster(stages[0])
        result.resources, result.notes = snapshot.count(), [*snapshot.unread, NOT_SIMULATED]
        with start_sandbox() as sandbox:
            fill_sandbox(sandbox, snapshot, result, images=_list_restored_images(snapshot))
            record_run(RollbackRehearsal(stages, sandbox, deadline), result)
    return result


def _read_cluster(stage: StageExecution) -> ClusterSnapshot:
    """Return the cluster with what the stage has changed and saved there."""
    writes = AwsCall.objects.filter(step__stage=stage, is_write=True)
    calls = [PlannedCall(call.service, call.operation, call.parsed_parameters) for call in writes]
    values = RollbackValue.objects.filter(step__stage=stage)
    documents = [json.loads(row.value) for row in values]
    caller = get_local_caller(stage.connector, stage.region)
    return read_cluster(caller, region=stage.region, cluster=stage.cluster, calls=calls, documents=documents)


def _list_restored_images(snapshot: ClusterSnapshot) -> list[str]:
    """Return the images of saved revisions that no service of the snapshot runs now."""
    current = {row.get("taskDefinition") for row in snapshot.resources["services"]}
    images: dict[bool, set[str]] = {True: set(), False: set()}
    for row in snapshot.resources["taskDefinitions"]:
        images[row["taskDefinitionArn"] in current] |= set(find_texts(row["containerDefinitions"], "image"))
    return sorted(images[False] - images[True])


@dataclass(frozen=True)
class _Undo:
    """An action to undo, with the step that it belongs to."""

    row: ActionRun
    action: Action
    step_data: RehearsedStepData


class RollbackRehearsal:
    """Undos of the stages of an execution against a filled sandbox, until `deadline`."""

    def __init__(self, stages: Sequence[StageExecution], sandbox: RehearsalSandbox, deadline: float) -> None:
        self._stages, self._sandbox = stages, sandbox
        self.clock = RehearsalClock(sandbox, deadline)
        self._undos_begun = 0
        self._is_over = False

    def list_steps(self) -> Iterator[RehearsedStep]:
        """Yield each rollback step after its undos. Raises `SandboxLost`, `RehearsalTooLong`."""
        for stage in self._stages:
            caller = RehearsalCaller(open_sandbox_caller(self._sandbox.url, stage.region), ManifestReads())
            stage_data = PreviewedStageData(stage.execution, stage, caller, build_stage_mask(stage))
            order, _ = order_undos(stage)
            partners: dict[int, list[StepExecution]] = {}
            rollbacks: dict[int, StepExecution] = {}
            for step, rollback in order:
                partners.setdefault(rollback.pk, []).append(step)
                rollbacks[rollback.pk] = rollback
            for key, rollback in rollbacks.items():
                yield self._rehearse(stage_data, caller, rollback, partners[key])

    def _rehearse(
        self,
        stage_data: PreviewedStageData,
        caller: RehearsalCaller,
        rollback: StepExecution,
        partners: Sequence[StepExecution],
    ) -> RehearsedStep:
        step = RehearsedStep(RehearsedStepData(rollback))
        if self._is_over:
            return step
        verdict = StageForecast(stage_data.execution, stage_data.stage).forecast_step(rollback)
        if verdict.skipped:
            step.status, step.reason = "SKIPPED", verdict.skipped
        elif reason := self._find_obstacle(rollback):
            step.status, step.reason = "NOT_REHEARSED", reason
        else:
            self._undo_steps(stage_data, caller, step, partners)
        return step

    def _find_obstacle(self, rollback: StepExecution) -> str:
        if not rollback.type.startswith(REHEARSED_PREFIX):
            return OUTSIDE_AWS
        first, stage = self._stages[0], rollback.stage
        is_same = all(
            getattr(first, name) == getattr(stage, name) for name in ("region", "cluster", "connector_id")
        )
        return "" if is_same else OTHER_PLACE

    def _undo_steps(
        self,
        stage_data: PreviewedStageData,
        caller: RehearsalCaller,
        step: RehearsedStep,
        partners: Sequence[StepExecution],
    ) -> None:
        first_call, began_at = len(caller.calls), self.clock.now
        rollback = step.step_data.step
        timeout_at = began_at + timedelta(seconds=rollback.timeout_seconds)
        try:
            undos = [undo for partner in partners for undo in _list_undos(stage_data, step, partner)]
            contexts = [self._undo(stage_data, undo, timeout_at) for undo in undos]
            self._verify(undos, contexts)
            step.status = "SUCCEEDED"
        except ActionFailed as failure:
            self._fail(stage_data, step, failure)
        except AwsError as error:
            self._fail(stage_data, step, build_refusal(stage_data.stage, error).failure)
        except (NotRehearsed, UnknownActionError) as reason:
            step.status, step.reason = "NOT_REHEARSED", stage_data.mask.mask_text(str(reason))
        step.seconds = self.clock.get_seconds_since(began_at)
        step.writes = [
            f"{call.service}:{call.operation}" for call in caller.calls[first_call:] if call.is_write
        ]

    def _fail(self, stage_data: PreviewedStageData, step: RehearsedStep, failure: ActionFailed) -> None:
        step.status, step.code = "FAILED", failure.code
        step.reason = stage_data.mask.mask_text(failure.message)
        self._is_over = True

    def _undo(self, stage_data: PreviewedStageData, undo: _Undo, timeout_at: datetime) -> UndoContext:
        """Undo one action, as the engine does, and return its context. Raises `ActionFailed`, `AwsError`."""
        self._undos_begun += 1
        context = UndoContext(stage_data, undo.step_data, self._undos_begun, {}, self.clock)
        context.progress = deepcopy(undo.row.progress)
        with context.use_undo_data():
            undo.action.prepare_undo(context)
        while not undo.action.may_undo(context):
            self._wait(context, timeout_at)
        with context.use_undo_data():
            undo.action.undo(context)
        while not undo.action.is_undone(context):
            self._wait(context, timeout_at)
        return context

    def _wait(self, context: UndoContext, timeout_at: datetime) -> None:
        if self.clock.now >= timeout_at:
            raise ActionFailed("TIMED_OUT", ROLLBACK_TIMED_OUT, outcome="TIMED_OUT")
        context.pass_time()

    def _verify(self, undos: Sequence[_Undo], contexts: Sequence[UndoContext]) -> None:
        """Compare the state with that from before, as the checklist does. Raises `ActionFailed`."""
        for undo, context in zip(undos, contexts, strict=True):
            for entry in undo.action.checklist(context):
                context.log(f"{entry.subject}: {entry.actual}", "success" if entry.ok else "error")
                if not entry.ok:
                    message = f"{entry.subject} would be {entry.actual}, not {entry.expected}."
                    raise ActionFailed("NOT_RESTORED", message)


def _list_undos(
    stage_data: PreviewedStageData, step: RehearsedStep, partner: StepExecution
) -> Iterator[_Undo]:
    """Yield the actions of a step that have changed AWS, newest first. Raises `UnknownActionError`."""
    values = {row.name: row.value for row in RollbackValue.objects.filter(step=partner, run=partner.run)}
    step_data = RehearsedStepData(
        partner,
        saved_values=values,
        outputs=dict(partner.all_outputs),
        # The log is that of the rollback step.
        lines=step.step_data.lines,
        times=step.step_data.times,
    )
    stage_data.steps.append(step_data)
    written = AwsCall.objects.filter(
        step=partner, is_write=True, phase__startswith="start", state=CallState.ANSWERED
    )
    of_this_run = written.filter(attempt__gte=F("action__first_attempt"))
    changed = set(of_this_run.values_list("action", flat=True))
    for row in list_open_undos(partner):
        action = load_action(row.name, row.version, row.parameters)
        if row.pk in changed and action.has_undo:
            yield _Undo(row, action, step_data)
