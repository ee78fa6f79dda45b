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
from deployments.journal.callers import CONFIRM_PHASE
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
    """The phase goes on in a later reconcile pass; None means at once."""

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
    reconcile_context: ReconcileContext,
    context: EngineStepContext,
    *,
    since: datetime,
    deadline: datetime | None,
) -> timedelta:
    """Return the time to the next check; checks of one ECS service are made with its batch."""
    now = reconcile_context.runtime.now()
    reconcile_context.service_wait = context.build_service_wait(since=since, deadline=deadline)
    if context.sleeps_until is not None:
        return max(timedelta(0), min(context.sleeps_until - now, LONGEST_CHECK_INTERVAL))
    if reconcile_context.service_wait is None and context.wakes_at is not None:
        return max(timedelta(0), min(context.wakes_at - now, LONGEST_CHECK_INTERVAL))
    if reconcile_context.service_wait is None:
        return get_check_interval(now - since)
    return get_next_check(now, since, reconcile_context.service_wait.batch_key) - now


def read_action(row: ActionRun) -> Action:
    """Return the action of a row; raises `UnknownActionError` when this version cannot run it (rule 15)."""
    return load_action(row.name, row.version, row.parameters)


def run_phase(
    reconcile_context: ReconcileContext,
    row: ActionRun,
    phase: str,
    body: Callable[[Action, StepContext], object],
    *,
    log_step: StepExecution | None = None,
    forbid_sending: bool = False,
    confirmed_phase: str = "",
) -> PhaseEnd:
    """Run one phase of an action. What it had gathered when it stopped is written first, or with its failure.

    `judged` is the phase whose lost write an adoption judges: it loads the rollback data of that phase.
    """
    context = EngineStepContext(
        reconcile_context,
        row,
        phase,
        log_step=log_step,
        forbid_sending=forbid_sending,
        confirmed_phase=confirmed_phase,
    )
    try:
        action = read_action(row)
        value = body(action, context)
    except ActionFailed as failure:
        _hand_over(context)
        return PhaseFailed(failure)
    except AwsError as error:
        _hand_over(context)
        return _build_refusal(reconcile_context, error)
    except ConnectorUnavailable as closed:
        return PhaseFailed(ActionFailed("CONNECTOR_NOT_USABLE", str(closed)))
    except NeedsConfirmation as lost:
        return _confirm_call(reconcile_context, row, lost.call, phase, log_step)
    except SendingForbidden:
        return PhaseNeverSent()
    except (UnknownActionError, JournalMismatch) as stuck:
        return _request_intervention(context, str(stuck))
    except (AbortRequested, LeaseRunsOut, AnswerPending, ServiceLockRequired, AwsUnavailable) as signal:
        return _handle_signal(reconcile_context, context, signal)
    _recover(reconcile_context, row, log_step or row.step)
    return PhaseFinished(context, value)


def _handle_signal(
    reconcile_context: ReconcileContext, context: EngineStepContext, signal: Exception
) -> PhaseEnd:
    if isinstance(signal, ServiceLockRequired):
        return _request_service_lock(reconcile_context, context, signal)
    if isinstance(signal, AwsUnavailable):
        return _back_off(reconcile_context, context, signal)
    if isinstance(signal, AnswerPending):
        context.abandon()
        _save_context(context)
        return PhaseWaiting(max(signal.until - reconcile_context.runtime.now(), timedelta(0)))
    reconcile_context.rows.forget_changes()
    return PhaseWaiting(timedelta(0)) if isinstance(signal, LeaseRunsOut) else PhaseWaiting(None)


def _request_service_lock(
    reconcile_context: ReconcileContext, context: EngineStepContext, wanted: ServiceLockRequired
) -> PhaseEnd:
    _save_context(context)
    account = reconcile_context.stage.account
    if not account:
        end = run_phase(reconcile_context, context.row, "account", _get_account)
        if not isinstance(end, PhaseFinished):
            return end
        _save_context(end.context)
        account = str(end.value)
    try:
        service_locks.request_lock(reconcile_context, context.step, wanted, account)
    except ActionFailed as clash:
        return PhaseFailed(clash)
    return PhaseWaiting(None)


def _get_account(_action: Action, context: StepContext) -> str:
    return context.get_account()


def _hand_over(context: EngineStepContext) -> None:
    """Leave what was gathered to the next commit: that of a failure, whose reasons must not be lost alone."""
    context.finish(keep_progress=not context.is_replayed)


def _save_context(context: EngineStepContext) -> None:
    _hand_over(context)
    context.save()


def _back_off(
    reconcile_context: ReconcileContext, context: EngineStepContext, trouble: AwsUnavailable
) -> PhaseWaiting:
    """Back off after a failed call to AWS, and log it once."""
    row = context.row
    context.abandon()
    if row.consecutive_errors == 0:
        context.log(f"{trouble.error.display_message} Slipway tries again.", "warning")
    reconcile_context.change(row, consecutive_errors=row.consecutive_errors + 1)
    _save_context(context)
    return PhaseWaiting(timedelta(seconds=min(2**row.consecutive_errors, LONGEST_BACKOFF_SECONDS)))


def _recover(reconcile_context: ReconcileContext, row: ActionRun, step: StepExecution) -> None:
    """What was in the way is gone."""
    if row.consecutive_errors:
        reconcile_context.change(row, consecutive_errors=0)
    # Another step may be the one that waits for a person.
    is_meant = step.intervention is not None or step.status in TERMINAL_STATUSES
    if reconcile_context.execution.status == Status.INTERVENTION_WAITING and is_meant:
        reconcile_context.change(row, detail="")
        with reconcile_context.commit(reload=True):
            failures.clear_intervention(reconcile_context, step)


def _build_refusal(reconcile_context: ReconcileContext, error: AwsError) -> PhaseFailed:
    """Return a refusal of AWS; of some no second try changes anything: a person has to do something first."""
    if error.code == "ClusterNotFoundException":
        name = reconcile_context.stage.cluster
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
    reconcile_context, row = context.reconcile_context, context.row
    text = f"{reason} Slipway waits: decide what happens, or run the version that started it."
    is_asked = context.log_step.intervention is not None or context.log_step.status in TERMINAL_STATUSES
    if row.detail != text[:512] or not is_asked:
        reconcile_context.change(row, detail=text[:512])
        context.collect_rows()
        with reconcile_context.commit(reload=True):
            failures.request_stuck_intervention(reconcile_context, context.log_step, text)
    return PhaseWaiting(failures.INTERVENTION_CHECK_INTERVAL)


def _confirm_call(
    reconcile_context: ReconcileContext,
    row: ActionRun,
    call: AwsCall,
    phase: str,
    log_step: StepExecution | None,
) -> PhaseEnd:
    """Confirm a write without an answer by reading the state in AWS (rule 7)."""
    _give_up_waiting(reconcile_context, call)
    record = CallRecord(
        call.service,
        call.operation,
        call.parsed_parameters,
        call.sent_at or call.planned_at,
        call.send_number,
    )
    confirm_phase = f"{CONFIRM_PHASE} {phase} {call.number}.{call.send_number}"[:24]

    def confirm(action: Action, context: StepContext) -> Confirmation:
        verb = action.confirm_undo if phase.startswith("undo") else action.confirm
        return verb(context, record)

    end = run_phase(reconcile_context, row, confirm_phase, confirm, log_step=log_step, confirmed_phase=phase)
    if not isinstance(end, PhaseFinished):
        return end
    end.context.finish(keep_progress=False)
    with reconcile_context.commit(reload=True):
        _apply(reconcile_context, call, end.value)
    return PhaseWaiting(RETRY_INTERVAL) if isinstance(end.value, Unconfirmed) else PhaseWaiting(None)


def _give_up_waiting(reconcile_context: ReconcileContext, call: AwsCall) -> None:
    if call.state == CallState.SENT:
        with reconcile_context.commit(reload=True):
            AwsCall.objects.filter(pk=call.pk, state=CallState.SENT).update(state=CallState.UNKNOWN)


def _apply(reconcile_context: ReconcileContext, call: AwsCall, verdict: object) -> None:
    """Write the verdict down unless the true answer arrived meanwhile."""
    unknown = AwsCall.objects.filter(pk=call.pk, state=CallState.UNKNOWN, send_number=call.send_number)
    if isinstance(verdict, Applied):
        unknown.update(
            state=CallState.ANSWERED,
            is_confirmed=True,
            result=step_inputs.to_json(verdict.answer),
            answered_at=reconcile_context.runtime.now(),
        )
    elif isinstance(verdict, NotApplied):
        unknown.update(state=CallState.NOT_SENT)
    elif isinstance(verdict, Indeterminate):
        error = Undelivered(verdict.code, verdict.message, call.service, call.operation)
        unknown.update(
            state=CallState.FAILED, error=error.to_record(), answered_at=reconcile_context.runtime.now()
        )
