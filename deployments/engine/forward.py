"""Forward: the steps of a stage in order, the actions of a step in order."""

from datetime import datetime, timedelta

from django.db.models import QuerySet

from deployments.actions.base import Action, ActionFailed, Rollout, known_actions
from deployments.engine import beginning, failing, judging, reacting, slots, turning
from deployments.engine.again import next_attempt
from deployments.engine.approvals import show_waiting
from deployments.engine.flow import ENDED_BADLY, flow_of
from deployments.engine.rollout import EngineRollout
from deployments.engine.running import Failed, Finished, Wait, load, park, run
from deployments.engine.shared import Shared
from deployments.engine.taking import take_turn
from deployments.engine.telling import say
from deployments.models import ActionRun, StepExecution
from deployments.states import TERMINAL, ActionState, Outcome, Status, UndoState
from deployments.steps.base import known_steps


def begin_stage(shared: Shared) -> None:
    """The first look at a stage: whether it runs at all, and then it does."""
    now = shared.world.now()
    try:
        reason, trouble = judging.stage_reason(shared), ""
    except judging.UnclearConditionError as unclear:
        reason, trouble = "", str(unclear)
    if reason:
        judging.skip_stage(shared, reason)
        return
    with shared.lease.commit():
        shared.stage.status = Status.RUNNING
        shared.stage.save(update_fields=["status"])
        shared.execution.status = Status.RUNNING
        shared.execution.started_at = shared.execution.started_at or now
        shared.execution.save(update_fields=["status", "started_at"])
    if trouble:
        failing.fail(shared, flow_of(shared.stage).steps[0], None, beginning.unclear("stage", trouble))


def advance(shared: Shared) -> timedelta | None:
    """One step of progress, of whichever current step has its turn; None means go on at once."""
    current = flow_of(shared.stage).current()
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
    row = _next_action(step)
    if slots.waits(shared, step):
        return _hold(shared, step, row)
    if _is_out_of_time(shared, step, row):
        failing.fail(shared, step, row, _timed_out(step))
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
    with shared.lease.commit():
        shared.change(row, start_done_at=now)
        rollout.finish(keep_progress=False)
        rollout.drop_results()
    return park(shared, rollout, since=now, deadline=row.step.timeout_at) if rollout.awaits else None


def _finish_look(shared: Shared, row: ActionRun, end: Finished) -> timedelta | None:
    now = shared.world.now()
    with shared.lease.commit():
        if end.value:
            shared.change(row, state=ActionState.DONE, ended_at=now)
            _settle(shared, row)
        end.rollout.finish(keep_progress=True)
        status = Status.RUNNING if end.value else end.rollout.waits_as
        if status == Status.APPROVAL_WAITING:
            show_waiting(shared, row.step, status)
        elif row.step.status != status and row.step.status not in TERMINAL:
            row.step.status = status
            row.step.save(update_fields=["status"])
    if end.value:
        return None
    if end.rollout.people_until is not None:
        return min(end.rollout.people_until - now, reacting.FOR_A_PERSON)
    return park(shared, end.rollout, since=row.start_done_at or now, deadline=row.step.timeout_at)


def _settle(shared: Shared, row: ActionRun) -> None:
    """What this action made needless is not undone any more; inside a commit."""
    types = load(row).settles
    if types:
        earlier = shared.stage.steps.filter(type__in=types, position__lt=row.step.position)
        ActionRun.objects.filter(step__in=earlier.filter(section=row.step.section)).update(
            undo_state=UndoState.SETTLED
        )


def _next_action(step: StepExecution) -> ActionRun | None:
    done = (ActionState.DONE, ActionState.SKIPPED)
    row: ActionRun | None = (
        step.actions.exclude(state__in=done).select_related("step").order_by("position").first()
    )
    return row


def _try_again(shared: Shared, step: StepExecution, at: datetime) -> timedelta | None:
    """The pause before a retry, and then the retry."""
    if (left := at - shared.world.now()) > timedelta(0):
        return left
    with shared.lease.commit():
        next_attempt(step)
        say(shared, step, f"Trying step {step.name} again: attempt {step.attempt}", "warning")
    return None


def _end_step(shared: Shared, step: StepExecution) -> None:
    with shared.lease.commit():
        step.status, step.retries = Status.SUCCESS, 0
        step.ended_at = shared.world.now()
        step.save(update_fields=["status", "retries", "ended_at"])


def _end_stage(shared: Shared) -> None:
    forward = shared.stage.steps.filter(section=StepExecution.Section.EXECUTION, status__in=ENDED_BADLY)
    if (marked := forward.order_by("position").first()) is not None:
        # A step was marked as failure, and those that run after a failure have run.
        with shared.lease.commit():
            turning.skip_later(shared, Status(marked.status))
            turning.set_ending(shared, Status(marked.status))
        return
    from_here = shared.execution.stages.filter(position__gt=shared.stage.position)
    if from_here.exists():
        failing.close_stage(shared, Status.SUCCESS)
        return
    steps = StepExecution.objects.filter(stage__execution=shared.execution)
    with shared.lease.commit():
        ignored = steps.filter(status=Status.IGNORE_FAILED).exists()
        failed = shared.execution.stages.filter(status__in=ENDED_BADLY).order_by("position").first()
        if failed is not None and shared.stage.status not in TERMINAL:
            # This one ran because an earlier one failed.
            shared.stage.status = Status.SUCCESS
            shared.stage.save(update_fields=["status"])
        shared.execution.ending = (
            failed.status if failed else Status.IGNORE_FAILED if ignored else Status.SUCCESS
        )
        if not failed:
            # Of what a person let go by nobody knows how it ended.
            otherwise = shared.execution.outcome or (Outcome.FAILED if ignored else "")
            shared.execution.outcome = Outcome.COMPLETED if _has_deployed(steps) else otherwise
        shared.execution.save(update_fields=["ending", "outcome"])


def _has_deployed(steps: QuerySet[StepExecution]) -> bool:
    """Whether what was to be deployed was; what a person or a strategy waved through was not (P01).

    An ignored failure beside the deployment says nothing of it; without a deployment, any failure counts.
    """
    deploying = [name for name, kind in known_steps().items() if kind.changes_ecs_service]
    forward = steps.filter(section=StepExecution.Section.EXECUTION, type__in=deploying)
    deployments = forward.exclude(status=Status.SKIPPED, failure__isnull=True)
    counting = deployments if deployments.exists() else steps
    return not counting.exclude(failure=None).exists()


def _timed_out(step: StepExecution) -> ActionFailed:
    minutes = round(step.timeout_seconds / 60, 1)
    return ActionFailed(
        "TIMED_OUT",
        f"The step did not end within its time-out of {minutes:g} minutes. "
        "Raise timeout of the step if this is normal for the service.",
        outcome="TIMED_OUT",
    )
