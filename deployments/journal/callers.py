"""Callers that record every AWS call of an action as a row before it is sent."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol

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
    """Calls that a delegate makes: each method returns an answer, or lets the execution wait."""

    def answer(self, row: AwsCall) -> dict[str, Any]: ...
    def read(self, row: AwsCall) -> dict[str, Any]: ...


class JournaledPhase(Protocol):
    """One run of one phase of one action."""

    row: ActionRun
    attempt: int
    phase: str

    @property
    def lease(self) -> Lease: ...
    def commit(self) -> AbstractContextManager[None]:
        """Return a fenced commit of what was handed over."""
        ...

    def save(self) -> None:
        """Commit what was handed over."""
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
    def floor(self) -> datetime:
        """Checks use only reads begun after this moment (rule 10)."""
        ...

    def new_call(
        self,
        number: int,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        instead_of: AwsCall | None = None,
    ) -> AwsCall: ...

    def get_aws_access(self, row: AwsCall) -> DirectAwsAccess:
        """Return the AWS access of a call that this process makes."""
        ...

    def remote_for(self, row: AwsCall) -> QueuedCalls | None:
        """Return the calls of a delegate; None where this process makes the call."""
        ...

    def relay(self, row: AwsCall) -> None:
        """Bring what a delegate printed for this call into the step's log."""
        ...

    def take_token(self, row: AwsCall) -> None:
        """Raise `AnswerPending` unless this account and region may be asked for this call now."""
        ...

    def keep_call(self, row: AwsCall) -> None:
        """Write this row with the next commit."""
        ...

    def consume(self, row: AwsCall) -> None:
        """Forget the result of a read once the pass is committed."""
        ...

    def hand_over(self) -> None:
        """Give what was gathered so far to the next commit."""
        ...

    def flush(self) -> None:
        """Write what was gathered so far; inside a commit."""
        ...

    def change(self, row: AwsCall, **values: object) -> None:
        """Change columns of a call; the next commit writes them."""
        ...


# Values of `AwsCall.phase`, or their beginnings; the REST API exposes them.
CHECK_PHASE = "look"
CONFIRM_PHASE = "adopt"
REPLAYED_PHASES = ("start", "undo")
READS_LAST = timedelta(seconds=20)
"""How long what was read may wait for the write that rests on it."""


def hash_call(service: str, operation: str, params: Mapping[str, Any]) -> str:
    """Return a hash of service, operation and parameters of a call."""
    text = json.dumps([service, operation, params], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class JournalCaller:
    """Makes the calls of one run of `start` or `undo`, or answers them from the journal."""

    def __init__(self, context: JournaledPhase, *, forbid_sending: bool = False) -> None:
        self._context = context
        self._forbid = forbid_sending
        self._rows = {row.number: row for row in context.calls()}
        self.made = 0

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of the next call of this phase, from the journal or from AWS."""
        number, self.made = self.made, self.made + 1
        row = self._rows.get(number)
        if row is None:
            row = self._plan(number, service, operation, params)
        elif row.params_hash != hash_call(service, operation, params):
            row = self._plan_again(row, service, operation, params)
        elif row.state in (CallState.ANSWERED, CallState.FAILED):
            return self._recorded(row)
        if row.is_write and row.state in (CallState.PLANNED, CallState.NOT_SENT):
            self._refuse_old_reads(row)
        try:
            remote = self._context.remote_for(row)
            return remote.answer(row) if remote else self._make(row, params)
        except (RateLimited, AwsUnavailable):
            if row.is_write:
                self._read_again_before(row)
            raise

    def _recorded(self, row: AwsCall) -> dict[str, Any]:
        self._context.relay(row)
        if row.state == CallState.FAILED:
            raise parse_error_record(row.error or {})
        return dict(json.loads(row.result or "{}"))

    def _plan_again(self, row: AwsCall, service: str, operation: str, params: Mapping[str, Any]) -> AwsCall:
        """Replace a write that was certainly not sent, after the state in AWS was read again."""
        if not row.is_write or row.state != CallState.NOT_SENT or row.operation != operation:
            raise JournalMismatch(f"{row.operation} became {operation}")
        return self._context.new_call(row.number, service, operation, params, instead_of=row)

    def _refuse_old_reads(self, write: AwsCall) -> None:
        """Read the state in AWS again where an unsent write rests on old reads."""
        now = self._context.runtime.now()
        newest = max((row.answered_at for row in self._reads_before(write) if row.answered_at), default=now)
        if write.pk is not None and write.state == CallState.PLANNED:
            # A delegate may take it at any moment; `acquire` refuses it once it has waited for too long.
            return
        if now - newest > READS_LAST:
            self._read_again_before(write)
            raise AnswerPending(now)

    def _read_again_before(self, write: AwsCall) -> None:
        """What a write rests on is too old once the write has waited: somebody may deploy meanwhile."""
        for row in self._reads_before(write):
            row.state, row.result, row.error = CallState.NOT_SENT, "", None
            self._context.keep_call(row)

    def _reads_before(self, write: AwsCall) -> list[AwsCall]:
        """Return the reads that a write rests on: those since the write before it."""
        before = [row for number, row in self._rows.items() if number < write.number]
        last = max((row.number for row in before if row.is_write), default=-1)
        return [row for row in before if row.number > last]

    def _plan(self, number: int, service: str, operation: str, params: Mapping[str, Any]) -> AwsCall:
        if self._forbid:
            raise SendingForbidden
        row = self._context.new_call(number, service, operation, params)
        self._rows[number] = row
        return row

    def _make(self, row: AwsCall, params: Mapping[str, Any]) -> dict[str, Any]:
        if row.is_write and row.state in (CallState.SENT, CallState.UNKNOWN):
            # SENT without an answer: the worker that sent it died before it could write the answer down.
            raise NeedsConfirmation(row)
        if self._forbid:
            raise SendingForbidden
        self._context.take_token(row)
        return self._write(row, params) if row.is_write else self._read(row, params)

    def _read(self, row: AwsCall, params: Mapping[str, Any]) -> dict[str, Any]:
        """Reads have no effect, so their rows travel with the next commit."""
        runtime = self._context.runtime
        row.sent_at, began = runtime.now(), runtime.monotonic()
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
            return result
        finally:
            row.answered_at = runtime.now()
            row.duration_ms = int((runtime.monotonic() - began) * 1000)
            self._context.keep_call(row)

    def _write(self, row: AwsCall, params: Mapping[str, Any]) -> dict[str, Any]:
        """Intent first, then the effect, then its answer: three commits' worth of truth (rules 3, 4, 6)."""
        context, runtime = self._context, self._context.runtime
        failpoint("call.before_sent")
        if not context.lease.may_write():
            raise LeaseRunsOut
        # Before the commit, for a process may also stand still right behind it.
        sent = runtime.monotonic()
        row.state, row.sent_at, row.error = CallState.SENT, runtime.now(), None
        row.send_number += 1
        context.keep_call(row)
        context.hand_over()
        with context.commit():
            self._refuse_if_interrupted()
        failpoint("call.sent")
        if runtime.monotonic() - sent > SEND_WITHIN_SECONDS:
            # It stood for so long that another may have judged the write meanwhile.
            self._settle(row, CallState.NOT_SENT, sent, error=None)
            raise LeaseRunsOut
        try:
            result = context.get_aws_access(row).call(row.service, row.operation, params)
        except AwsError as error:
            self._settle_error(row, error, sent)
            raise
        failpoint("call.answered")
        self._settle(row, CallState.ANSWERED, sent, result=result)
        return result

    def _refuse_if_interrupted(self) -> None:
        if self._context.is_forward and is_abort_requested(self._context.lease.execution_id):
            raise AbortRequested

    def _settle_error(self, row: AwsCall, error: AwsError, sent: float) -> None:
        """Turns where the answer decides nothing; a refusal by AWS is recorded and goes to the action."""
        if isinstance(error, Unanswered):
            self._settle(row, CallState.UNKNOWN, sent, error=error)
            raise NeedsConfirmation(row) from error
        if isinstance(error, NotSent | Throttled):
            self._settle(row, CallState.NOT_SENT, sent, error=error)
            rate_limits.record_throttling(self._context.rate_limit_key, error, self._context.runtime.now())
            raise AwsUnavailable(error) from error
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
            result=json.dumps(result) if result is not None else "",
            answered_at=runtime.now(),
            duration_ms=int((runtime.monotonic() - sent) * 1000),
        )
        self._context.save()


class CheckCaller:
    """Caller of the reads of one check. `begun` is the start of the last read."""

    def __init__(self, context: JournaledPhase) -> None:
        self._context = context
        self._rows = {row.number: row for row in context.calls()}
        self.made = 0
        self.begun = context.runtime.now()

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a fresh answer; raises `AnswerPending` while a delegate still reads it."""
        if is_write_call(service, operation, params):
            raise AssertionError(f"a look may only read, not {operation}")
        number, self.made = self.made, self.made + 1
        row = self._rows.get(number)
        wanted = hash_call(service, operation, params)
        if row is None or row.params_hash != wanted:
            row = self._context.new_call(number, service, operation, params, instead_of=row)
            self._rows[number] = row
        if (remote := self._context.remote_for(row)) is not None:
            result = remote.read(row)
            self.begun = row.sent_at or self._context.runtime.now()
            return result
        return self._make(row, params)

    def _make(self, row: AwsCall, params: Mapping[str, Any]) -> dict[str, Any]:
        runtime = self._context.runtime
        self._context.take_token(row)
        self.begun, began = runtime.now(), runtime.monotonic()
        row.repeat_count += 1 if row.pk else 0
        row.sent_at = self.begun
        try:
            result = self._context.get_aws_access(row).call(row.service, row.operation, params)
        except AwsError as error:
            row.state, row.error = CallState.FAILED, error.to_record()
            if error.is_retryable:
                rate_limits.record_throttling(
                    self._context.rate_limit_key, error, self._context.runtime.now()
                )
                raise AwsUnavailable(error) from error
            raise
        else:
            row.state, row.error = CallState.ANSWERED, None
            return result
        finally:
            row.answered_at = runtime.now()
            row.duration_ms = int((runtime.monotonic() - began) * 1000)
            self._context.keep_call(row)
