"""Phases of an action: one is run, and its end decides what the engine does next."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from aws.errors import AwsError, Denied, Undelivered
from delegates.access.aws_access import ConnectorUnavailable
from deployments.engine import failures, service_locks, step_inputs
from deployments.engine.reconcile_context import ReconcileContext
from deployments.engine.service_waits import get_check_interval, get_next_check
from deployments.engine.step_context import EngineStepContext
from deployments.journal.engine_signals import (
    AbortRequested,
    AnswerPending,
    AwsUnavailable,
    JournalMismatch,
    LeaseRunsOut,
    NeedsConfirmation,
    SendingForbidden,
    ServiceLockRequired,
)
from deployments.models import ActionRun, AwsCall, StepExecution
from steps.actions.base import Action, ActionFailed, UnknownActionError, load_action
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    Indeterminate,
    NotApplied,
    Unconfirmed,
)
from steps.actions.context import StepContext
from steps.states import TERMINAL_STATUSES, CallState, Status

RETRY_INTERVAL = timedelta(seconds=2)
LONGEST_BACKOFF_SECONDS = 30
LONGEST_CHECK_INTERVAL = timedelta(seconds=60)
CLUSTER_NOT_FOUND = "CLUSTER_NOT_FOUND"


@dataclass(frozen=True)
class PhaseFinished:
    """The phase came to its end; `value` is what it returned."""

    context: EngineStepContext
    value: object


@dataclass(frozen=True)
class PhaseWaiting:
    """The phase goes on in a later look; None means at once."""

    time: timedelta | None


@dataclass(frozen=True)
class PhaseFailed:
    """The phase cannot succeed; where AWS itself `refuses`, trying again changes nothing."""

    failure: ActionFailed
    refuses: bool = False


@dataclass(frozen=True)
class PhaseNeverSent:
    """A replayed start came to a call that was never made."""


PhaseEnd = PhaseFinished | PhaseWaiting | PhaseFailed | PhaseNeverSent


def wait_for_next_check(
    shared: ReconcileContext, context: EngineStepContext, *, since: datetime, deadline: datetime | None
) -> timedelta:
    """Wait for the next turn since `since`; where an ECS service is waited for, together with its group."""
    now = shared.world.now()
    shared.parking = context.parking(since=since, deadline=deadline)
    if context.sleeps_until is not None:
        return max(timedelta(0), min(context.sleeps_until - now, LONGEST_CHECK_INTERVAL))
    if shared.parking is None and context.wakes_at is not None:
        return max(timedelta(0), min(context.wakes_at - now, LONGEST_CHECK_INTERVAL))
    if shared.parking is None:
        return get_check_interval(now - since)
    return get_next_check(now, since, shared.parking.batch_key) - now


def read_action(row: ActionRun) -> Action:
    """The action of a row; raises `UnknownActionError` when this version cannot run it (rule 15)."""
    return load_action(row.name, row.version, row.parameters)


def run_phase(
    shared: ReconcileContext,
    row: ActionRun,
    phase: str,
    body: Callable[[Action, StepContext], object],
    *,
    told_in: StepExecution | None = None,
    forbid_sending: bool = False,
    judged: str = "",
) -> PhaseEnd:
    """Run one phase of an action. What it had gathered when it stopped is written first, or with its failure.

    `judged` is the phase whose lost write an adoption judges: it loads the rollback data of that phase.
    """
    context = EngineStepContext(
        shared, row, phase, told_in=told_in, forbid_sending=forbid_sending, judged=judged
    )
    try:
        action = read_action(row)
        value = body(action, context)
    except ActionFailed as failure:
        _hand_over(context)
        return PhaseFailed(failure)
    except AwsError as error:
        _hand_over(context)
        return _build_refusal(shared, error)
    except ConnectorUnavailable as closed:
        return PhaseFailed(ActionFailed("CONNECTOR_NOT_USABLE", str(closed)))
    except NeedsConfirmation as lost:
        return _confirm_call(shared, row, lost.call, phase, told_in)
    except SendingForbidden:
        return PhaseNeverSent()
    except (UnknownActionError, JournalMismatch) as stuck:
        return _request_intervention(context, str(stuck))
    except (AbortRequested, LeaseRunsOut, AnswerPending, ServiceLockRequired, AwsUnavailable) as turn:
        return _handle_signal(shared, context, turn)
    _recover(shared, row, told_in or row.step)
    return PhaseFinished(context, value)


def _handle_signal(shared: ReconcileContext, context: EngineStepContext, turn: Exception) -> PhaseEnd:
    if isinstance(turn, ServiceLockRequired):
        return _request_service_lock(shared, context, turn)
    if isinstance(turn, AwsUnavailable):
        return _back_off(shared, context, turn)
    if isinstance(turn, AnswerPending):
        context.abandon()
        _save_context(context)
        return PhaseWaiting(max(turn.until - shared.world.now(), timedelta(0)))
    shared.rows.forget_changes()
    return PhaseWaiting(timedelta(0)) if isinstance(turn, LeaseRunsOut) else PhaseWaiting(None)


def _request_service_lock(
    shared: ReconcileContext, context: EngineStepContext, wanted: ServiceLockRequired
) -> PhaseEnd:
    _save_context(context)
    account = shared.stage.account
    if not account:
        end = run_phase(shared, context.row, "account", _get_account)
        if not isinstance(end, PhaseFinished):
            return end
        _save_context(end.context)
        account = str(end.value)
    try:
        service_locks.request_lock(shared, context.step, wanted, account)
    except ActionFailed as clash:
        return PhaseFailed(clash)
    return PhaseWaiting(None)


def _get_account(_action: Action, context: StepContext) -> str:
    return context.account()


def _hand_over(context: EngineStepContext) -> None:
    """Leave what was gathered to the next commit: that of a failure, whose reasons must not be lost alone."""
    context.finish(keep_progress=not context.is_replayed)


def _save_context(context: EngineStepContext) -> None:
    _hand_over(context)
    context.save()


def _back_off(shared: ReconcileContext, context: EngineStepContext, trouble: AwsUnavailable) -> PhaseWaiting:
    """AWS could not be asked: back off, and tell the watcher once."""
    row = context.row
    context.abandon()
    if row.consecutive_errors == 0:
        context.log(f"{trouble.error.display_message} Slipway tries again.", "warning")
    shared.change(row, consecutive_errors=row.consecutive_errors + 1)
    _save_context(context)
    return PhaseWaiting(timedelta(seconds=min(2**row.consecutive_errors, LONGEST_BACKOFF_SECONDS)))


def _recover(shared: ReconcileContext, row: ActionRun, step: StepExecution) -> None:
    """What was in the way is gone."""
    if row.consecutive_errors:
        shared.change(row, consecutive_errors=0)
    # Another step may be the one that waits for a person.
    is_meant = step.intervention is not None or step.status in TERMINAL_STATUSES
    if shared.execution.status == Status.INTERVENTION_WAITING and is_meant:
        shared.change(row, detail="")
        with shared.commit(reload=True):
            failures.clear_intervention(shared, step)


def _build_refusal(shared: ReconcileContext, error: AwsError) -> PhaseFailed:
    """A refusal of AWS; of some no second try changes anything: a person has to do something first."""
    if error.code == "ClusterNotFoundException":
        name = shared.stage.cluster
        message = f"Cluster {name} is not there: somebody has deleted it, or it is elsewhere."
        return PhaseFailed(ActionFailed(CLUSTER_NOT_FOUND, message), refuses=True)
    return PhaseFailed(
        ActionFailed(_code_of(error), error.display_message), refuses=isinstance(error, Denied)
    )


def _code_of(error: AwsError) -> str:
    if isinstance(error, Undelivered):
        return error.code
    return {"Denied": "ACCESS_DENIED", "Unauthenticated": "CREDENTIALS_REFUSED"}.get(
        type(error).__name__, f"AWS_{error.code}" if error.code else "AWS_ERROR"
    )


def _request_intervention(context: EngineStepContext, reason: str) -> PhaseWaiting:
    """Rules 6 and 15: guessing could do harm, so the execution waits for a person."""
    shared, row = context.shared, context.row
    text = f"{reason} Slipway waits: decide what happens, or run the version that started it."
    is_asked = context.told_in.intervention is not None or context.told_in.status in TERMINAL_STATUSES
    if row.detail != text[:512] or not is_asked:
        shared.change(row, detail=text[:512])
        context.hand_over()
        with shared.commit(reload=True):
            failures.request_stuck_intervention(shared, context.told_in, text)
    return PhaseWaiting(failures.INTERVENTION_CHECK_INTERVAL)


def _confirm_call(
    shared: ReconcileContext, row: ActionRun, call: AwsCall, phase: str, told_in: StepExecution | None
) -> PhaseEnd:
    """Ask the world what became of a write without an answer (rule 7)."""
    _give_up_waiting(shared, call)
    record = CallRecord(
        call.service,
        call.operation,
        call.parsed_parameters,
        call.sent_at or call.planned_at,
        call.send_number,
    )
    adopting = f"adopt {phase} {call.number}.{call.send_number}"[:24]

    def judge(action: Action, context: StepContext) -> Confirmation:
        verb = action.adopt_undo if phase.startswith("undo") else action.adopt
        return verb(context, record)

    end = run_phase(shared, row, adopting, judge, told_in=told_in, judged=phase)
    if not isinstance(end, PhaseFinished):
        return end
    end.context.finish(keep_progress=False)
    with shared.commit(reload=True):
        _apply(shared, call, end.value)
    return PhaseWaiting(RETRY_INTERVAL) if isinstance(end.value, Unconfirmed) else PhaseWaiting(None)


def _give_up_waiting(shared: ReconcileContext, call: AwsCall) -> None:
    if call.state == CallState.SENT:
        with shared.commit(reload=True):
            AwsCall.objects.filter(pk=call.pk, state=CallState.SENT).update(state=CallState.UNKNOWN)


def _apply(shared: ReconcileContext, call: AwsCall, verdict: object) -> None:
    """Write the verdict down unless the true answer arrived meanwhile."""
    unknown = AwsCall.objects.filter(pk=call.pk, state=CallState.UNKNOWN, send_number=call.send_number)
    if isinstance(verdict, Applied):
        unknown.update(
            state=CallState.ANSWERED,
            is_confirmed=True,
            result=step_inputs.to_json(verdict.answer),
            answered_at=shared.world.now(),
        )
    elif isinstance(verdict, NotApplied):
        unknown.update(state=CallState.NOT_SENT)
    elif isinstance(verdict, Indeterminate):
        error = Undelivered(verdict.code, verdict.message, call.service, call.operation)
        unknown.update(state=CallState.FAILED, error=error.to_record(), answered_at=shared.world.now())
