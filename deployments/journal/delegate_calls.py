"""Calls that a delegate makes: queued with the plan, answered into their rows, with output."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from aws.errors import AwsError, NotSent, Throttled, Unanswered, parse_error_record
from delegates.models import TaskLogChunk
from deployments.engine.lease import is_abort_requested, wake_execution
from deployments.engine.service_waits import get_rate_limit_key
from deployments.journal import rate_limits
from deployments.journal.callers import JournaledPhase
from deployments.journal.engine_signals import (
    AbortRequested,
    AnswerPending,
    AwsUnavailable,
    NeedsConfirmation,
)
from deployments.journal.runtime import EngineRuntime, QueuedAwsAccess
from deployments.log import NewLogLine
from deployments.log.lines import LineOrigin
from deployments.models import ActionRun, AwsCall, StepExecution
from deployments.regions import known_region
from steps.actions.base import get_actions
from steps.actions.non_aws_calls import DELEGATE_SERVICE
from steps.states import CallState

ANSWER_CHECK_INTERVAL = timedelta(seconds=15)
ANSWER_TIMEOUT = timedelta(seconds=60)
TAKEN_WITHIN = timedelta(seconds=20)


class DelegateCalls:
    """Calls of one action through a delegate; every method may let the execution wait."""

    def __init__(self, context: JournaledPhase, aws_access: QueuedAwsAccess) -> None:
        self._context = context
        self._aws_access = aws_access

    def answer(self, row: AwsCall) -> dict[str, Any]:
        """Return the answer of a call of `start` or `undo` that the journal does not hold yet."""
        if row.state == CallState.SENT:
            self._wait_for_answer(row)
        if row.is_write and row.state == CallState.UNKNOWN:
            raise NeedsConfirmation(row)
        if row.pk is None or row.state in (CallState.NOT_SENT, CallState.UNKNOWN):
            self._queue(row)
        raise AnswerPending(self._later())

    def read(self, row: AwsCall) -> dict[str, Any]:
        """Return the answer of a read. It must have begun after the writes that the check evaluates."""
        if row.state == CallState.ANSWERED and row.result and self._is_fresh(row):
            self._context.consume(row)
            return dict(json.loads(row.result))
        if row.state == CallState.FAILED and row.error and row.result and self._is_fresh(row):
            error = parse_error_record(row.error)
            self._context.consume(row)
            raise AwsUnavailable(error) if error.is_retryable else error
        if row.state == CallState.SENT:
            self._wait_for_answer(row)
        if row.pk is None or row.state != CallState.PLANNED:
            row.repeat_count += 1 if row.pk else 0
            self._queue(row)
        raise AnswerPending(self._later())

    def _is_fresh(self, row: AwsCall) -> bool:
        # What nobody sent was refused then, not seen.
        begun = row.sent_at if row.send_number else row.answered_at
        return begun is not None and begun > self._context.floor

    def _wait_for_answer(self, row: AwsCall) -> None:
        """Park while an answer may still come; after a minute nobody knows what became of the call."""
        self._context.relay(row)
        if row.sent_at and self._context.runtime.now() - row.sent_at < ANSWER_TIMEOUT or _is_running(row):
            raise AnswerPending(self._later())
        with self._context.commit():
            given_up = AwsCall.objects.filter(pk=row.pk, state=CallState.SENT, send_number=row.send_number)
            given_up.update(state=CallState.UNKNOWN)
        row.refresh_from_db()

    def _queue(self, row: AwsCall) -> None:
        context = self._context
        context.take_token(row)
        with context.commit():
            if row.is_write and context.is_forward and is_abort_requested(context.lease.execution_id):
                raise AbortRequested
            row.state, row.error, row.result = CallState.PLANNED, None, ""
            row.planned_at = context.runtime.now()
            context.keep_call(row)
            context.flush()
            self._aws_access.queue(row.pk)

    def _later(self) -> Any:
        return self._context.runtime.now() + ANSWER_CHECK_INTERVAL


def _is_running(row: AwsCall) -> bool:
    """Return whether a delegate does work that may take long, and its lease says that it lives."""
    return row.service == DELEGATE_SERVICE and row.task is not None and row.task.is_open


# Unused answers of a read that failed: a later pass reads anew.
NOT_USED = "{}"


def claim_call(call_id: int, runtime: EngineRuntime) -> AwsCall | None:
    """Make a planned call SENT for the delegate that takes it; None if it was withdrawn or taken already."""
    with transaction.atomic():
        call = AwsCall.objects.select_related("execution", "action").get(pk=call_id)
        if not _is_still_needed(call):
            return None
        if (
            call.is_write
            and call.service != DELEGATE_SERVICE
            and runtime.now() - call.planned_at > TAKEN_WITHIN
        ):
            _give_back(call_id, call.execution_id, runtime)
            return None
        taken = AwsCall.objects.filter(pk=call_id, state=CallState.PLANNED).update(
            state=CallState.SENT, sent_at=runtime.now(), send_number=call.send_number + 1
        )
        if not taken:
            return None
    call.refresh_from_db()
    return call


def _give_back(call_id: int, execution_id: UUID, runtime: EngineRuntime) -> None:
    """Stop a write to AWS that waited for a delegate: the action reads the state in AWS first."""
    if AwsCall.objects.filter(pk=call_id, state=CallState.PLANNED).update(state=CallState.NOT_SENT):
        wake_execution(execution_id, runtime.now())


def _is_still_needed(call: AwsCall) -> bool:
    """Return whether the execution still goes where this call was planned for; a read does no harm."""
    execution = call.execution
    if execution.is_over or not call.is_write:
        return not execution.is_over
    if execution.rolling_back:
        return call.phase.startswith("undo")
    if execution.final_status:
        return get_actions()[call.action.name].runs_always
    return not is_abort_requested(call.execution_id)


def record_answer(
    call_id: int,
    send_number: int,
    runtime: EngineRuntime,
    *,
    result: dict[str, Any] | None = None,
    error: AwsError | None = None,
    duration_ms: int | None = None,
) -> bool:
    """Write the answer of one send into its row and wake the execution; False if it came too late."""
    state = CallState.ANSWERED if error is None else _state_after(error)
    waiting = AwsCall.objects.filter(
        pk=call_id, send_number=send_number, state__in=(CallState.SENT, CallState.UNKNOWN)
    )
    changed = waiting.update(
        state=state,
        result=json.dumps(result or {}) if state in (CallState.ANSWERED, CallState.FAILED) else "",
        error=error.to_record() if error else None,
        answered_at=runtime.now(),
        duration_ms=duration_ms,
    )
    if changed:
        call = AwsCall.objects.select_related("step__stage__connector").get(pk=call_id)
        if error is not None:
            rate_limits.record_throttling(
                get_rate_limit_key(call.step.stage, known_region(call.step.stage, call.step)),
                error,
                runtime.now(),
            )
        wake_after_commit(call.execution_id, runtime)
    return bool(changed)


def requeue_read(call_id: int, send_number: int) -> bool:
    """Put a read that was sent and lost back to those that wait for a delegate; False if it is none."""
    sent = AwsCall.objects.filter(pk=call_id, send_number=send_number, state=CallState.SENT, is_write=False)
    return bool(sent.update(state=CallState.PLANNED))


def mark_unknown(call_id: int, send_number: int, runtime: EngineRuntime) -> bool:
    """Mark a send without an answer as UNKNOWN and wake its execution to confirm it in AWS."""
    sent = AwsCall.objects.filter(pk=call_id, send_number=send_number, state=CallState.SENT)
    if not sent.update(state=CallState.UNKNOWN):
        return False
    wake_after_commit(AwsCall.objects.values_list("execution_id", flat=True).get(pk=call_id), runtime)
    return True


def reject_call(call_id: int, error: AwsError, runtime: EngineRuntime) -> bool:
    """Nobody will send a planned call: it failed with this error, and nothing happened."""
    planned = AwsCall.objects.filter(pk=call_id, state=CallState.PLANNED)
    if not planned.update(
        state=CallState.FAILED, result=NOT_USED, error=error.to_record(), answered_at=runtime.now()
    ):
        return False
    wake_after_commit(AwsCall.objects.values_list("execution_id", flat=True).get(pk=call_id), runtime)
    return True


def wake_after_commit(execution_id: UUID, runtime: EngineRuntime) -> None:
    """After the commit: who ends a delegate task holds its row, and executions are locked before those."""
    transaction.on_commit(lambda: wake_execution(execution_id, runtime.now()))


def _state_after(error: AwsError) -> CallState:
    if isinstance(error, Unanswered):
        return CallState.UNKNOWN
    if isinstance(error, NotSent | Throttled):
        return CallState.NOT_SENT
    return CallState.FAILED


# Chunks of one pass; the rest follows in the next one.
MOST_OUTPUT_CHUNKS = 200


def read_task_output(
    call: AwsCall, row: ActionRun, cursors: dict[str, list[int]], log_step: StepExecution, now: datetime
) -> list[NewLogLine]:
    """Return the lines since the last pass and move `cursors` forward."""
    key = f"task {call.task_id}"
    seen = cursors.get(key, [0])[0]
    chunks = TaskLogChunk.objects.filter(task=call.task_id, sequence__gte=seen).order_by("sequence")
    found = list(chunks[:MOST_OUTPUT_CHUNKS])
    if not found:
        return []
    cursors[key] = [found[-1].sequence + found[-1].count]
    since = call.sent_at or now
    return [
        NewLogLine(
            at=_parse_time(line["t"], since, now),
            step_id=log_step.pk,
            step=log_step.identifier,
            unit=row.unit,
            level=_LEVELS.get(line["level"], "info"),
            text=line["text"],
            origin=LineOrigin.CONTAINER,
        )
        for chunk in found
        for line in json.loads(chunk.lines)
    ]


def _parse_time(milliseconds: int, since: datetime, now: datetime) -> datetime:
    """Return when a delegate says that it was, if that can be."""
    if since.timestamp() <= milliseconds / 1000 <= now.timestamp():
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    return now


_LEVELS = {"WARN": "warning", "ERROR": "error"}
