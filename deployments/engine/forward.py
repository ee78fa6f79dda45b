"""Forward: the steps of a stage in order, the actions of a step in order."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from deployments.engine import beginning, failing, judging, reacting, slots, turning
from deployments.engine.again import next_attempt
from deployments.engine.approvals import show_waiting
from deployments.engine.flow import ENDED_BADLY
from deployments.engine.rollout import EngineRollout
from deployments.engine.running import Failed, Finished, Wait, load, park, run
from deployments.engine.shared import Shared
from deployments.engine.taking import take_turn
from deployments.engine.telling import say
from deployments.models import ActionRun, StepExecution
from steps import conditions
from steps.actions.base import Action, ActionFailed, Rollout, known_actions
from steps.kinds.base import known_steps
from steps.states import TERMINAL, ActionState, Outcome, Status, UndoState

# For what follows in a step whose last look found it done.
AFTER_LAST_LOOK = timedelta(minutes=1)


def begin_stage(shared: Shared) -> None:
    """The first look at a stage: whether it runs at all, and then it does."""
    now = shared.world.now()
    try:
        reason, trouble = judging.stage_reason(shared), ""
    except conditions.UnclearConditionError as unclear:
        reason, trouble = "", str(unclear)
    if reason:
        judging.skip_stage(shared, reason)
        return
    started_at = shared.execution.started_at or now
    shared.change(shared.stage, status=Status.RUNNING)
    shared.change(shared.execution, status=Status.RUNNING, started_at=started_at)
    shared.save()
    if trouble:
        first = shared.rows.steps_of(shared.stage)[0]
        failing.fail(shared, first, None, beginning.unclear("stage", trouble))


def advance(shared: Shared) -> timedelta | None:
    """One step of progress, of whichever current step has its turn; None means go on at once."""
    current = shared.rows.flow_of(shared.stage).current()
    if not current:
        _end_stage(shared)
        return None
    return take_turn(shared, current, _advance_step)


def _advance_step(shared: Shared, step: StepExecution) -> timedelta | None:
    if step.status == Status.QUEUED:
        beginning.begin_step(shared, step)
        return None
    if step.retry_at is not None:
        return _try_again(shared, step, step.retry_at)
    if (step.intervention or {}).get("kind") == "FAILED":
        return reacting.wait(shared, step)
    row = _next_action(shared, step)
    if slots.waits(shared, step):
        return _hold(shared, step, row)
    if _is_out_of_time(shared, step, row):
        _run_out_of_time(shared, step, row)
        return None
    if row is None:
        _end_step(shared, step)
        return None
    return advance_action(shared, row)


def _hold(shared: Shared, step: StepExecution, row: ActionRun | None) -> timedelta | None:
    """Wait for the ECS service that the step wants to change; its time does not run meanwhile."""
    try:
        return None if slots.hold(shared, step) else slots.WAIT
    except ActionFailed as crossed:
        failing.fail(shared, step, row, crossed)
        return None


def _is_out_of_time(shared: Shared, step: StepExecution, row: ActionRun | None) -> bool:
    """Whether the step has run out of time, and no action is there that says so itself."""
    if step.timeout_at is None or shared.world.now() < step.timeout_at:
        return False
    action = known_actions().get(row.name) if row is not None else None
    return action is None or not action.watches_timeout


def advance_action(shared: Shared, row: ActionRun) -> timedelta | None:
    """Start an action, or look whether it is done."""
    if row.state == ActionState.WAITING:
        shared.change(row, state=ActionState.STARTED, started_at=shared.world.now())
    if row.start_done_at is None:
        end = run(shared, row, "start", _start)
    else:
        end = run(shared, row, "look", _is_done)
    if isinstance(end, Wait):
        return end.time
    if isinstance(end, Failed):
        failing.fail(shared, row.step, row, end.failure)
        return None
    assert isinstance(end, Finished)  # noqa: S101 - a start that may send never ends as NeverHappened
    if row.start_done_at is not None:
        return _finish_look(shared, row, end)
    return _finish_start(shared, row, end.rollout)


def _start(action: Action, rollout: Rollout) -> None:
    action.start(rollout)


def _is_done(action: Action, rollout: Rollout) -> bool:
    return action.is_done(rollout)


def _finish_start(shared: Shared, row: ActionRun, rollout: EngineRollout) -> timedelta | None:
    now = shared.world.now()
    shared.change(row, start_done_at=now)
    rollout.finish(keep_progress=False)
    rollout.drop_results()
    shared.save()
    return park(shared, rollout, since=now, deadline=row.step.timeout_at) if rollout.awaits else None


def _finish_look(shared: Shared, row: ActionRun, end: Finished) -> timedelta | None:
    now = shared.world.now()
    if end.value:
        shared.change(row, state=ActionState.DONE, ended_at=now)
        _settle(shared, row)
    end.rollout.finish(keep_progress=True)
    status = Status.RUNNING if end.value else end.rollout.waits_as
    if status == Status.APPROVAL_WAITING:
        with shared.commit():
            show_waiting(shared, row.step, status)
    elif row.step.status != status and row.step.status not in TERMINAL:
        shared.change(row.step, status=status)
    if end.value:
        shared.save()
        return None
    # What this look saw is written when the pass ends, or by the next commit.
    if end.rollout.people_until is not None:
        return min(end.rollout.people_until - now, reacting.FOR_A_PERSON)
    return park(shared, end.rollout, since=row.start_done_at or now, deadline=row.step.timeout_at)


def _settle(shared: Shared, row: ActionRun) -> None:
    """What this action made needless is not undone any more."""
    types = load(row).settles
    if types:
        for step in shared.rows.steps_of(shared.stage, row.step.section):
            if step.type in types and step.position < row.step.position:
                for action in shared.rows.actions_of(step):
                    shared.change(action, undo_state=UndoState.SETTLED)


def _next_action(shared: Shared, step: StepExecution) -> ActionRun | None:
    done = (ActionState.DONE, ActionState.SKIPPED)
    return next((row for row in shared.rows.actions_of(step) if row.state not in done), None)


def _try_again(shared: Shared, step: StepExecution, at: datetime) -> timedelta | None:
    """The pause before a retry, and then the retry."""
    if (left := at - shared.world.now()) > timedelta(0):
        return left
    with shared.commit(reload=True):
        next_attempt(step)
        say(shared, step, f"Trying step {step.name} again: attempt {step.attempt}", "warning")
    return None


def _end_step(shared: Shared, step: StepExecution) -> None:
    shared.change(step, status=Status.SUCCESS, retries=0, ended_at=shared.world.now())
    shared.save()


def _end_stage(shared: Shared) -> None:
    rows, stage, execution = shared.rows, shared.stage, shared.execution
    marked = [step for step in rows.steps_of(stage) if step.status in ENDED_BADLY]
    if marked:
        # A step was marked as failure, and those that run after a failure have run.
        with shared.commit(reload=True):
            turning.skip_later(shared, Status(marked[0].status))
            turning.set_ending(shared, Status(marked[0].status))
        return
    if any(one.position > stage.position for one in rows.stages):
        failing.close_stage(shared, Status.SUCCESS)
        return
    ignored = any(step.status == Status.IGNORE_FAILED for step in rows.all_steps)
    failed = next((one for one in rows.stages if one.status in ENDED_BADLY), None)
    if failed is not None and stage.status not in TERMINAL:
        # This one ran because an earlier one failed.
        shared.change(stage, status=Status.SUCCESS)
    shared.change(
        execution, ending=failed.status if failed else Status.IGNORE_FAILED if ignored else Status.SUCCESS
    )
    if not failed:
        # Of what a person let go by nobody knows how it ended.
        otherwise = execution.outcome or (Outcome.FAILED if ignored else "")
        shared.change(execution, outcome=Outcome.COMPLETED if _has_deployed(rows.all_steps) else otherwise)
    shared.save()


def _has_deployed(steps: Sequence[StepExecution]) -> bool:
    """Whether what was to be deployed was; what a person or a strategy waved through was not (P01).

    An ignored failure beside the deployment says nothing of it; without a deployment, any failure counts.
    """
    deploying = [name for name, kind in known_steps().items() if kind.changes_ecs_service]
    deployments = [
        step
        for step in steps
        if step.section == StepExecution.Section.EXECUTION
        and step.type in deploying
        and not (step.status == Status.SKIPPED and step.failure is None)
    ]
    return all(step.failure is None for step in deployments or steps)


def _run_out_of_time(shared: Shared, step: StepExecution, row: ActionRun | None) -> None:
    """Fail, with what the action knows of the cause, unless one last look finds it done after all."""
    seen = _last_look(shared, row) if row is not None and row.start_done_at is not None else None
    if seen is not None and row is not None and seen.value is True:
        shared.change(step, timeout_at=shared.world.now() + AFTER_LAST_LOOK)
        _finish_look(shared, row, seen)
        return
    if seen is not None:
        seen.rollout.finish(keep_progress=True)
    cause = seen.value if seen is not None and isinstance(seen.value, ActionFailed) else None
    failing.fail(shared, step, row, _timed_out(step, cause))


def _last_look(shared: Shared, row: ActionRun) -> Finished | None:
    """What one last look sees; nothing where it cannot be made now: the time is over all the same."""
    end = run(shared, row, "look", lambda action, rollout: action.last_look(rollout))
    return end if isinstance(end, Finished) else None


def _timed_out(step: StepExecution, cause: ActionFailed | None) -> ActionFailed:
    minutes = round(step.timeout_seconds / 60, 1)
    words = f"The step did not end within its time-out of {minutes:g} minutes."
    if cause is None:
        advice = "Raise timeout of the step if this is normal for the service."
        return ActionFailed("TIMED_OUT", f"{words} {advice}", outcome="TIMED_OUT")
    return ActionFailed(
        cause.code,
        f"{words} {cause.message}",
        outcome="TIMED_OUT",
        container=cause.container,
        exit_code=cause.exit_code,
    )
