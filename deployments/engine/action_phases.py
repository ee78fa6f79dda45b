"""Phases of an action: run one, and decide by its end how the engine continues."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from aws.errors import AwsError, Denied, Unavailable, Undelivered
from delegates.access.aws_access import ConnectorUnavailable
from delegates.event_queues.coverage import list_receiving_coverages, record_silence, select_covered
from deployments.engine import failures, service_locks
from deployments.engine.event_wakes import build_covered_reads
from deployments.engine.reconcile_context import ReconcileContext, append_log
from deployments.engine.service_waits import (
    NO_EVENTS,
    EventTimes,
    ServiceWait,
    get_batch_key,
    get_check_interval,
    get_next_check,
)
from deployments.engine.steps.context import EngineStepContext
from deployments.engine.steps.inputs import to_json
from deployments.journal.callers import CONFIRM_PHASE, CheckCaller
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
from deployments.models import ActionRun, AwsCall, StageExecution, StepExecution
from steps.actions.base import Action, ActionFailed, UnknownActionError, load_action
from steps.actions.confirmations import (
    READ_LAG,
    Applied,
    CallRecord,
    Confirmation,
    Indeterminate,
    NotApplied,
    Repeatable,
    Unconfirmed,
)
from steps.actions.context import StepContext
from steps.kinds.registry import get_step_kinds
from steps.states import TERMINAL_STATUSES, CallState, Status

RETRY_INTERVAL = timedelta(seconds=2)
LONGEST_BACKOFF_SECONDS = 30
LONGEST_CHECK_INTERVAL = timedelta(seconds=60)
CLUSTER_NOT_FOUND = "CLUSTER_NOT_FOUND"
OTHER_VERSION_NEEDED = "Only another version of Slipway can run this action."
# Progress: the first pass, since the last one that could run the action, that could not.
OTHER_VERSION_SINCE = "other version since"
# Two versions run side by side for a few minutes of an upgrade; the service lock is held meanwhile.
OTHER_VERSION_TIMEOUT = timedelta(minutes=4)
# Most workers may be of the wrong version: enough passes for one of the other to take the action.
OTHER_VERSION_INTERVAL = timedelta(seconds=10)
# Progress: the first pass in which an action of an ended step was blocked.
_BLOCKED_SINCE = "blocked since"


@dataclass(frozen=True)
class PhaseFinished:
    """End of a phase that ran to its end; `value` is its result."""

    context: EngineStepContext
    value: object


@dataclass(frozen=True)
class PhaseWaiting:
    """End of a phase that continues in a later reconcile pass; `time` None means immediately."""

    time: timedelta | None


@dataclass(frozen=True)
class PhaseFailed:
    """Failure of a phase; `refuses` means that AWS refused, so that a retry changes nothing."""

    failure: ActionFailed
    refuses: bool = False


@dataclass(frozen=True)
class PhaseNeverSent:
    """End of a replayed start at a call that was never made."""


PhaseEnd = PhaseFinished | PhaseWaiting | PhaseFailed | PhaseNeverSent


class _ConfirmationDenied(Exception):
    """Error raised when AWS denies a read that confirms a write."""

    def __init__(self, call: AwsCall, denied: Denied) -> None:
        """Build the message from the write and the denied read."""
        super().__init__(
            f"The answer to {call.operation} was lost, and Slipway may not read whether it took effect. "
            f"{denied.display_message}"
        )


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
    events = _get_event_times(reconcile_context, reconcile_context.service_wait, since)
    service_wait = reconcile_context.service_wait
    for_change = service_wait.observed_state != ""
    return get_next_check(now, since, service_wait.batch_key, events, for_change=for_change) - now


def _get_event_times(
    reconcile_context: ReconcileContext, service_wait: ServiceWait, since: datetime
) -> EventTimes:
    """Return the events of a wait; none if they came from queues that are not receiving any more."""
    execution = reconcile_context.execution
    events = EventTimes(execution.event_at, execution.woken_at)
    if not events.is_covered(since):
        return events
    reads = build_covered_reads(service_wait.batch_key, service_wait.rate_limit_key, execution.scope.path)
    coverages = list_receiving_coverages(reconcile_context.runtime.now())
    return events if select_covered([reads], coverages) else NO_EVENTS


def record_unannounced_change(
    reconcile_context: ReconcileContext, row: ActionRun, context: EngineStepContext
) -> None:
    """Record that a delegate observed a change which no event had announced.

    The dispatcher compares what Slipway reads itself.
    """
    if context.observed_service is None or context.delegate_calls is None:
        return
    now, events = reconcile_context.runtime.now(), EventTimes(reconcile_context.execution.event_at)
    changed_at = events.find_unannounced_change(context.observed_service, now, since=row.start_done_at)
    if changed_at is not None:
        stage = reconcile_context.stage
        reads = build_covered_reads(get_batch_key(stage), context.rate_limit_key, stage.scope.path)
        record_silence(reads, now, changed_at=changed_at)


def read_action(row: ActionRun) -> Action:
    """Return the action of a row; raises `UnknownActionError` if this version cannot run it (rule 15).

    A known action of an unknown kind of step cannot run: the kind knows its manifests and secrets.
    """
    if row.step.type not in get_step_kinds():
        raise UnknownActionError(f"Unknown kind of step in this version of Slipway: {row.step.type}.")
    return load_action(row.name, row.version, row.parameters)


def is_loadable(row: ActionRun) -> bool:
    """Return whether this version of Slipway can run the action of a row."""
    try:
        read_action(row)
    except UnknownActionError:
        return False
    return True


def wait_for_other_version(
    reconcile_context: ReconcileContext, row: ActionRun, step: StepExecution
) -> timedelta:
    """Leave an action to a worker that can run it, and log once that it waits for one."""
    is_first = OTHER_VERSION_SINCE not in row.progress
    if is_first:
        append_log(reconcile_context, step, f"{row.title} waits. {OTHER_VERSION_NEEDED}", "warning", row.unit)
    if is_first or row.detail != OTHER_VERSION_NEEDED:
        progress = {**row.progress, OTHER_VERSION_SINCE: reconcile_context.runtime.now().isoformat()}
        reconcile_context.change(row, detail=OTHER_VERSION_NEEDED, progress=progress)
        reconcile_context.save()
    return failures.INTERVENTION_CHECK_INTERVAL


def _load_action(reconcile_context: ReconcileContext, row: ActionRun) -> Action:
    """Return the action of a row, which no longer waits for another version."""
    action = read_action(row)
    if row.detail == OTHER_VERSION_NEEDED:
        reconcile_context.change(row, detail="")
    return action


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
    """Run one phase of an action; its collected rows are committed with its end or its failure.

    `confirmed_phase` is the phase whose lost write is confirmed: its rollback data is loaded.
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
        action = _load_action(reconcile_context, row)
        value = body(action, context)
    except ActionFailed as failure:
        _collect_rows(context)
        return PhaseFailed(failure)
    except AwsError as error:
        return _handle_error(reconcile_context, context, error)
    except ConnectorUnavailable as unavailable:
        return PhaseFailed(ActionFailed("CONNECTOR_NOT_USABLE", str(unavailable)))
    except NeedsConfirmation as signal:
        return _confirm_call(reconcile_context, row, signal.call, phase, log_step)
    except SendingForbidden:
        return PhaseNeverSent()
    except (UnknownActionError, JournalMismatch, _ConfirmationDenied) as blocked:
        return _request_intervention(context, blocked)
    except (AbortRequested, LeaseRunsOut, AnswerPending, ServiceLockRequired, AwsUnavailable) as signal:
        return _handle_signal(reconcile_context, context, signal)
    _recover(reconcile_context, row, log_step or row.step)
    return PhaseFinished(context, value)


def _handle_error(
    reconcile_context: ReconcileContext, context: EngineStepContext, error: AwsError
) -> PhaseEnd:
    if isinstance(error, Unavailable):
        # No call was made yet: a delegate still reads a secret for it.
        return _back_off(reconcile_context, context, AwsUnavailable(error))
    _collect_rows(context)
    return build_refusal(reconcile_context.stage, error)


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
        reconcile_context.service_wait = context.build_pending_wait()
        return PhaseWaiting(max(signal.until - reconcile_context.runtime.now(), timedelta(0)))
    reconcile_context.rows.discard_changes()
    return PhaseWaiting(timedelta(0)) if isinstance(signal, LeaseRunsOut) else PhaseWaiting(None)


def _request_service_lock(
    reconcile_context: ReconcileContext, context: EngineStepContext, requirement: ServiceLockRequired
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
        service_locks.request_lock(reconcile_context, context.step, requirement, account)
    except ActionFailed as failure:
        return PhaseFailed(failure)
    return PhaseWaiting(None)


def _get_account(_action: Action, context: StepContext) -> str:
    return context.get_account()


def _collect_rows(context: EngineStepContext) -> None:
    """Leave the collected rows to the next commit, which also records a failure."""
    context.finish(keep_progress=not context.is_replayed)


def _save_context(context: EngineStepContext) -> None:
    _collect_rows(context)
    context.save()


def _back_off(
    reconcile_context: ReconcileContext, context: EngineStepContext, signal: AwsUnavailable
) -> PhaseWaiting:
    """Back off after a failed call to AWS, and log it once."""
    row = context.row
    context.abandon()
    if row.consecutive_errors == 0:
        context.log(f"{signal.error.display_message} Slipway tries again.", "warning")
    reconcile_context.change(row, consecutive_errors=row.consecutive_errors + 1)
    _save_context(context)
    return PhaseWaiting(timedelta(seconds=min(2**row.consecutive_errors, LONGEST_BACKOFF_SECONDS)))


def _recover(reconcile_context: ReconcileContext, row: ActionRun, step: StepExecution) -> None:
    """Reset error count and intervention after a successful phase."""
    if row.consecutive_errors:
        reconcile_context.change(row, consecutive_errors=0)
    # Another step may be waiting for a person.
    is_this_step = step.intervention is not None or step.status in TERMINAL_STATUSES
    if reconcile_context.execution.status == Status.INTERVENTION_WAITING and is_this_step:
        reconcile_context.change(row, detail="")
        with reconcile_context.commit(reload=True):
            failures.clear_intervention(reconcile_context, step)


def build_refusal(stage: StageExecution, error: AwsError) -> PhaseFailed:
    """Return the failure of a refusal by AWS; after some refusals a retry is useless."""
    if error.code == "ClusterNotFoundException":
        name = stage.cluster
        message = f"Cluster {name} was not found: it was deleted, or it is in another account or region."
        return PhaseFailed(ActionFailed(CLUSTER_NOT_FOUND, message), refuses=True)
    return PhaseFailed(
        ActionFailed(_get_failure_code(error), error.display_message), refuses=isinstance(error, Denied)
    )


def _get_failure_code(error: AwsError) -> str:
    if isinstance(error, Undelivered):
        return error.code
    return {"Denied": "ACCESS_DENIED", "Unauthenticated": "CREDENTIALS_REFUSED"}.get(
        type(error).__name__, f"AWS_{error.code}" if error.code else "AWS_ERROR"
    )


def _request_intervention(context: EngineStepContext, blocked: Exception) -> PhaseEnd:
    """Request a person's decision, because guessing could do harm (rules 6, 7 and 15)."""
    if context.log_step.status in TERMINAL_STATUSES:
        return _wait_without_decision(context, blocked)
    is_denied = isinstance(blocked, _ConfirmationDenied)
    way_out = "grant the permission" if is_denied else "run the version that started it"
    reconcile_context, row = context.reconcile_context, context.row
    reason = reconcile_context.mask.mask_text(f"{blocked} Slipway waits: {way_out}, or decide what happens.")
    if row.detail != reason[:512] or context.log_step.intervention is None:
        reconcile_context.change(row, detail=reason[:512])
        context.collect_rows()
        with reconcile_context.commit(reload=True):
            failures.request_stuck_intervention(reconcile_context, context.log_step, row, reason)
    return PhaseWaiting(failures.INTERVENTION_CHECK_INTERVAL)


def _wait_without_decision(context: EngineStepContext, blocked: Exception) -> PhaseEnd:
    """Wait minutes for a permission or another version, then fail: nobody decides about an ended step."""
    now, row = context.runtime.now(), context.row
    since = row.progress.get(_BLOCKED_SINCE, now.isoformat())
    if now - datetime.fromisoformat(since) >= OTHER_VERSION_TIMEOUT:
        return PhaseFailed(ActionFailed("RESULT_UNKNOWN", str(blocked)))
    context.reconcile_context.change(row, progress={**row.progress, _BLOCKED_SINCE: since})
    context.collect_rows()
    context.save()
    return PhaseWaiting(OTHER_VERSION_INTERVAL)


def _confirm_call(
    reconcile_context: ReconcileContext,
    row: ActionRun,
    call: AwsCall,
    phase: str,
    log_step: StepExecution | None,
) -> PhaseEnd:
    """Confirm a write without an answer by reading the state in AWS (rule 7)."""
    _mark_unknown(reconcile_context, call)
    record = CallRecord(
        call.service,
        call.operation,
        call.parsed_parameters,
        call.sent_at or call.planned_at,
        call.send_number,
    )
    confirm_phase = f"{CONFIRM_PHASE} {phase} {call.number}.{call.send_number}"[:24]

    def confirm(action: Action, context: StepContext) -> Confirmation:
        if phase.startswith("undo"):
            return action.confirm_undo(context, record)
        try:
            confirmation = action.confirm(context, record)
        except Denied as denied:
            # The write may have taken effect: as a failure, a rollback would undo it.
            raise _ConfirmationDenied(call, denied) from denied
        # A read that began too early, by a delegate or in an earlier pass, proves nothing (rule 9).
        reads = cast("EngineStepContext", context).caller
        first_read_at = reads.first_read_at if isinstance(reads, CheckCaller) else None
        is_early = first_read_at is not None and first_read_at < record.sent_at + READ_LAG
        return Unconfirmed() if is_early and isinstance(confirmation, NotApplied) else confirmation

    end = run_phase(reconcile_context, row, confirm_phase, confirm, log_step=log_step, confirmed_phase=phase)
    if not isinstance(end, PhaseFinished):
        return end
    end.context.finish(keep_progress=False)
    with reconcile_context.commit(reload=True):
        _record_confirmation(reconcile_context, call, end.value)
    return PhaseWaiting(RETRY_INTERVAL) if isinstance(end.value, Unconfirmed) else PhaseWaiting(None)


def _mark_unknown(reconcile_context: ReconcileContext, call: AwsCall) -> None:
    if call.state == CallState.SENT:
        with reconcile_context.commit(reload=True):
            AwsCall.objects.filter(pk=call.pk, state=CallState.SENT).update(
                state=CallState.UNKNOWN, is_confirmed=False
            )


def _record_confirmation(reconcile_context: ReconcileContext, call: AwsCall, confirmation: object) -> None:
    """Record the confirmation unless the real answer arrived meanwhile."""
    unknown = AwsCall.objects.filter(pk=call.pk, state=CallState.UNKNOWN, send_number=call.send_number)
    if isinstance(confirmation, Applied):
        unknown.update(
            state=CallState.ANSWERED,
            is_confirmed=True,
            result=to_json(confirmation.answer),
            answered_at=reconcile_context.runtime.now(),
        )
    elif isinstance(confirmation, NotApplied):
        unknown.update(state=CallState.NOT_SENT)
    elif isinstance(confirmation, Repeatable):
        unknown.update(is_confirmed=True)
    elif isinstance(confirmation, Indeterminate):
        error = Undelivered(confirmation.code, confirmation.message, call.service, call.operation)
        unknown.update(
            state=CallState.FAILED, error=error.to_record(), answered_at=reconcile_context.runtime.now()
        )
