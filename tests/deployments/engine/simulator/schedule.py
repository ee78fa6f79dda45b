"""One simulated schedule: the real engine on the fake ECS, with all that can go wrong, from one seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aws.errors import AwsError, NotSent, Throttled, Unanswered
from aws.operations import is_write
from deployments.engine.dispatch import claim_due_batches, reconcile_batch
from deployments.engine.lease import wake_execution
from deployments.engine.reconcile import reconcile
from deployments.journal import delegate_calls, rate_limits
from deployments.journal.runtime import EngineRuntime, set_hook
from deployments.models import AwsCall, Execution, Interrupt
from steps.states import CallState
from tests.deployments.engine.simulator.fake_ecs import FakeEcs

LONGEST = timedelta(hours=3)
LEASE = timedelta(seconds=20)


class Death(BaseException):
    """The worker was killed here."""


@dataclass
class Odds:
    """How often each misfortune strikes."""

    kill: float = 0.0
    second_worker: float = 0.0
    lost_answer: float = 0.0
    lost_request: float = 0.0
    throttle: float = 0.0
    refuse: float = 0.0
    lag: float = 0.0
    abort: bool = False
    roll_back: bool = False
    foreigner: bool = False
    remote: bool = False
    delegate_dies: float = 0.0
    bad_image: bool = False
    breaker: bool = False
    first_deployment: bool = False
    quota_share: float = 0.25
    valkey_lost: float = 0.0
    unchanged: bool = False
    """Slipway deployed the same content before."""

    @classmethod
    def from_random(cls, rng: random.Random) -> "Odds":
        def some(maximum: float) -> float:
            return rng.random() * maximum if rng.random() < 0.6 else 0.0

        return cls(
            kill=some(0.08),
            second_worker=some(0.05),
            lost_answer=some(0.4),
            lost_request=some(0.3),
            throttle=some(0.3),
            refuse=some(0.2),
            lag=some(0.05),
            abort=rng.random() < 0.3,
            roll_back=rng.random() < 0.5,
            foreigner=rng.random() < 0.2,
            remote=rng.random() < 0.4,
            delegate_dies=some(0.2),
            bad_image=rng.random() < 0.4,
            breaker=rng.random() < 0.3,
            first_deployment=rng.random() < 0.3,
            quota_share=rng.choice((0.25, 0.25, 0.25, 0.05)),
            valkey_lost=some(0.02),
        )


@dataclass
class Schedule:
    """A run of one execution against one fake account."""

    rng: random.Random
    odds: Odds
    ecs: FakeEcs
    moment: datetime = field(default_factory=lambda: datetime.now(UTC) + timedelta(minutes=1))
    deliveries: list[tuple[datetime, int, int]] = field(default_factory=list)
    """When which call is taken; with a send number, when the lease of that send ends."""
    history: list[str] = field(default_factory=list)
    depth: int = 0
    quiet_after: datetime | None = None
    calls: list[tuple[datetime, str]] = field(default_factory=list)
    """The calls that reached the wire, and when."""

    # --- the sample that the engine is given -------------------------------------------------------

    @property
    def runtime(self) -> EngineRuntime:
        return EngineRuntime(
            open_aws_access=lambda _connector, _region: self, now=self.now, monotonic=self.monotonic
        )

    def __getattr__(self, name: str) -> Any:
        # A door is remote when it can queue: one class plays both, as this schedule's odds say.
        if name == "queue" and self.odds.remote:
            return self._queue
        raise AttributeError(name)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    def call(self, _service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make a call in process, with the faults of a network."""
        self.moment += timedelta(milliseconds=self.rng.randrange(5, 400))
        return self._on_the_wire(operation, dict(params))

    def _on_the_wire(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        write = is_write("ecs", operation) if operation not in ("GetCallerIdentity",) else False
        self.calls.append((self.moment, operation))
        if self._strikes(self.odds.throttle / 3):
            raise Throttled("ThrottlingException", "Rate exceeded", "ecs", operation)
        if self._strikes(self.odds.refuse / 3):
            raise NotSent("EndpointConnectionError", "refused", "ecs", operation)
        if self._strikes(self.odds.lost_request / (1 if write else 5)):
            raise Unanswered("ReadTimeout", "no answer", "ecs", operation)
        response = self.ecs.call(operation, params, "slipway")
        if write:
            self.history.append(f"{self.moment:%H:%M:%S} effect {operation}")
            if self._strikes(self.odds.lag * 4):
                self.ecs.delay_reads(self.rng.uniform(1, 20))
        if self._strikes(self.odds.lost_answer / (1 if write else 5)):
            self.history.append(f"  the answer to {operation} was lost")
            raise Unanswered("ConnectionClosed", "cut", "ecs", operation)
        return response

    def _strikes(self, odds: float) -> bool:
        """Return whether a fault occurs; faults end after a while, so that every schedule ends."""
        if self.quiet_after is not None and self.moment > self.quiet_after:
            return False
        return self.rng.random() < odds

    # --- a delegate -------------------------------------------------------------------------------

    def _queue(self, call_id: int) -> None:
        deliver_at = self.moment + timedelta(seconds=self.rng.uniform(0.1, 6))
        self.deliveries.append((deliver_at, call_id, 0))

    def _deliver_due(self) -> None:
        for item in [delivery for delivery in self.deliveries if delivery[0] <= self.moment]:
            self.deliveries.remove(item)
            if item[2]:
                self._lose(item[1], item[2])
            else:
                self._take(item[1])

    def _die(self, row: AwsCall) -> None:
        """Lose the delegate; the manager notices by the lease, unless it is away itself."""
        if self.rng.random() < 0.8:
            self.deliveries.append((self.moment + LEASE, row.pk, row.send_number))

    def _lose(self, call_id: int, send_number: int) -> None:
        """Give a lost read to the other delegate; the engine confirms a lost write in AWS."""
        is_read = not AwsCall.objects.get(pk=call_id).is_write
        if is_read and delegate_calls.requeue_call(call_id, send_number):
            self.history.append("  a lost read goes to the other delegate")
            self._queue(call_id)
        elif delegate_calls.mark_unknown(call_id, send_number, self.runtime):
            self.history.append("  a lost write is UNKNOWN")

    def _take(self, call_id: int) -> None:
        row = delegate_calls.claim_call(call_id, self.runtime)
        if row is None:
            return
        if self._strikes(self.odds.delegate_dies / 2):
            self.history.append(f"  the delegate died before {row.operation}")
            self._die(row)
            return
        send_number, operation = row.send_number, row.operation
        try:
            response, error = self._on_the_wire(operation, row.parsed_parameters), None
        except AwsError as aws_error:
            response, error = None, aws_error
        if self._strikes(self.odds.delegate_dies / 2):
            self.history.append(f"  the delegate died after {operation}")
            self._die(row)
            return
        self.moment += timedelta(seconds=self.rng.choice((0.1, 1, 3)))
        delay = timedelta(seconds=70) if self._strikes(self.odds.delegate_dies / 4) else timedelta(0)
        if delay:
            self.history.append(f"  the answer to {operation} comes late")
            self.late_answers.append((self.moment + delay, row.pk, send_number, response, error))
            return
        delegate_calls.record_answer(row.pk, send_number, self.runtime, result=response, error=error)

    late_answers: list[Any] = field(default_factory=list)

    def _deliver_late(self) -> None:
        for item in [late_item for late_item in self.late_answers if late_item[0] <= self.moment]:
            self.late_answers.remove(item)
            delegate_calls.record_answer(item[1], item[2], self.runtime, result=item[3], error=item[4])

    # --- time -------------------------------------------------------------------------------------

    def run(self, execution: Execution) -> Execution:
        """Run the schedule until the execution has ended."""
        started_at = self.moment
        self.quiet_after = started_at + timedelta(minutes=6)
        abort_at = started_at + timedelta(seconds=self.rng.uniform(0, 60)) if self.odds.abort else None
        foreigner_at = (
            started_at + timedelta(seconds=self.rng.uniform(0, 60)) if self.odds.foreigner else None
        )
        set_hook(self._failpoint)
        try:
            while self.moment - started_at < LONGEST:
                execution.refresh_from_db()
                if execution.is_over:
                    return execution
                if abort_at and self.moment >= abort_at:
                    self._abort(execution)
                    abort_at = None
                if foreigner_at and self.moment >= foreigner_at:
                    self.history.append(f"{self.moment:%H:%M:%S} a foreign deployment")
                    self.ecs.start_foreign_deployment()
                    foreigner_at = None
                self._pass_time(execution, [due_time for due_time in (abort_at, foreigner_at) if due_time])
                self._tick()
        finally:
            set_hook(None)
        return execution

    def _pass_time(self, execution: Execution, planned_times: list[datetime]) -> None:
        """Advance to the next due moment, and a little further."""
        deadlines = [
            deadline
            for deadline in (execution.lease_expires_at, execution.dispatch_backoff_until)
            if deadline
        ]
        reconcile_at = max([execution.due_at or self.moment, *deadlines])
        next_time = min(
            [reconcile_at, *planned_times, *(item[0] for item in (*self.deliveries, *self.late_answers))]
        )
        self.moment = max(self.moment, next_time) + timedelta(seconds=self.rng.choice((0.1, 0.5, 1, 2)))

    def _tick(self) -> None:
        self._deliver_due()
        self._deliver_late()
        if self._strikes(self.odds.valkey_lost):
            self.history.append(f"{self.moment:%H:%M:%S} Valkey lost what it knew of the quota")
            rate_limits.reset_buckets()
        try:
            for group in claim_due_batches(self.runtime):
                if self._strikes(self.odds.kill):
                    continue  # the message was lost
                reconcile_batch(group, runtime=self.runtime)
        except Death:
            self.history.append(f"{self.moment:%H:%M:%S} killed")

    def _failpoint(self, name: str) -> None:
        if self._strikes(self.odds.kill / 4):
            self.history.append(f"{self.moment:%H:%M:%S} killed at {name}")
            raise Death
        if self.depth == 0 and self._strikes(self.odds.second_worker / 2):
            self._second_worker(name)

    def _second_worker(self, name: str) -> None:
        """Freeze this worker, and let another one reconcile the same execution."""
        self.moment += timedelta(seconds=self.rng.choice((0, 1, 6, 25, 61, 90)))
        self.history.append(f"{self.moment:%H:%M:%S} a second worker while one stands at {name}")
        self.depth += 1
        self._deliver_due()
        try:
            for execution in Execution.objects.filter(due_at__lte=self.moment):
                reconcile(execution.pk, runtime=self.runtime, owner="second")
        except Death:
            self.history.append("  which was killed too")
        finally:
            self.depth -= 1

    def _abort(self, execution: Execution) -> None:
        kind = Interrupt.Kind.ABORT_AND_ROLL_BACK if self.odds.roll_back else Interrupt.Kind.ABORT
        self.history.append(f"{self.moment:%H:%M:%S} {kind}")
        Interrupt.objects.create(execution=execution, kind=kind)
        wake_execution(execution.pk, self.moment)

    def open_writes(self, execution: Execution) -> list[AwsCall]:
        return list(
            AwsCall.objects.filter(
                execution=execution, is_write=True, state__in=(CallState.SENT, CallState.UNKNOWN)
            )
        )
