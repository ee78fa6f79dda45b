"""Calls through delegates: queueing, answers, wake-up of the execution."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from aws.errors import AwsError, NotSent, Throttled, Unanswered, Undelivered, parse_error_record
from connectors.secret_managers.base import SecretUnreadable
from delegates.access.aws_access import ConnectorUnavailable
from delegates.models import DelegateTask, TaskLogChunk
from delegates.task_queue import describe_expiry
from deployments.engine.lease import is_abort_requested, wake_for_answer
from deployments.engine.service_waits import get_rate_limit_key
from deployments.journal import non_aws_calls, rate_limits, secret_values
from deployments.journal.callers import JournaledPhase, build_unsent_state, needs_confirmation
from deployments.journal.engine_signals import (
    AbortRequested,
    AnswerPending,
    AwsUnavailable,
    NeedsConfirmation,
)
from deployments.journal.referenced_secrets import unsent_while_pending
from deployments.journal.runtime import EngineRuntime, QueuedAwsAccess
from deployments.log import NewLogLine
from deployments.log.lines import LineOrigin
from deployments.models import ActionRun, AwsCall, StepExecution
from deployments.regions import find_call_region
from steps.actions.base import get_actions
from steps.actions.non_aws_calls import DELEGATE_SERVICE
from steps.states import TERMINAL_STATUSES, CallState

ANSWER_CHECK_INTERVAL = timedelta(seconds=15)
ANSWER_TIMEOUT = timedelta(seconds=60)
MAX_QUEUE_TIME = timedelta(seconds=20)


class DelegateCalls:
    """Calls of one action through a delegate; every method may raise `AnswerPending`."""

    def __init__(self, context: JournaledPhase, aws_access: QueuedAwsAccess) -> None:
        self._context = context
        self._aws_access = aws_access

    def answer(self, row: AwsCall) -> dict[str, Any]:
        """Return the answer of a call of `start` or `undo` that the journal has no answer for."""
        if row.state == CallState.SENT:
            self._wait_for_answer(row)
        if needs_confirmation(row):
            raise NeedsConfirmation(row)
        if row.pk is None or row.state in (CallState.NOT_SENT, CallState.UNKNOWN):
            self._queue(row)
        raise AnswerPending(self._get_next_check())

    def read(self, row: AwsCall) -> dict[str, Any]:
        """Return the answer of a read that started after the writes which the check evaluates."""
        if row.state == CallState.ANSWERED and row.result and self._is_fresh(row):
            self._context.clear_result(row)
            return dict(json.loads(row.result))
        if row.state == CallState.FAILED and row.error and row.result and self._is_fresh(row):
            error = parse_error_record(row.error)
            self._context.clear_result(row)
            raise AwsUnavailable(error) if error.is_retryable else error
        if row.state == CallState.SENT:
            self._wait_for_answer(row)
        if row.pk is None or row.state != CallState.PLANNED:
            row.repeat_count += 1 if row.pk else 0
            self._queue(row)
        raise AnswerPending(self._get_next_check())

    def _is_fresh(self, row: AwsCall) -> bool:
        # A call without a send was refused at `answered_at`.
        started_at = row.sent_at if row.send_number else row.answered_at
        return started_at is not None and started_at > self._context.reads_after

    def _wait_for_answer(self, row: AwsCall) -> None:
        """Wait while an answer may still come; after a minute the call is unknown."""
        self._context.copy_delegate_log(row)
        if row.sent_at and self._context.runtime.now() - row.sent_at < ANSWER_TIMEOUT or _is_running(row):
            raise AnswerPending(self._get_next_check())
        with self._context.commit():
            unanswered = AwsCall.objects.filter(pk=row.pk, state=CallState.SENT, send_number=row.send_number)
            unanswered.update(state=CallState.UNKNOWN, is_confirmed=False)
        row.refresh_from_db()

    def _queue(self, row: AwsCall) -> None:
        context = self._context
        _read_secrets(row)
        context.take_token(row)
        with context.commit():
            if row.is_write and context.is_forward and is_abort_requested(context.lease.execution_id):
                raise AbortRequested
            row.state, row.error, row.result = CallState.PLANNED, None, ""
            row.planned_at = context.runtime.now()
            context.add_call(row)
            context.flush()
            self._aws_access.queue(row.pk)

    def _get_next_check(self) -> Any:
        return self._context.runtime.now() + ANSWER_CHECK_INTERVAL


def _read_secrets(call: AwsCall) -> None:
    """Read the secrets that a delegate will get with a call, because it takes the call in a transaction.

    Raises `Unavailable` while a delegate reads one; other errors are answers of the call itself.
    """
    scope, params = call.execution.scope, call.parsed_parameters
    with suppress(Undelivered, ConnectorUnavailable, SecretUnreadable), unsent_while_pending():
        if call.service == DELEGATE_SERVICE:
            secret_values.list_stage_secrets(call.step.stage)
            non_aws_calls.read_call_secrets(scope, params)
        else:
            secret_values.inject_secrets(call.step, scope, call.service, params)


def _is_running(row: AwsCall) -> bool:
    """Return whether a delegate runs a long task under a valid lease."""
    return row.service == DELEGATE_SERVICE and row.task is not None and row.task.is_open


# Result of a failed read: a later pass reads again.
NOT_USED = "{}"


def claim_call(call_id: int, runtime: EngineRuntime) -> AwsCall | None:
    """Mark a planned call as SENT for a delegate; None if it was withdrawn or claimed already."""
    with transaction.atomic():
        call = AwsCall.objects.select_related("execution", "step", "action").get(pk=call_id)
        if not _is_still_needed(call):
            return None
        if (
            call.is_write
            and call.service != DELEGATE_SERVICE
            and runtime.now() - call.planned_at > MAX_QUEUE_TIME
        ):
            _withdraw_write(call_id, call.execution_id, runtime)
            return None
        claimed = AwsCall.objects.filter(pk=call_id, state=CallState.PLANNED).update(
            state=CallState.SENT, sent_at=runtime.now(), send_number=call.send_number + 1
        )
        if not claimed:
            return None
    call.refresh_from_db()
    return call


def _withdraw_write(call_id: int, execution_id: UUID, runtime: EngineRuntime) -> None:
    """Withdraw an AWS write that waited for a delegate: the action repeats its reads first."""
    if AwsCall.objects.filter(pk=call_id, state=CallState.PLANNED).update(state=build_unsent_state()):
        wake_for_answer(execution_id, runtime.now())


def _is_still_needed(call: AwsCall) -> bool:
    """Return whether the execution still needs this call; reads are harmless."""
    execution = call.execution
    if execution.is_over or not call.is_write:
        return not execution.is_over
    has_step_ended = call.step.status in TERMINAL_STATUSES
    action = get_actions().get(call.action.name)
    if has_step_ended and action is not None and action.runs_always:
        return True
    if execution.rolling_back:
        return call.phase.startswith("undo")
    if execution.final_status:
        return action is not None and action.runs_always
    # A step that ended early may have left a write in the queue, while its execution continues.
    return not has_step_ended and not is_abort_requested(call.execution_id)


def record_answer(
    call_id: int,
    send_number: int,
    runtime: EngineRuntime,
    *,
    result: dict[str, Any] | None = None,
    error: AwsError | None = None,
    duration_ms: int | None = None,
) -> bool:
    """Record the answer of one send and wake the execution; return False if it came too late."""
    state = CallState.ANSWERED if error is None else _get_state(error)
    waiting = AwsCall.objects.filter(
        pk=call_id, send_number=send_number, state__in=(CallState.SENT, CallState.UNKNOWN)
    )
    changed = waiting.update(
        state=build_unsent_state() if state == CallState.NOT_SENT else state,
        is_confirmed=F("is_confirmed") if state in (CallState.NOT_SENT, CallState.FAILED) else False,
        result=json.dumps(result or {}) if state in (CallState.ANSWERED, CallState.FAILED) else "",
        error=error.to_record() if error else None,
        answered_at=runtime.now(),
        duration_ms=duration_ms,
    )
    if changed:
        call = AwsCall.objects.select_related("step__stage__connector").get(pk=call_id)
        rate_limit_key = get_rate_limit_key(call.step.stage, find_call_region(call.step.stage, call.step))
        if error is None:
            rate_limits.record_success(rate_limit_key, call.service, call.operation, runtime.now())
        else:
            rate_limits.record_throttling(rate_limit_key, error, runtime.now())
        wake_after_commit(call.execution_id, runtime)
    return bool(changed)


def requeue_call(call_id: int, send_number: int) -> bool:
    """Return a sent call without effect to the queue of delegate tasks; return False if it is not sent."""
    sent = AwsCall.objects.filter(pk=call_id, send_number=send_number, state=CallState.SENT)
    return bool(sent.update(state=CallState.PLANNED))


def mark_unknown(call_id: int, send_number: int, runtime: EngineRuntime) -> bool:
    """Mark a send without an answer as UNKNOWN and wake its execution to confirm it in AWS."""
    sent = AwsCall.objects.filter(pk=call_id, send_number=send_number, state=CallState.SENT)
    if not sent.update(state=CallState.UNKNOWN, is_confirmed=False):
        return False
    wake_after_commit(AwsCall.objects.values_list("execution_id", flat=True).get(pk=call_id), runtime)
    return True


def reject_call(call_id: int, error: AwsError, runtime: EngineRuntime) -> bool:
    """Fail a planned call that no delegate will send."""
    planned = AwsCall.objects.filter(pk=call_id, state=CallState.PLANNED)
    if not planned.update(
        state=CallState.FAILED, result=NOT_USED, error=error.to_record(), answered_at=runtime.now()
    ):
        return False
    wake_after_commit(AwsCall.objects.values_list("execution_id", flat=True).get(pk=call_id), runtime)
    return True


def wake_after_commit(execution_id: UUID, runtime: EngineRuntime) -> None:
    """Wake the execution after the commit, because executions are locked before delegate tasks."""
    transaction.on_commit(lambda: wake_for_answer(execution_id, runtime.now()))


def _get_state(error: AwsError) -> CallState:
    if isinstance(error, Unanswered):
        return CallState.UNKNOWN
    if isinstance(error, NotSent | Throttled):
        return CallState.NOT_SENT
    return CallState.FAILED


def describe_delegate_wait(step: StepExecution) -> str:
    """Return why no delegate has the newest call of a step yet; empty if no call waits for one."""
    waiting = {"task__status": DelegateTask.Status.QUEUED, "task__offered_to": None}
    calls = AwsCall.objects.filter(step=step, state=CallState.PLANNED, **waiting).exclude(task__reason="")
    call = calls.select_related("task").order_by("-pk").first()
    return describe_expiry(call.task) if call is not None and call.task is not None else ""


# Chunks of output per pass; the rest follows in the next one.
MOST_OUTPUT_CHUNKS = 200


def read_task_output(
    call: AwsCall, row: ActionRun, cursors: dict[str, list[int]], log_step: StepExecution, now: datetime
) -> list[NewLogLine]:
    """Return the new lines since the last pass and advance `cursors`."""
    return [
        *_report_refusals(call, row, cursors, log_step, now),
        *_read_new_chunks(call, row, cursors, log_step, now),
    ]


def _report_refusals(
    call: AwsCall, row: ActionRun, cursors: dict[str, list[int]], log_step: StepExecution, now: datetime
) -> list[NewLogLine]:
    """Return a line for each delegate that could not begin the call since the last pass."""
    refusals = [str(entry["reason"]) for entry in call.served_by if entry.get("reason")]
    key = f"refusals {call.task_id}"
    reported = cursors.get(key, [0])[0]
    if len(refusals) > reported:
        cursors[key] = [len(refusals)]
    return [
        NewLogLine(
            at=now,
            step_id=log_step.pk,
            step=log_step.identifier,
            unit=row.unit,
            level="warning",
            text=f"{refusal} Another delegate gets this task.",
        )
        for refusal in refusals[reported:]
    ]


def _read_new_chunks(
    call: AwsCall, row: ActionRun, cursors: dict[str, list[int]], log_step: StepExecution, now: datetime
) -> list[NewLogLine]:
    key = f"task {call.task_id}"
    position, *attempt = cursors.get(key, [0])
    is_new = Q(sequence__gte=position)
    if attempt:
        # A delegate that gets the task after another one numbers its lines from 0 again.
        is_new |= ~Q(attempt=attempt[0])
    chunks = TaskLogChunk.objects.filter(task=call.task_id).annotate(attempt=F("task__attempts"))
    task_chunks = list(chunks.filter(is_new).order_by("sequence")[:MOST_OUTPUT_CHUNKS])
    if not task_chunks:
        return []
    last = task_chunks[-1]
    cursors[key] = [last.sequence + last.count, last.attempt]
    return [
        build_output_line(line, call, row.unit, log_step, now)
        for chunk in task_chunks
        for line in json.loads(chunk.lines)
    ]


def build_output_line(
    line: Mapping[str, Any], call: AwsCall, unit: str, log_step: StepExecution, now: datetime
) -> NewLogLine:
    """Return a line {"t", "level", "text"} of a delegate as a line of the log."""
    return NewLogLine(
        at=_parse_time(line["t"], call.sent_at or now, now),
        step_id=log_step.pk,
        step=log_step.identifier,
        unit=unit,
        level=_LEVELS.get(line["level"], "info"),
        text=line["text"],
        origin=LineOrigin.CONTAINER,
    )


def _parse_time(milliseconds: int, since: datetime, now: datetime) -> datetime:
    """Return the delegate's time of a line if it is plausible, else now."""
    if since.timestamp() <= milliseconds / 1000 <= now.timestamp():
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    return now


_LEVELS = {"WARN": "warning", "ERROR": "error"}
