"""Callers that record every AWS call of an action as a row before it is sent."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.db.models import Case, Value, When

from aws.errors import AwsError, NotSent, Throttled, Unanswered, parse_error_record
from deployments.engine.lease import SEND_WITHIN_SECONDS, Lease, is_abort_requested
from deployments.journal import rate_limits
from deployments.journal.engine_signals import (
    AbortRequested,
    AnswerPending,
    AwsUnavailable,
    JournalMismatch,
    LeaseRunsOut,
    NeedsConfirmation,
    RateLimited,
    SendingForbidden,
)
from deployments.journal.runtime import DirectAwsAccess, EngineRuntime, failpoint
from deployments.models import ActionRun, AwsCall
from steps.actions.non_aws_calls import is_write_call
from steps.states import CallState


class QueuedCalls(Protocol):
    """Calls through a delegate: each method returns an answer, or raises `AnswerPending`."""

    def answer(self, row: AwsCall) -> dict[str, Any]: ...
    def read(self, row: AwsCall) -> dict[str, Any]: ...


class JournaledPhase(Protocol):
    """One run of one phase of an action."""

    row: ActionRun
    attempt: int
    phase: str

    @property
    def lease(self) -> Lease: ...
    def commit(self) -> AbstractContextManager[None]:
        """Return a fenced commit of the collected rows."""
        ...

    def save(self) -> None:
        """Commit the collected rows."""
        ...

    def calls(self) -> list[AwsCall]:
        """Return the calls of this phase so far."""
        ...

    @property
    def runtime(self) -> EngineRuntime: ...
    @property
    def rate_limit_key(self) -> str: ...
    @property
    def is_forward(self) -> bool: ...
    @property
    def reads_after(self) -> datetime:
        """Return the time after which a read must start to count in a check (rule 10)."""
        ...

    @property
    def keeps_answers(self) -> bool:
        """Return whether the answers of reads stay until the phases of other actions have ended too."""
        ...

    def build_call(
        self,
        number: int,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        replaced: AwsCall | None = None,
    ) -> AwsCall: ...

    def get_aws_access(self, row: AwsCall) -> DirectAwsAccess:
        """Return the AWS access of a call that this process makes."""
        ...

    def get_delegate_calls(self, row: AwsCall) -> QueuedCalls | None:
        """Return the calls through a delegate; None if this process makes the call."""
        ...

    def copy_delegate_log(self, row: AwsCall) -> None:
        """Copy a delegate's output of this call to the step's log."""
        ...

    def take_token(self, row: AwsCall) -> None:
        """Raise `AnswerPending` unless the rate limit of the account and region allows this call now."""
        ...

    def add_call(self, row: AwsCall) -> None:
        """Add the row to the next commit."""
        ...

    def clear_result(self, row: AwsCall) -> None:
        """Delete the result of a read in the next commit."""
        ...

    def collect_rows(self) -> None:
        """Add the new rows to the next commit."""
        ...

    def flush(self) -> None:
        """Write the collected rows; inside a commit."""
        ...

    def change(self, row: AwsCall, **values: object) -> None:
        """Change columns of a call; the next commit writes them."""
        ...


# Values of `AwsCall.phase`, or their beginnings; the REST API exposes them.
CHECK_PHASE = "look"
CONFIRM_PHASE = "adopt"
VERIFY_PHASE = "verify"
REPLAYED_PHASES = ("start", "undo")
MAX_READ_AGE = timedelta(seconds=20)
"""Maximum age of the reads that a write depends on."""
MAX_KEPT_READ_AGE = timedelta(minutes=5)
"""Maximum age of the reads of a check that waited for the rate limit between them."""


def hash_call(service: str, operation: str, params: Mapping[str, Any]) -> str:
    """Return a hash of service, operation and parameters of a call."""
    text = json.dumps([service, operation, params], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def needs_confirmation(row: AwsCall) -> bool:
    """Return whether nobody knows yet what became of a write that was sent.

    SENT without an answer: the worker crashed before it recorded the answer.
    """
    is_open = row.state == CallState.SENT or (row.state == CallState.UNKNOWN and not row.is_confirmed)
    return row.is_write and is_open


def _get_unsent_state(row: AwsCall) -> CallState:
    """Return the state of a write that was not sent now: what a repetition repeats stays unknown."""
    return CallState.UNKNOWN if row.is_confirmed else CallState.NOT_SENT


def build_unsent_state() -> Case:
    """Return `_get_unsent_state` as an expression for updates."""
    return Case(When(is_confirmed=True, then=Value(CallState.UNKNOWN)), default=Value(CallState.NOT_SENT))


class JournalCaller:
    """Caller of `start` or `undo`, which makes each call once and replays recorded answers."""

    def __init__(self, context: JournaledPhase, *, forbid_sending: bool = False) -> None:
        self._context = context
        self._forbid = forbid_sending
        self._rows = {row.number: row for row in context.calls()}
        self.call_count = 0

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of the next call of this phase, from the journal or from AWS."""
        number, self.call_count = self.call_count, self.call_count + 1
        row = self._rows.get(number)
        if row is None:
            row = self._plan_call(number, service, operation, params)
        elif row.params_hash != hash_call(service, operation, params):
            row = self._replace_call(row, service, operation, params)
        elif row.state in (CallState.ANSWERED, CallState.FAILED):
            return self._get_recorded_answer(row)
        if self._forbid and not needs_confirmation(row):
            raise SendingForbidden
        if row.is_write and row.state in (CallState.PLANNED, CallState.NOT_SENT):
            self._require_recent_reads(row)
        try:
            delegate_calls = self._context.get_delegate_calls(row)
            return delegate_calls.answer(row) if delegate_calls else self._make(row, params)
        except (RateLimited, AwsUnavailable):
            if row.is_write:
                self._reset_reads_before(row)
            raise

    def _get_recorded_answer(self, row: AwsCall) -> dict[str, Any]:
        self._context.copy_delegate_log(row)
        if row.state == CallState.FAILED:
            error = parse_error_record(row.error or {})
            error.may_have_happened |= row.is_confirmed
            raise error
        return dict(json.loads(row.result or "{}"))

    def _replace_call(self, row: AwsCall, service: str, operation: str, params: Mapping[str, Any]) -> AwsCall:
        """Replace a call that was certainly not sent: the reads before it were repeated.

        They may show that its write is needed no more, so that another call comes next.
        """
        if row.state != CallState.NOT_SENT:
            raise JournalMismatch(f"{row.operation} became {operation}")
        return self._context.build_call(row.number, service, operation, params, replaced=row)

    def _require_recent_reads(self, write: AwsCall) -> None:
        """Repeat the reads of an unsent write if they are too old."""
        now = self._context.runtime.now()
        newest = max(
            (row.answered_at for row in self._list_reads_before(write) if row.answered_at), default=now
        )
        if write.pk is not None and write.state == CallState.PLANNED:
            # A delegate may claim it at any time; `claim_call` refuses a write that waited too long.
            return
        if now - newest > MAX_READ_AGE:
            self._reset_reads_before(write)
            raise AnswerPending(now)

    def _reset_reads_before(self, write: AwsCall) -> None:
        """Reset the reads before a write that waited, as somebody may have deployed meanwhile."""
        for row in self._list_reads_before(write):
            row.state, row.result, row.error = CallState.NOT_SENT, "", None
            self._context.add_call(row)

    def _list_reads_before(self, write: AwsCall) -> list[AwsCall]:
        """Return the reads that a write depends on: those since the write before it."""
        before = [row for number, row in self._rows.items() if number < write.number]
        last = max((row.number for row in before if row.is_write), default=-1)
        return [row for row in before if row.number > last]

    def _plan_call(self, number: int, service: str, operation: str, params: Mapping[str, Any]) -> AwsCall:
        if self._forbid:
            raise SendingForbidden
        row = self._context.build_call(number, service, operation, params)
        self._rows[number] = row
        return row

    def _make(self, row: AwsCall, params: Mapping[str, Any]) -> dict[str, Any]:
        if needs_confirmation(row):
            raise NeedsConfirmation(row)
        self._context.take_token(row)
        return self._write(row, params) if row.is_write else self._read(row, params)

    def _read(self, row: AwsCall, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a read; reads have no effect, so their rows wait for the next commit."""
        runtime = self._context.runtime
        row.sent_at, started = runtime.now(), runtime.monotonic()
        row.send_number += 1
        try:
            result = self._context.get_aws_access(row).call(row.service, row.operation, params)
        except AwsError as error:
            if error.is_retryable:
                rate_limits.record_throttling(
                    self._context.rate_limit_key, error, self._context.runtime.now()
                )
                raise AwsUnavailable(error) from error
            row.state, row.error = CallState.FAILED, error.to_record()
            raise
        else:
            row.state, row.result = CallState.ANSWERED, json.dumps(result)
            _record_success(self._context, row)
            return result
        finally:
            row.answered_at = runtime.now()
            row.duration_ms = int((runtime.monotonic() - started) * 1000)
            self._context.add_call(row)

    def _write(self, row: AwsCall, params: Mapping[str, Any]) -> dict[str, Any]:
        """Record the intent, send the write, record the answer, each in its own commit (rules 3, 4, 6)."""
        context, runtime = self._context, self._context.runtime
        failpoint("call.before_sent")
        if not context.lease.has_time_to_write():
            raise LeaseRunsOut
        # Before the commit, because a process may also pause right after it.
        sent = runtime.monotonic()
        row.state, row.sent_at, row.error = CallState.SENT, runtime.now(), None
        row.send_number += 1
        context.add_call(row)
        context.collect_rows()
        with context.commit():
            self._refuse_if_interrupted()
        failpoint("call.sent")
        if runtime.monotonic() - sent > SEND_WITHIN_SECONDS:
            # The process paused for so long that another may have confirmed the write meanwhile.
            self._settle(row, _get_unsent_state(row), sent)
            raise LeaseRunsOut
        try:
            result = context.get_aws_access(row).call(row.service, row.operation, params)
        except AwsError as error:
            self._settle_error(row, error, sent)
            raise
        failpoint("call.answered")
        self._settle(row, CallState.ANSWERED, sent, result=result)
        _record_success(context, row)
        return result

    def _refuse_if_interrupted(self) -> None:
        if self._context.is_forward and is_abort_requested(self._context.lease.execution_id):
            raise AbortRequested

    def _settle_error(self, row: AwsCall, error: AwsError, sent: float) -> None:
        """Record an error; raise an engine signal if it leaves the write undecided."""
        if isinstance(error, Unanswered):
            self._settle(row, CallState.UNKNOWN, sent, error=error)
            raise NeedsConfirmation(row) from error
        if isinstance(error, NotSent | Throttled):
            self._settle(row, _get_unsent_state(row), sent, error=error)
            rate_limits.record_throttling(self._context.rate_limit_key, error, self._context.runtime.now())
            raise AwsUnavailable(error) from error
        error.may_have_happened |= row.is_confirmed
        self._settle(row, CallState.FAILED, sent, error=error)

    def _settle(
        self,
        row: AwsCall,
        state: CallState,
        sent: float,
        *,
        error: AwsError | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        runtime = self._context.runtime
        self._context.change(
            row,
            state=state,
            error=error.to_record() if error else None,
            is_confirmed=row.is_confirmed and result is None and not isinstance(error, Unanswered),
            result=json.dumps(result) if result is not None else "",
            answered_at=runtime.now(),
            duration_ms=int((runtime.monotonic() - sent) * 1000),
        )
        self._context.save()


def _record_success(context: JournaledPhase, row: AwsCall) -> None:
    rate_limits.record_success(context.rate_limit_key, row.service, row.operation, context.runtime.now())


class CheckCaller:
    """Caller of the reads of one check; `read_started_at` is the start of the last read.

    `first_read_at` is that of the earliest one, which may be older than the check; None without reads.
    """

    def __init__(self, context: JournaledPhase) -> None:
        self._context = context
        self._rows = {row.number: row for row in context.calls()}
        self._answers: list[tuple[AwsCall, dict[str, Any]]] = []
        self.call_count = 0
        self.read_started_at = context.runtime.now()
        self.first_read_at: datetime | None = None

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a new answer; raises `AnswerPending` while a delegate reads it."""
        if is_write_call(service, operation, params):
            raise AssertionError(f"a check may only read, not {operation}")
        number, self.call_count = self.call_count, self.call_count + 1
        row = self._rows.get(number)
        params_hash = hash_call(service, operation, params)
        if row is None or row.params_hash != params_hash:
            row = self._context.build_call(number, service, operation, params, replaced=row)
            self._rows[number] = row
        if (delegate_calls := self._context.get_delegate_calls(row)) is not None:
            result = delegate_calls.read(row)
            self._record_start(row.sent_at)
            return result
        if self._is_kept(row):
            self._record_start(row.sent_at)
            self._context.clear_result(row)
            if row.state == CallState.FAILED:
                raise parse_error_record(row.error or {})
            return dict(json.loads(row.result))
        try:
            self._context.take_token(row)
        except RateLimited:
            self._keep_answers()
            raise
        return self._make(row, params)

    def _record_start(self, at: datetime | None) -> None:
        self.read_started_at = at or self._context.runtime.now()
        self.first_read_at = min(self.first_read_at or self.read_started_at, self.read_started_at)

    def _is_kept(self, row: AwsCall) -> bool:
        if not row.result or row.sent_at is None:
            return False
        if self._context.keeps_answers:
            is_answered = row.state in (CallState.ANSWERED, CallState.FAILED)
            return is_answered and row.sent_at > self._context.reads_after
        if row.state != CallState.ANSWERED:
            return False
        oldest = self._context.runtime.now() - MAX_KEPT_READ_AGE
        return row.sent_at > max(oldest, self._context.reads_after)

    def _build_result(self, answer: Mapping[str, Any]) -> str:
        """Return the stored result of a read; only a checklist, whose phases end together, stores it now."""
        return json.dumps(answer) if self._context.keeps_answers else ""

    def _keep_answers(self) -> None:
        """Keep the answers of this pass for the next one.

        If the quota grants one read at a time, a check that repeats all its reads would never end.
        """
        for row, answer in self._answers:
            row.result = json.dumps(answer)
            self._context.add_call(row)

    def _make(self, row: AwsCall, params: Mapping[str, Any]) -> dict[str, Any]:
        runtime = self._context.runtime
        started = runtime.monotonic()
        self._record_start(runtime.now())
        row.repeat_count += 1 if row.pk else 0
        row.sent_at = self.read_started_at
        try:
            result = self._context.get_aws_access(row).call(row.service, row.operation, params)
        except AwsError as error:
            row.state, row.error, row.result = CallState.FAILED, error.to_record(), ""
            if error.is_retryable:
                rate_limits.record_throttling(
                    self._context.rate_limit_key, error, self._context.runtime.now()
                )
                raise AwsUnavailable(error) from error
            row.result = self._build_result({})
            raise
        else:
            row.state, row.error, row.result = CallState.ANSWERED, None, self._build_result(result)
            self._answers.append((row, result))
            _record_success(self._context, row)
            return result
        finally:
            row.answered_at = runtime.now()
            row.duration_ms = int((runtime.monotonic() - started) * 1000)
            self._context.add_call(row)
