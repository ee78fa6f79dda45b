"""Step context of the engine: AWS calls through the call journal, outputs, rollback data, log."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, cast

from aws.apis.ecs_types import EcsService
from aws.apis.iam import StsClient
from deployments.approvals.requests import ApprovalRequester
from deployments.engine.execution_rows import UNDO_TRIES, EarlierStepData, RollbackData
from deployments.engine.lease import Lease
from deployments.engine.reconcile_context import ReconcileContext, list_new_events
from deployments.engine.service_waits import (
    FULL_PASS_INTERVAL,
    ServiceWait,
    get_batch_key,
    get_observed_state,
    get_rate_limit_key,
)
from deployments.engine.steps.inputs import EngineStepInputs, resolve_value, to_json
from deployments.engine.steps.outputs import StepOutputs
from deployments.engine.steps.phase_log import PhaseLog
from deployments.journal import rate_limits, secret_values
from deployments.journal.callers import REPLAYED_PHASES, VERIFY_PHASE, CheckCaller, JournalCaller, hash_call
from deployments.journal.delegate_calls import DelegateCalls
from deployments.journal.engine_signals import ServiceLockRequired
from deployments.journal.provisions import EngineProvisions
from deployments.journal.referenced_secrets import unsent_while_pending
from deployments.journal.runtime import DirectAwsAccess, EngineRuntime, QueuedAwsAccess
from deployments.models import ActionRun, AwsCall, StepExecution
from deployments.regions import NO_CLUSTER, find_call_region
from guards.masks import redact_parameters
from steps.actions.base import ActionFailed
from steps.actions.context import (
    ApprovalRequest,
    ApprovalState,
    AwsClients,
    EarlierStep,
    OtherStep,
    ServiceObservation,
)
from steps.actions.non_aws_calls import DELEGATE_SERVICE, NonAwsCalls, is_write_call
from steps.states import CallState, Status


class EngineStepContext(AwsClients):
    """Context of one phase of one action; its collected rows are written by `flush`, inside a commit."""

    def __init__(
        self,
        reconcile_context: ReconcileContext,
        row: ActionRun,
        phase: str,
        *,
        log_step: StepExecution | None = None,
        forbid_sending: bool = False,
        confirmed_phase: str = "",
    ) -> None:
        self.reconcile_context = reconcile_context
        self.confirmed_phase = confirmed_phase
        self.row = row
        self.step = row.step
        self.phase = phase
        self.attempt = row.attempt
        # The step whose log receives the lines of this phase.
        self.log_step = log_step or row.step
        self._forbid_sending = forbid_sending
        self._calls: list[AwsCall] = []
        self._consumed: list[AwsCall] = []
        self._phase_log = PhaseLog(self)
        self._outputs = StepOutputs(reconcile_context, row.step)
        self._counts: dict[str, int] | None = None
        # A deep copy, so that an interrupted pass leaves the row unchanged.
        self.progress: dict[str, Any] = deepcopy(row.progress)
        self.waits_for_service = ""
        self._observation: ServiceObservation | None = None
        # Of the last observation, also of one that a delegate has not answered yet.
        self._observed_service = ""
        self.waiting_status = Status.ASYNC_WAITING
        self.decision_deadline: datetime | None = None
        self._waits_for_change = False
        self._recheck_at: datetime | None = None
        self.sleeps_until: datetime | None = None
        self.is_write_requested = False

    @property
    def lease(self) -> Lease:
        return self.reconcile_context.lease

    @property
    def runtime(self) -> EngineRuntime:
        return self.reconcile_context.runtime

    def get_aws_access(self, row: AwsCall) -> DirectAwsAccess:
        if row.service == DELEGATE_SERVICE:
            return cast("DirectAwsAccess", self._open_work(row))
        aws_access = cast("DirectAwsAccess", self.reconcile_context.get_aws_access(self.step))
        return secret_values.add_secret_injection(
            aws_access, row.service, self.step, self.reconcile_context.execution.scope
        )

    def get_delegate_calls(self, row: AwsCall) -> DelegateCalls | None:
        if row.service != DELEGATE_SERVICE:
            return self.delegate_calls
        access = self._open_work(row)
        return DelegateCalls(self, cast("QueuedAwsAccess", access)) if hasattr(access, "queue") else None

    def _open_work(self, row: AwsCall) -> DirectAwsAccess | QueuedAwsAccess:
        with unsent_while_pending():
            return self.runtime.open_work(self.step, row.operation, row.parsed_parameters)

    def copy_delegate_log(self, row: AwsCall) -> None:
        if row.service == DELEGATE_SERVICE and row.task_id is not None:
            self._phase_log.copy_task_output(row)

    @cached_property
    def delegate_calls(self) -> DelegateCalls | None:
        aws_access = self.reconcile_context.get_aws_access(self.step)
        return (
            DelegateCalls(self, cast("QueuedAwsAccess", aws_access)) if hasattr(aws_access, "queue") else None
        )

    @property
    def rate_limit_key(self) -> str:
        return get_rate_limit_key(self.reconcile_context.stage, self.region)

    def take_token(self, row: AwsCall) -> None:
        execution = self.reconcile_context.execution
        rate_limits.take_token(
            self.rate_limit_key,
            row.service,
            row.operation,
            holder=str(execution.pk),
            owner=str(execution.started_by_id or "triggers"),
            now=self.runtime.now(),
        )

    @property
    def is_forward(self) -> bool:
        execution = self.reconcile_context.execution
        return not execution.rolling_back and not execution.final_status

    @property
    def is_replayed(self) -> bool:
        return self.phase.startswith(REPLAYED_PHASES)

    @property
    def keeps_answers(self) -> bool:
        return self.phase.startswith(VERIFY_PHASE)

    @cached_property
    def reads_after(self) -> datetime:
        """Return the answer time of the last write; checks use later reads only (rule 10)."""
        answered = self.reconcile_context.rows.get_last_answer_time(self.step)
        # An earlier rollback may have left answers of its checklist behind.
        began = self.log_step.started_at if self.keeps_answers else None
        return max(filter(None, (answered, began)), default=datetime.min.replace(tzinfo=UTC))

    def build_call(
        self,
        number: int,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        replaced: AwsCall | None = None,
    ) -> AwsCall:
        row = replaced or AwsCall(
            execution=self.reconcile_context.execution,
            step=self.step,
            action=self.row,
            attempt=self.attempt,
            phase=self.phase,
            number=number,
            planned_at=self.runtime.now(),
            state=CallState.PLANNED,
        )
        columns = {
            "service": service,
            "operation": operation,
            "is_write": is_write_call(service, operation, params),
            "params_hash": hash_call(service, operation, params),
            "parameters": to_json(params),
            "preview": redact_parameters(params, self.reconcile_context.mask),
            "result": "",
            "error": None,
        }
        if row.pk is not None:
            self.reconcile_context.change(row, **columns)
        for name, value in columns.items():
            setattr(row, name, value)
        return row

    def calls(self) -> list[AwsCall]:
        """Return the calls of this phase so far."""
        rows = self.reconcile_context.rows
        rows.reload_open_calls(self.step)
        return rows.list_phase_calls(self.row, self.attempt, self.phase)

    def add_call(self, row: AwsCall) -> None:
        if not any(call is row for call in self._calls):
            self._calls.append(row)

    def clear_result(self, row: AwsCall) -> None:
        """Delete the result of a read in the next commit."""
        self._consumed.append(row)

    @cached_property
    def caller(self) -> JournalCaller | CheckCaller:
        if self.is_replayed:
            return JournalCaller(self, forbid_sending=self._forbid_sending)
        return CheckCaller(self)

    @property
    def cluster(self) -> str:
        if not self.reconcile_context.stage.cluster:
            raise ActionFailed("PLACE_NOT_KNOWN", NO_CLUSTER)
        return self.reconcile_context.stage.cluster

    @property
    def work(self) -> NonAwsCalls:
        return NonAwsCalls(self.caller)

    @cached_property
    def provisions(self) -> EngineProvisions:
        return EngineProvisions(self.step, self.attempt, self.runtime.now)

    @cached_property
    def step_inputs(self) -> EngineStepInputs:
        return EngineStepInputs(self)

    @property
    def region(self) -> str:
        return find_call_region(self.reconcile_context.stage, self.step)

    @property
    def execution_id(self) -> str:
        return str(self.reconcile_context.execution.pk)

    @property
    def force_new_deployment(self) -> bool | None:
        return self.reconcile_context.execution.force_new_deployment

    @property
    def is_undo_retry_requested(self) -> bool:
        return self.row.undo_attempts >= UNDO_TRIES

    @property
    def written_at(self) -> datetime | None:
        calls = self.reconcile_context.rows.list_action_calls(self.row)
        writes = (row for row in calls if row.is_write and row.phase.startswith("start") and not row.error)
        return max((row.sent_at for row in writes if row.sent_at), default=None)

    @property
    def intent(self) -> str:
        return f"{self.reconcile_context.execution.pk.hex[:20]}-{self.row.pk}-{self.attempt}"

    def get_earlier_step(self, step_type: str) -> EarlierStep | None:
        # One that a condition has skipped has no outputs: the one before it counts.
        steps = self.reconcile_context.rows.list_steps_before(self.step, step_type)
        return next((self._build_earlier_step(step) for step in steps if step.started_at is not None), None)

    def list_earlier_steps(self, step_type: str) -> list[EarlierStep]:
        steps = self.reconcile_context.rows.list_steps_before(self.step, step_type)
        return [self._build_earlier_step(step) for step in steps]

    def _build_earlier_step(self, step: StepExecution) -> EarlierStepData:
        return EarlierStepData(step, self.reconcile_context.rows.get_rollback_values(step, step.run))

    def list_other_steps(self, step_type: str = "") -> list[OtherStep]:
        return [
            self._build_earlier_step(step)
            for step in self.reconcile_context.rows.all_steps
            if step_type in ("", step.type) and step.pk != self.step.pk
        ]

    @cached_property
    def _rollback_data(self) -> RollbackData:
        run = self.step.run
        return RollbackData(self.step, run, self.reconcile_context.rows.get_rollback_values(self.step, run))

    def get_account(self) -> str:
        return StsClient(self.caller).get_account_id()

    def acquire_service_lock(self, ecs_service: str, *, is_main: bool = True) -> None:
        if not self.reconcile_context.is_service_lock_held(self.step, ecs_service):
            raise ServiceLockRequired(ecs_service, is_main)

    def save_for_rollback(self, name: str, value: Any) -> Any:
        return self._rollback_data.save_for_rollback(self._get_rollback_key(name), value)

    def load_for_rollback(self, name: str) -> Any:
        value = self._rollback_data.load_for_rollback(self._get_rollback_key(name))
        return self._rollback_data.load_for_rollback(name) if value is None else value

    def _get_rollback_key(self, name: str) -> str:
        """Return the key of rollback data; the data of an undo belongs to one attempt of it."""
        phase = self.confirmed_phase or self.phase
        return f"{phase}/{name}" if phase.startswith("undo") else name

    def set_outputs(self, **outputs: Any) -> None:
        self._outputs.set_outputs(outputs)

    def get_outputs(self) -> dict[str, Any]:
        return self._outputs.get_outputs()

    def set_output(self, name: str, value: str, *, is_secret: bool = False) -> None:
        self._outputs.set_output(name, value, is_secret=is_secret)

    def resolve_expression(self, path: str) -> Any:
        return resolve_value(path, {**self.reconcile_context.build_values(), **self.get_outputs()})

    def get_output(self, name: str) -> Any:
        return self._outputs.get_output(name)

    def now(self) -> datetime:
        return self.runtime.now()

    def observe_service(self, name: str) -> ServiceObservation:
        self._observed_service = name
        observation = self._observation = self._read_service(name)
        if observation.service is not None:
            for event in list_new_events(
                self.reconcile_context,
                self._rollback_data.load_for_rollback("service before"),
                observation.service,
            ):
                self.log(event, "event")
        return observation

    def _read_service(self, name: str) -> ServiceObservation:
        if self.delegate_calls is None:
            batch_key = get_batch_key(self.reconcile_context.stage)
            recent = self.reconcile_context.snapshot.pop_observation(batch_key, name, after=self.reads_after)
            if recent is not None:
                return recent
        service = self.ecs.describe_service(self.cluster, name)
        return ServiceObservation(name, service, cast("CheckCaller", self.caller).read_started_at)

    def wait_for_service(self, name: str) -> None:
        self.waits_for_service = name

    def wait_for_change(self, until: datetime | None = None) -> None:
        self._waits_for_change, self._recheck_at = True, until

    def sleep(self, until: datetime) -> None:
        self.sleeps_until = until

    @property
    def wakes_at(self) -> datetime | None:
        """Return the time of the next check if the action only waits for time."""
        return self._recheck_at if self._observation is None and not self.waits_for_service else None

    def request_approval(self, request: ApprovalRequest) -> None:
        self.approval_requester.request(request)

    def get_approval_state(self, key: str = "") -> ApprovalState:
        return self.approval_requester.get_state(key)

    def withdraw_approval(self, key: str) -> None:
        self.approval_requester.withdraw(key)

    def request_write(self) -> None:
        self.is_write_requested = True

    @cached_property
    def approval_requester(self) -> ApprovalRequester:
        return ApprovalRequester(self)

    def wait_for_decision(self, until: datetime) -> None:
        """Wait for people's decision until a time."""
        self.waiting_status, self.decision_deadline = Status.APPROVAL_WAITING, until

    def build_service_wait(self, *, since: datetime, deadline: datetime | None) -> ServiceWait | None:
        """Return the wait of the execution after this phase; None if it is not for an ECS service."""
        observation = self._observation
        waits_for_service = observation.name if observation is not None else self.waits_for_service
        if not waits_for_service:
            return None
        recheck_at = min(
            self._recheck_at or datetime.max.replace(tzinfo=UTC), self.runtime.now() + FULL_PASS_INTERVAL
        )
        return ServiceWait(
            waits_for_service=waits_for_service,
            waiting_since=since,
            observed_state=get_observed_state(observation) if self._waits_for_change else "",
            recheck_at=min(recheck_at, deadline) if deadline else recheck_at,
            rate_limit_key=self.rate_limit_key,
            batch_key=get_batch_key(self.reconcile_context.stage),
        )

    @property
    def observed_service(self) -> EcsService | None:
        """Return the service as observed last; None if there is none, or no observation."""
        return self._observation.service if self._observation else None

    def build_pending_wait(self) -> ServiceWait | None:
        """Return the wait while a delegate observes a service, whose events still count; otherwise None."""
        started_at = self.row.start_done_at
        if not self._observed_service or started_at is None or self.delegate_calls is None:
            return None
        return ServiceWait(
            waits_for_service=self._observed_service,
            waiting_since=started_at,
            observed_state="",
            recheck_at=self.runtime.now(),
            rate_limit_key=self.rate_limit_key,
            batch_key=get_batch_key(self.reconcile_context.stage),
        )

    def show_counts(self, *, running: int, desired: int, pending: int, ended: int = 0) -> None:
        self._counts = {"running": running, "desired": desired, "pending": pending}
        if ended:
            self._counts["ended"] = ended

    def log(self, text: str, level: str = "info") -> None:
        self._phase_log.add_line(text, level)

    def redact(self, texts: Sequence[str]) -> list[str]:
        return self.reconcile_context.mask.mask_lines(texts)

    def add_note(self, text: str) -> None:
        self._phase_log.add_note(text)

    def commit(self) -> AbstractContextManager[None]:
        """Return a fenced commit of the collected rows."""
        return self.reconcile_context.commit()

    def save(self) -> None:
        """Commit the collected rows."""
        self.reconcile_context.save()

    def change(self, row: AwsCall, **values: object) -> None:
        """Change columns of a call; the next commit writes them."""
        self.reconcile_context.change(row, **values)

    def flush(self) -> None:
        """Write the collected rows; inside a commit."""
        self.collect_rows()
        self.reconcile_context.rows.flush()

    def collect_rows(self) -> None:
        """Add the new rows to the next commit. A check is written completely or not at all."""
        rows = self.reconcile_context.rows
        for call in self._calls:
            rows.add_call(call)
        self._calls = []
        if self.is_replayed:
            self._collect_remaining_rows()

    def _collect_remaining_rows(self) -> None:
        rows = self.reconcile_context.rows
        if "_rollback_data" in self.__dict__:
            rows.add_rollback_values(self._rollback_data.new)
            self._rollback_data.new = []
        for name in ("approval_requester", "provisions"):
            if name in self.__dict__:
                rows.add_write(getattr(self, name).flush)
        self._phase_log.collect_lines()
        self.reconcile_context.flush_events()

    def finish(self, *, keep_progress: bool) -> None:
        """End the phase: add outputs, progress, counts and lines to the next commit."""
        if keep_progress and self.progress != self.row.progress:
            self.reconcile_context.change(self.row, progress=self.progress)
        # A checklist may take several passes, each of which goes over all of its reads.
        if not self.keeps_answers:
            self._clear_results(self._consumed)
        self._consumed = []
        # Before the lines, in which secret outputs are redacted.
        self._outputs.save()
        self._phase_log.collect_notes()
        self.collect_rows()
        self._collect_remaining_rows()
        self.reconcile_context.save_view(self.step, self._counts)

    def abandon(self) -> None:
        """Discard the results of an interrupted check, which is repeated."""
        if self.is_replayed:
            return
        self._counts, self._consumed = None, []
        self._phase_log.discard()
        self._outputs.discard()
        self.progress = deepcopy(self.row.progress)
        self.reconcile_context.discard_events()

    def drop_results(self) -> None:
        """Clear the answers of an ended phase, which may contain secrets (rule 6)."""
        calls = self.reconcile_context.rows.list_phase_calls(self.row, self.attempt, self.phase)
        self._clear_results([call for call in calls if call.result])

    def _clear_results(self, calls: Sequence[AwsCall]) -> None:
        for call in calls:
            call.result = ""
        if call_ids := [call.pk for call in calls if call.pk is not None]:
            self.reconcile_context.rows.add_write(
                lambda: AwsCall.objects.filter(pk__in=call_ids).update(result="")
            )
