"""The journal: every call of an action is a row, so that running the action again sends nothing twice.

Rules 6 to 9 of DESIGN 5. `JournalCaller` serves `start` and `undo`, whose calls are replayed in order;
`LookCaller` serves looks, which only read and forget what they read when the look is committed.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws.errors import AwsError, NotSent, Throttled, Unanswered, from_record
from deployments.engine import quota
from deployments.engine.failpoints import failpoint
from deployments.engine.interrupts import is_abort_waiting
from deployments.engine.journaled import Journaled
from deployments.engine.lease import SEND_WITHIN_SECONDS
from deployments.engine.turns import (
    InterruptWaiting,
    Mismatch,
    NeedsAdoption,
    NoToken,
    OutOfTime,
    Parked,
    SendingForbidden,
    Trouble,
)
from deployments.models import Call
from steps.actions.work import changes
from steps.states import CallState

READS_LAST = timedelta(seconds=20)
"""How long what was read may wait for the write that rests on it."""


def hash_of(service: str, operation: str, params: Mapping[str, Any]) -> str:
    """What tells two calls apart: service, operation and parameters."""
    text = json.dumps([service, operation, params], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class JournalCaller:
    """Makes the calls of one run of `start` or `undo`, or answers them from the journal."""

    def __init__(self, rollout: Journaled, *, forbid_sending: bool = False) -> None:
        self._rollout = rollout
        self._forbid = forbid_sending
        self._rows = {row.number: row for row in rollout.calls()}
        self.made = 0

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the next call of this phase, from the journal or from AWS."""
        number, self.made = self.made, self.made + 1
        row = self._rows.get(number)
        if row is None:
            row = self._plan(number, service, operation, params)
        elif row.params_hash != hash_of(service, operation, params):
            row = self._plan_again(row, service, operation, params)
        elif row.state in (CallState.ANSWERED, CallState.FAILED):
            return self._recorded(row)
        if row.is_write and row.state in (CallState.PLANNED, CallState.NOT_SENT):
            self._refuse_old_reads(row)
        try:
            remote = self._rollout.remote_for(row)
            return remote.answer(row) if remote else self._make(row, params)
        except (NoToken, Trouble):
            if row.is_write:
                self._read_again_before(row)
            raise

    def _recorded(self, row: Call) -> dict[str, Any]:
        self._rollout.relay(row)
        if row.state == CallState.FAILED:
            raise from_record(row.error or {})
        return dict(json.loads(row.result or "{}"))

    def _plan_again(self, row: Call, service: str, operation: str, params: Mapping[str, Any]) -> Call:
        """A write that was certainly not sent may become another one after the world was read again."""
        if not row.is_write or row.state != CallState.NOT_SENT or row.operation != operation:
            raise Mismatch(f"{row.operation} became {operation}")
        return self._rollout.new_call(row.number, service, operation, params, instead_of=row)

    def _refuse_old_reads(self, write: Call) -> None:
        """Have the world read again where a write that nobody has sent rests on what was true a while ago."""
        now = self._rollout.world.now()
        newest = max((row.answered_at for row in self._reads_before(write) if row.answered_at), default=now)
        if write.pk is not None and write.state == CallState.PLANNED:
            # A delegate may take it at any moment; `acquire` refuses it once it has waited for too long.
            return
        if now - newest > READS_LAST:
            self._read_again_before(write)
            raise Parked(now)

    def _read_again_before(self, write: Call) -> None:
        """What a write rests on is too old once the write has waited: somebody may deploy meanwhile."""
        for row in self._reads_before(write):
            row.state, row.result, row.error = CallState.NOT_SENT, "", None
            self._rollout.keep_call(row)

    def _reads_before(self, write: Call) -> list[Call]:
        """The reads that a write rests on: those since the write before it."""
        before = [row for number, row in self._rows.items() if number < write.number]
        last = max((row.number for row in before if row.is_write), default=-1)
        return [row for row in before if row.number > last]

    def _plan(self, number: int, service: str, operation: str, params: Mapping[str, Any]) -> Call:
        if self._forbid:
            raise SendingForbidden
        row = self._rollout.new_call(number, service, operation, params)
        self._rows[number] = row
        return row

    def _make(self, row: Call, params: Mapping[str, Any]) -> dict[str, Any]:
        if row.is_write and row.state in (CallState.SENT, CallState.UNKNOWN):
            # SENT without an answer: the worker that sent it died before it could write the answer down.
            raise NeedsAdoption(row)
        if self._forbid:
            raise SendingForbidden
        self._rollout.take_token(row)
        return self._write(row, params) if row.is_write else self._read(row, params)

    def _read(self, row: Call, params: Mapping[str, Any]) -> dict[str, Any]:
        """Reads have no effect, so their rows travel with the next commit."""
        world = self._rollout.world
        row.sent_at, began = world.now(), world.monotonic()
        row.send_number += 1
        try:
            result = self._rollout.door_for(row).call(row.service, row.operation, params)
        except AwsError as error:
            if error.is_retryable:
                quota.rest(self._rollout.quota, error, self._rollout.world.now())
                raise Trouble(error) from error
            row.state, row.error = CallState.FAILED, error.to_record()
            raise
        else:
            row.state, row.result = CallState.ANSWERED, json.dumps(result)
            return result
        finally:
            row.answered_at = world.now()
            row.duration_ms = int((world.monotonic() - began) * 1000)
            self._rollout.keep_call(row)

    def _write(self, row: Call, params: Mapping[str, Any]) -> dict[str, Any]:
        """Intent first, then the effect, then its answer: three commits' worth of truth (rules 3, 4, 6)."""
        rollout, world = self._rollout, self._rollout.world
        failpoint("call.before_sent")
        if not rollout.lease.may_write():
            raise OutOfTime
        # Before the commit, for a process may also stand still right behind it.
        sent = world.monotonic()
        row.state, row.sent_at, row.error = CallState.SENT, world.now(), None
        row.send_number += 1
        rollout.keep_call(row)
        rollout.hand_over()
        with rollout.commit():
            self._refuse_if_interrupted()
        failpoint("call.sent")
        if world.monotonic() - sent > SEND_WITHIN_SECONDS:
            # It stood for so long that another may have judged the write meanwhile.
            self._settle(row, CallState.NOT_SENT, sent, error=None)
            raise OutOfTime
        try:
            result = rollout.door_for(row).call(row.service, row.operation, params)
        except AwsError as error:
            self._settle_error(row, error, sent)
            raise
        failpoint("call.answered")
        self._settle(row, CallState.ANSWERED, sent, result=result)
        return result

    def _refuse_if_interrupted(self) -> None:
        if self._rollout.is_forward and is_abort_waiting(self._rollout.lease.execution_id):
            raise InterruptWaiting

    def _settle_error(self, row: Call, error: AwsError, sent: float) -> None:
        """Turns where the answer decides nothing; a refusal by AWS is recorded and goes to the action."""
        if isinstance(error, Unanswered):
            self._settle(row, CallState.UNKNOWN, sent, error=error)
            raise NeedsAdoption(row) from error
        if isinstance(error, NotSent | Throttled):
            self._settle(row, CallState.NOT_SENT, sent, error=error)
            quota.rest(self._rollout.quota, error, self._rollout.world.now())
            raise Trouble(error) from error
        self._settle(row, CallState.FAILED, sent, error=error)

    def _settle(
        self,
        row: Call,
        state: CallState,
        sent: float,
        *,
        error: AwsError | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        world = self._rollout.world
        self._rollout.change(
            row,
            state=state,
            error=error.to_record() if error else None,
            result=json.dumps(result) if result is not None else "",
            answered_at=world.now(),
            duration_ms=int((world.monotonic() - sent) * 1000),
        )
        self._rollout.save()


class LookCaller:
    """Makes the reads of one look. `begun` is when the last answer was asked for."""

    def __init__(self, rollout: Journaled) -> None:
        self._rollout = rollout
        self._rows = {row.number: row for row in rollout.calls()}
        self.made = 0
        self.begun = rollout.world.now()

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """A fresh answer; raises `Parked` while a delegate still looks for it."""
        if changes(service, operation, params):
            raise AssertionError(f"a look may only read, not {operation}")
        number, self.made = self.made, self.made + 1
        row = self._rows.get(number)
        wanted = hash_of(service, operation, params)
        if row is None or row.params_hash != wanted:
            row = self._rollout.new_call(number, service, operation, params, instead_of=row)
            self._rows[number] = row
        if (remote := self._rollout.remote_for(row)) is not None:
            result = remote.look(row)
            self.begun = row.sent_at or self._rollout.world.now()
            return result
        return self._make(row, params)

    def _make(self, row: Call, params: Mapping[str, Any]) -> dict[str, Any]:
        world = self._rollout.world
        self._rollout.take_token(row)
        self.begun, began = world.now(), world.monotonic()
        row.repeats += 1 if row.pk else 0
        row.sent_at = self.begun
        try:
            result = self._rollout.door_for(row).call(row.service, row.operation, params)
        except AwsError as error:
            row.state, row.error = CallState.FAILED, error.to_record()
            if error.is_retryable:
                quota.rest(self._rollout.quota, error, self._rollout.world.now())
                raise Trouble(error) from error
            raise
        else:
            row.state, row.error = CallState.ANSWERED, None
            return result
        finally:
            row.answered_at = world.now()
            row.duration_ms = int((world.monotonic() - began) * 1000)
            self._rollout.keep_call(row)
