"""Backward: the undos of a stage's steps, newest first, and the checklist that proves them (rule 12)."""

from datetime import timedelta

from django.db.models import QuerySet

from deployments.actions.base import Action, ActionFailed, Check, NotOurs, Rollout, known_actions
from deployments.engine import judging, reacting, stages_back
from deployments.engine.flow import flow_of
from deployments.engine.running import Failed, Finished, Wait, load, park, run
from deployments.engine.shared import Shared
from deployments.engine.taking import take_turn
from deployments.engine.telling import say
from deployments.models import ActionRun, Call, CheckedItem, Execution, SlotClaim, StepExecution
from deployments.states import ActionState, CallState, Outcome, Status, UndoState
from deployments.steps.base import takes_back

TRIES = 3
UNIT = "Rollback"
DECIDE_WITHIN = timedelta(hours=1)
KEPT_OUTCOMES = (Outcome.ROLLED_BACK_BY_AWS, Outcome.SUPERSEDED)


def advance(shared: Shared) -> timedelta | None:
    """One step of progress, of whichever current rollback step has its turn; None means go on at once."""
    current = flow_of(shared.stage, StepExecution.Section.ROLLBACK).current()
    if not current:
        _end(shared)
        return None
    return take_turn(shared, _apart(shared, current), _advance_step)


def _apart(shared: Shared, current: list[StepExecution]) -> list[StepExecution]:
    """Those that undo different things: what concerns one ECS service is undone one after the other."""
    if len(current) == 1:
        return current
    found: list[StepExecution] = []
    taken: set[str] = set()
    for step in current:
        undone = partners(shared, step)
        claims = SlotClaim.objects.filter(step__in=undone).values_list("key", flat=True)
        concerned = {*claims, *(f"step {one.pk}" for one in undone)}
        if not concerned & taken:
            found.append(step)
        taken |= concerned
    return found


def _advance_step(shared: Shared, step: StepExecution) -> timedelta | None:
    if step.status == Status.QUEUED:
        if not _is_skipped(shared, step):
            _begin(shared, step)
        return None
    row = next_undo(shared, step)
    if row is None:
        return _verify(shared, step)
    if (step.intervention or {}).get("kind") == "NOT_RESTORED":
        return _wait_for_a_person(shared, step)
    if step.timeout_at is not None and shared.world.now() >= step.timeout_at:
        with shared.lease.commit():
            _give_up(shared, step, row, "The rollback did not end within its time-out.")
        return None
    return _undo(shared, step, row)


def _is_skipped(shared: Shared, step: StepExecution) -> bool:
    """Whether its condition keeps a rollback from running; one that has no answer does not."""
    try:
        return judging.is_skipped(shared, step)
    except judging.UnclearConditionError as unclear:
        with shared.lease.commit():
            text = f"The condition of {step.name} has no answer, so the rollback runs: {unclear}"
            say(shared, step, text, "warning", UNIT)
        return False


def _begin(shared: Shared, step: StepExecution) -> None:
    now = shared.world.now()
    with shared.lease.commit():
        step.status, step.started_at = Status.RUNNING, now
        step.timeout_at = now + timedelta(seconds=step.timeout_seconds)
        step.save(update_fields=["status", "started_at", "timeout_at"])
        cause = (shared.execution.failure or {}).get("message", "a person asked for it").split("\n")[0]
        say(shared, step, f"Rolling back: {cause}", "warning", UNIT)


def partners(shared: Shared, step: StepExecution) -> list[StepExecution]:
    """The steps that this rollback step undoes, newest first."""
    begun = shared.stage.steps.filter(section=StepExecution.Section.EXECUTION).exclude(started_at=None)
    return [
        one for one in begun.order_by("-position") if takes_back(step.type, step.spec, one.type, one.spec)
    ]


def next_undo(shared: Shared, step: StepExecution) -> ActionRun | None:
    """The action that this rollback step undoes now; None once all is undone."""
    for partner in partners(shared, step):
        open_rows = partner.actions.exclude(state__in=(ActionState.WAITING, ActionState.SKIPPED))
        row: ActionRun | None = (
            open_rows.exclude(undo_state=UndoState.SETTLED)
            .select_related("step")
            .order_by("-position")
            .first()
        )
        if row is not None:
            return row
    return None


def _undo(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    """Learn what happened, ask whether it may be undone, undo it, look until that has taken hold."""
    if row.undo_state == "":
        return _find_out(shared, step, row)
    if row.undo_state == UndoState.KNOWN:
        return _ask(shared, step, row)
    if row.undo_state == UndoState.READY:
        return _put_back(shared, step, row)
    return _follow(shared, step, row)


def _find_out(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    """Withdraw what is queued, then replay the start without sending, so that every answer is known."""
    with shared.lease.commit():
        planned = Call.objects.filter(action=row, attempt=row.attempt, is_write=True)
        planned.filter(state=CallState.PLANNED).update(state=CallState.NOT_SENT)
    writes = _writes(row)
    if row.start_done_at is None and writes.exists():
        end = run(shared, row, "start", _start, told_in=step, forbid_sending=True)
        if isinstance(end, Wait):
            return end.time
        if isinstance(end, Finished):
            with shared.lease.commit():
                end.rollout.finish(keep_progress=False)
    happened = writes.filter(state=CallState.ANSWERED).exists()
    with shared.lease.commit():
        if happened and load(row).has_undo:
            _change(shared, row, undo_state=UndoState.KNOWN, state=ActionState.UNDOING)
        else:
            _change(shared, row, undo_state=UndoState.SETTLED)
    return None


def _writes(row: ActionRun) -> QuerySet[Call]:
    """What this run of the action has written, or was about to."""
    return Call.objects.filter(
        action=row, attempt__gte=row.first_attempt, phase__startswith="start", is_write=True
    )


def _start(action: Action, rollout: Rollout) -> None:
    action.start(rollout)


def _ask(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    # Done once: the next look finds its answers in the journal and sends nothing.
    end = run(shared, row, _phase("undo prepared", row), _prepare_undo, told_in=step)
    if isinstance(end, Finished):
        with shared.lease.commit():
            end.rollout.finish(keep_progress=False)
        end = run(shared, row, _phase("ask", row), _may_undo, told_in=step)
    if isinstance(end, Wait):
        return end.time
    if isinstance(end, Failed):
        return _failed(shared, step, row, end.failure)
    assert isinstance(end, Finished)  # noqa: S101 - only replayed starts end otherwise
    with shared.lease.commit():
        if end.value:
            _change(shared, row, undo_state=UndoState.READY, undo_started_at=shared.world.now())
        end.rollout.finish(keep_progress=True)
    return None if end.value else timedelta(seconds=5)


def _prepare_undo(action: Action, rollout: Rollout) -> None:
    action.prepare_undo(rollout)


def _may_undo(action: Action, rollout: Rollout) -> bool:
    return action.may_undo(rollout)


def _put_back(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    end = run(shared, row, _phase("undo", row), _undo_action, told_in=step)
    if isinstance(end, Wait):
        return end.time
    if isinstance(end, Failed):
        return _failed(shared, step, row, end.failure)
    assert isinstance(end, Finished)  # noqa: S101
    with shared.lease.commit():
        _change(shared, row, undo_state=UndoState.SENT, undo_started_at=shared.world.now())
        end.rollout.finish(keep_progress=False)
        end.rollout.drop_results()
    return None


def _undo_action(action: Action, rollout: Rollout) -> None:
    action.undo(rollout)


def _follow(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    end = run(shared, row, _phase("restored", row), _is_undone, told_in=step)
    if isinstance(end, Wait):
        return end.time
    if isinstance(end, Failed):
        return _failed(shared, step, row, end.failure)
    assert isinstance(end, Finished)  # noqa: S101
    with shared.lease.commit():
        if end.value:
            _change(shared, row, undo_state=UndoState.SETTLED, state=ActionState.UNDONE)
        end.rollout.finish(keep_progress=True)
    if end.value:
        return None
    since = row.undo_started_at or shared.world.now()
    return park(shared, end.rollout, since=since, deadline=step.timeout_at)


def _is_undone(action: Action, rollout: Rollout) -> bool:
    return action.is_undone(rollout)


def _failed(shared: Shared, step: StepExecution, row: ActionRun, failure: ActionFailed) -> timedelta | None:
    if isinstance(failure, NotOurs):
        _leave_alone(shared, step, failure)
        return None
    tries = row.undo_tries + 1
    with shared.lease.commit():
        _change(shared, row, undo_tries=tries, undo_state=UndoState.KNOWN)
        if tries % TRIES == 0:
            _give_up(shared, step, row, failure.message)
            return None
        text = f"Undoing failed ({tries % TRIES} of {TRIES} tries): {failure.message}"
        say(shared, step, text, "warning", UNIT)
    return timedelta(seconds=2 ** (tries % TRIES))


def _give_up(shared: Shared, step: StepExecution, row: ActionRun, why: str) -> None:
    """Go on without it, unless what comes next could cut off users: then a person decides."""
    say(shared, step, f"Not restored: {row.title}. {why}", "error", UNIT)
    _change(shared, row, detail=why[:512])
    if load(row).moves_traffic:
        until = shared.world.now() + DECIDE_WITHIN
        reacting.ask(shared, step, "NOT_RESTORED", until=until, then="LeaveRest")
    else:
        leave(shared, row)


def _wait_for_a_person(shared: Shared, step: StepExecution) -> timedelta | None:
    if (left := reacting.time_left(shared, step)) is not None:
        return left
    with shared.lease.commit():
        say(shared, step, f"Nobody decided in time. {reacting.WORDS['LeaveRest']}", "warning", UNIT)
        reacting.go_on(shared, step)
        leave_rest(shared, step)
    return None


def leave(shared: Shared, row: ActionRun) -> None:
    """Leave one action as it is; inside a commit."""
    _change(shared, row, undo_state=UndoState.SETTLED, state=ActionState.NOT_RESTORED)


def leave_rest(shared: Shared, step: StepExecution, why: str = "") -> None:
    """Leave all that this rollback step has not undone yet as it is; inside a commit."""
    for partner in partners(shared, step):
        rows = partner.actions.exclude(state__in=(ActionState.WAITING, ActionState.SKIPPED))
        for row in rows.exclude(undo_state=UndoState.SETTLED):
            _leave_unless_needless(shared, row, why)


def _leave_unless_needless(shared: Shared, row: ActionRun, why: str) -> None:
    name = row.name
    has_undo = known_actions()[name].has_undo if name in known_actions() else True
    # Where nothing was written there is nothing that stays behind.
    changed = has_undo and _may_have_written(row)
    state = ActionState.NOT_RESTORED if changed else ActionState(row.state)
    _change(shared, row, undo_state=UndoState.SETTLED, state=state, detail=(why or row.detail)[:512])


def _may_have_written(row: ActionRun) -> bool:
    states = (CallState.SENT, CallState.UNKNOWN, CallState.ANSWERED)
    return _writes(row).filter(state__in=states).exists()


def reopen(execution: Execution) -> None:
    """What the last rollback could not restore is tried once more, as new tries; inside a commit."""
    rows = ActionRun.objects.filter(step__stage__execution=execution, state=ActionState.NOT_RESTORED)
    for row in rows:
        row.undo_tries = (row.undo_tries // TRIES + 1) * TRIES
        row.undo_state, row.detail = UndoState.KNOWN, ""
        row.save(update_fields=["undo_tries", "undo_state", "detail"])


def _leave_alone(shared: Shared, step: StepExecution, failure: NotOurs) -> None:
    """Somebody else deployed: nothing of this stage is touched any more (rule 12)."""
    with shared.lease.commit():
        say(shared, step, failure.message, "error", UNIT)
        leave_rest(shared, step, failure.message)
        shared.execution.outcome = Outcome.SUPERSEDED
        shared.execution.save(update_fields=["outcome"])


def _verify(shared: Shared, step: StepExecution) -> timedelta | None:
    """The checklist: what each undone action found before, beside what is there now."""
    checks: list[Check] = []
    undone = 0
    for partner in reversed(partners(shared, step)):
        for row in partner.actions.select_related("step").order_by("position"):
            if row.state not in (ActionState.UNDONE, ActionState.NOT_RESTORED):
                continue
            undone += 1
            if row.name not in known_actions():
                checks.append(Check(row.title, "as before", "not known", ok=False, note=row.detail))
                continue
            end = run(shared, row, _phase("verify", row), _checklist, told_in=step)
            if isinstance(end, Wait):
                return end.time
            checks += _checks_of(row, end)
            if isinstance(end, Finished):
                with shared.lease.commit():
                    end.rollout.finish(keep_progress=False)
    _conclude(shared, step, checks, undone)
    return None


def _checklist(action: Action, rollout: Rollout) -> list[Check]:
    return action.checklist(rollout)


def _checks_of(row: ActionRun, end: object) -> list[Check]:
    if isinstance(end, Finished):
        checks: list[Check] = list(end.value)  # type: ignore[call-overload]
        return checks
    why = end.failure.message if isinstance(end, Failed) else "it could not be read"
    return [Check(row.title, "as before", "not known", ok=False, note=why)]


def _conclude(shared: Shared, step: StepExecution, checks: list[Check], undone: int) -> None:
    broken = [check for check in checks if not check.ok]
    rows = ActionRun.objects.filter(step__in=partners(shared, step), state=ActionState.NOT_RESTORED)
    with shared.lease.commit():
        CheckedItem.objects.bulk_create(
            CheckedItem(
                step=step,
                attempt=step.attempt,
                position=index,
                subject=check.subject,
                expected=check.expected,
                found=check.found,
                ok=check.ok,
                note=check.note,
            )
            for index, check in enumerate(checks)
        )
        restored = not broken and not rows.exists()
        step.status = Status.SUCCESS if restored else Status.FAILED
        step.ended_at = shared.world.now()
        step.save(update_fields=["status", "ended_at"])
        lines = "\n".join(_closing_lines(checks, undone, restored=restored))
        say(shared, step, lines, "success" if restored else "error", UNIT)


def _closing_lines(checks: list[Check], undone: int, *, restored: bool) -> list[str]:
    if not undone:
        return ["Nothing was changed in AWS, so there is nothing to undo."]
    lines = [f"{'ok' if c.ok else 'NOT RESTORED'}: {c.subject}: {c.found}" for c in checks]
    for check in checks:
        if not check.ok:
            lines.append(f"  expected {check.expected} {check.note}".rstrip())
    return [
        *lines,
        "Rollback verified." if restored else "The rollback is not complete: see the lines above.",
    ]


def _leave_what_was_skipped(shared: Shared) -> None:
    """What only skipped rollback steps would have undone stays as it is, and is said to; inside a commit."""
    skipped = shared.stage.steps.filter(section=StepExecution.Section.ROLLBACK, status=Status.SKIPPED)
    for step in skipped.order_by("position"):
        if next_undo(shared, step) is not None:
            leave_rest(shared, step, f"{step.name} was skipped {step.skipped_because}".strip())


def _end(shared: Shared) -> None:
    execution = shared.execution
    with shared.lease.commit():
        _leave_what_was_skipped(shared)
    rollbacks = StepExecution.objects.filter(
        stage__execution=execution, section=StepExecution.Section.ROLLBACK
    )
    failed = rollbacks.filter(status=Status.FAILED).exists()
    ending = execution.status_before_rollback or Status.FAILED
    with shared.lease.commit():
        if stages_back.go_further_back(shared):
            return
        execution.ending = Status.FAILED if failed and ending == Status.SUCCESS else ending
        execution.rolling_back = False
        if not failed and _is_all_undone(execution) and execution.outcome not in KEPT_OUTCOMES:
            execution.outcome = Outcome.ROLLED_BACK
        execution.save(update_fields=["ending", "rolling_back", "outcome"])


def _is_all_undone(execution: Execution) -> bool:
    """Whether something was put back, and nothing that was written was left."""
    rows = ActionRun.objects.filter(step__stage__execution=execution)
    is_left = rows.filter(state=ActionState.NOT_RESTORED).exists()
    return not is_left and bool(rows.filter(state=ActionState.UNDONE).exists())


def _phase(name: str, row: ActionRun) -> str:
    """Each try of an undo has a journal of its own."""
    return f"{name}{row.undo_tries + 1}"


def _change(shared: Shared, row: ActionRun, **values: object) -> None:
    shared.change(row, **values)
    row.save(update_fields=[*shared.touched(row)])
