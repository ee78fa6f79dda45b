"""Rollback of a stage: undos of its steps, newest first, and the verified checklist."""

from collections.abc import Iterator
from datetime import timedelta

from deployments.engine import failures, transitions
from deployments.engine.action_phases import (
    PhaseFailed,
    PhaseFinished,
    PhaseWaiting,
    is_loadable,
    run_phase,
    wait_for_other_version,
)
from deployments.engine.reconcile_context import (
    ReconcileContext,
    append_log,
    run_next_step,
    update_execution_status,
)
from deployments.engine.steps import preconditions
from deployments.engine.steps.context import EngineStepContext
from deployments.engine.undos import (
    ROLLBACK_UNIT,
    abandon_undo,
    advance_undo,
    get_next_undo,
    get_undo_phase,
    list_partner_steps,
    skip_remaining_undos,
)
from deployments.execution.queries import has_kept_stage
from deployments.journal.callers import VERIFY_PHASE
from deployments.models import ActionRun, RollbackCheck, StepExecution
from steps import conditions
from steps.actions.base import Action, ChecklistEntry
from steps.actions.context import StepContext
from steps.kinds.registry import get_step_kinds
from steps.states import ActionState, Outcome, Status

ROLLBACK_TIMED_OUT = "The rollback did not end within its time-out."
_UNKNOWN_KIND = "Only another version of Slipway knows what this step undoes."


def verify_rollback(reconcile_context: ReconcileContext, step: StepExecution) -> timedelta | None:
    """Compare the state before and after each undone action, and end the step with the checklist."""
    checks: list[ChecklistEntry] = []
    # Of two deployments of a service, the first one knows how it was before.
    checked: set[tuple[str, str]] = set()
    undone = _list_undone(reconcile_context, step)
    if (wait := _get_wait_for_other_version(reconcile_context, step, undone)) is not None:
        return wait
    if not undone and step.type not in get_step_kinds():
        checks.append(ChecklistEntry(step.name, "as before", "not known", ok=False, note=_UNKNOWN_KIND))
    for row in undone:
        if not is_loadable(row):
            checks.append(ChecklistEntry(row.title, "as before", "not known", ok=False, note=row.detail))
            continue
        end = run_phase(
            reconcile_context, row, get_undo_phase(VERIFY_PHASE, row), _get_checklist, log_step=step
        )
        if isinstance(end, PhaseWaiting):
            return end.time
        entries = _list_checks(row, end)
        checks += [entry for entry in entries if (row.name, entry.subject) not in checked]
        checked |= {(row.name, entry.subject) for entry in entries}
        if isinstance(end, PhaseFinished):
            end.context.finish(keep_progress=False)
            reconcile_context.save()
    for row in undone:
        phase = get_undo_phase(VERIFY_PHASE, row)
        EngineStepContext(reconcile_context, row, phase, log_step=step).drop_results()
    _save_checklist(reconcile_context, step, checks, len(undone))
    return None


def _list_undone(reconcile_context: ReconcileContext, step: StepExecution) -> list[ActionRun]:
    """Return the actions that this rollback step has undone, or has left as they are, oldest first."""
    return [
        row
        for partner in reversed(list_partner_steps(reconcile_context, step))
        for row in reconcile_context.rows.list_actions(partner)
        if row.state in (ActionState.UNDONE, ActionState.NOT_RESTORED)
    ]


def _get_wait_for_other_version(
    reconcile_context: ReconcileContext, step: StepExecution, undone: list[ActionRun]
) -> timedelta | None:
    """Return the wait for a worker that can verify all undos; None if all can be, or time is up."""
    if _is_out_of_time(reconcile_context, step):
        return None
    if not undone and step.type not in get_step_kinds():
        return failures.INTERVENTION_CHECK_INTERVAL
    unknown = (row for row in undone if row.state == ActionState.UNDONE and not is_loadable(row))
    row = next(unknown, None)
    return wait_for_other_version(reconcile_context, row, step) if row is not None else None


def _get_checklist(action: Action, context: StepContext) -> list[ChecklistEntry]:
    return action.checklist(context)


def _list_checks(row: ActionRun, end: object) -> list[ChecklistEntry]:
    if isinstance(end, PhaseFinished):
        checks: list[ChecklistEntry] = list(end.value)  # type: ignore[call-overload]
        return checks
    reason = end.failure.message if isinstance(end, PhaseFailed) else "it could not be read"
    return [ChecklistEntry(row.title, "as before", "not known", ok=False, note=reason)]


def _save_checklist(
    reconcile_context: ReconcileContext, step: StepExecution, checks: list[ChecklistEntry], undone: int
) -> None:
    failed_checks = [check for check in checks if not check.ok]
    rows = [
        row
        for partner in list_partner_steps(reconcile_context, step)
        for row in reconcile_context.rows.list_actions(partner)
    ]
    is_restored = not failed_checks and all(row.state != ActionState.NOT_RESTORED for row in rows)
    status = Status.SUCCESS if is_restored else Status.FAILED
    # An older worker may have asked about an action that this step does not undo.
    has_question = step.intervention is not None
    now = reconcile_context.runtime.now()
    reconcile_context.change(step, status=status, ended_at=now, intervention=None)
    for line, level in _build_checklist_lines(checks, undone, restored=is_restored):
        append_log(reconcile_context, step, line, level, ROLLBACK_UNIT)
    mask = reconcile_context.mask
    with reconcile_context.commit():
        if has_question:
            update_execution_status(reconcile_context)
        RollbackCheck.objects.bulk_create(
            RollbackCheck(
                step=step,
                attempt=step.attempt,
                position=index,
                subject=check.subject,
                expected=mask.mask_text(str(check.expected)),
                actual=mask.mask_text(str(check.actual)),
                passed=check.ok,
                note=mask.mask_text(check.note),
            )
            for index, check in enumerate(checks)
        )


def _build_checklist_lines(
    checks: list[ChecklistEntry], undone: int, *, restored: bool
) -> Iterator[tuple[str, str]]:
    """Yield the lines of the checklist with their levels."""
    if not undone and not checks:
        yield "Nothing was changed in AWS, so there is nothing to undo.", "success" if restored else "error"
        return
    for check in checks:
        note = f" ({check.note})" if check.note else ""
        if check.ok:
            yield f"ok: {check.subject}: {check.actual}{note}", "info"
        else:
            expected = f", expected {check.expected}"
            yield f"NOT RESTORED: {check.subject}: found {check.actual}{expected}{note}", "error"
    if restored:
        yield "Rollback verified.", "success"
    else:
        yield "The rollback is not complete: see the lines above.", "error"


KEPT_OUTCOMES = (Outcome.ROLLED_BACK_BY_AWS, Outcome.SUPERSEDED)


def advance_rollback(reconcile_context: ReconcileContext) -> timedelta | None:
    """Advance the next of the current rollback steps; None means continue immediately."""
    current = reconcile_context.rows.build_flow(
        reconcile_context.stage, StepExecution.Section.ROLLBACK
    ).list_current()
    if not current:
        _end(reconcile_context)
        return None
    return run_next_step(reconcile_context, _select_independent(reconcile_context, current), _advance_step)


def _select_independent(
    reconcile_context: ReconcileContext, current: list[StepExecution]
) -> list[StepExecution]:
    """Return the steps that undo different things; undos of one ECS service run one after the other."""
    if len(current) == 1:
        return current
    independent: list[StepExecution] = []
    taken_keys: set[str] = set()
    for step in current:
        undone = list_partner_steps(reconcile_context, step)
        steps = {partner.pk for partner in undone}
        claims = (claim.key for claim in reconcile_context.claims if claim.step_id in steps)
        keys = {*claims, *(f"step {partner.pk}" for partner in undone)}
        if not keys & taken_keys:
            independent.append(step)
        taken_keys |= keys
    return independent


def _advance_step(reconcile_context: ReconcileContext, step: StepExecution) -> timedelta | None:
    if step.status == Status.QUEUED:
        if not _is_skipped(reconcile_context, step):
            _start(reconcile_context, step)
        return None
    row = get_next_undo(reconcile_context, step)
    if row is None:
        return verify_rollback(reconcile_context, step)
    if (step.intervention or {}).get("kind") == "NOT_RESTORED":
        return _wait_for_intervention(reconcile_context, step)
    if _is_out_of_time(reconcile_context, step):
        with reconcile_context.commit(reload=True):
            abandon_undo(reconcile_context, step, row, ROLLBACK_TIMED_OUT)
        return None
    return advance_undo(reconcile_context, step, row)


def _is_out_of_time(reconcile_context: ReconcileContext, step: StepExecution) -> bool:
    return step.timeout_at is not None and reconcile_context.runtime.now() >= step.timeout_at


def _is_skipped(reconcile_context: ReconcileContext, step: StepExecution) -> bool:
    """Return whether the condition skips the rollback step; an unclear condition does not."""
    try:
        return preconditions.skip_if_unmet(reconcile_context, step)
    except conditions.UnclearConditionError as unclear:
        text = f"The condition of {step.name} has no answer, so the rollback runs: {unclear}"
        append_log(reconcile_context, step, text, "warning", ROLLBACK_UNIT)
        reconcile_context.save()
        return False


def _start(reconcile_context: ReconcileContext, step: StepExecution) -> None:
    now = reconcile_context.runtime.now()
    timeout_at = now + timedelta(seconds=step.timeout_seconds)
    reconcile_context.change(step, status=Status.RUNNING, started_at=now, timeout_at=timeout_at)
    cause = (
        (reconcile_context.execution.failure or {}).get("message", "a rollback was requested").split("\n")[0]
    )
    append_log(reconcile_context, step, f"Rolling back: {cause}", "warning", ROLLBACK_UNIT)
    reconcile_context.save()


def _wait_for_intervention(reconcile_context: ReconcileContext, step: StepExecution) -> timedelta | None:
    if (remaining := failures.get_time_left(reconcile_context, step)) is not None:
        return remaining
    with reconcile_context.commit(reload=True):
        append_log(
            reconcile_context,
            step,
            f"Nobody decided in time. {failures.REACTION_MESSAGES['LeaveRest']}",
            "warning",
            ROLLBACK_UNIT,
        )
        failures.clear_intervention(reconcile_context, step)
        skip_remaining_undos(reconcile_context, step)
    return None


def _skip_undos_of_skipped_steps(reconcile_context: ReconcileContext) -> None:
    """Skip the undos that only skipped rollback steps would run; inside a commit."""
    skipped = reconcile_context.stage.steps.filter(
        section=StepExecution.Section.ROLLBACK, status=Status.SKIPPED
    )
    for step in skipped.order_by("position"):
        if get_next_undo(reconcile_context, step) is not None:
            skip_remaining_undos(
                reconcile_context, step, f"{step.name} was skipped {step.skip_reason}".strip()
            )


def _end(reconcile_context: ReconcileContext) -> None:
    execution = reconcile_context.execution
    with reconcile_context.commit(reload=True):
        _skip_undos_of_skipped_steps(reconcile_context)
    rollbacks = StepExecution.objects.filter(
        stage__execution=execution, section=StepExecution.Section.ROLLBACK
    )
    failed = rollbacks.filter(status=Status.FAILED).exists()
    with reconcile_context.commit(reload=True):
        if transitions.start_earlier_rollback(reconcile_context):
            return
        all_rows = ActionRun.objects.filter(step__stage__execution=execution)
        execution.final_status = transitions.get_status_after_rollback(execution, all_rows)
        execution.rolling_back = False
        is_kept = execution.outcome in KEPT_OUTCOMES or (
            # A failed stage undoes only itself.
            not transitions.was_successful(execution) and has_kept_stage(execution)
        )
        if not failed and transitions.is_all_undone(all_rows) and not is_kept:
            execution.outcome = Outcome.ROLLED_BACK
        elif execution.final_status == Status.FAILED and execution.outcome == Outcome.COMPLETED:
            # What it deployed is partly undone.
            execution.outcome = Outcome.FAILED
        execution.save(update_fields=["final_status", "rolling_back", "outcome"])
