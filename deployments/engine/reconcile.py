"""Reconcile pass over one execution, its finalization, and recovery after a crash."""

import os
import socket
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from connectors.specs.aws_sessions import AwsRun, name_aws_sessions
from deployments.engine import always_actions, interrupts, service_locks, stage_execution, stage_rollback
from deployments.engine.execution_rows import ExecutionRows
from deployments.engine.failures import INTERVENTION_CHECK_INTERVAL
from deployments.engine.lease import Lease, LeaseLostError, claim_lease, load_execution
from deployments.engine.reconcile_context import ReconcileContext, ServiceSnapshot
from deployments.engine.service_waits import ServiceWait
from deployments.engine.status_log import StatusLog
from deployments.engine.steps.scheduler import ENDED_BADLY, StepScheduler
from deployments.execution.events import notify_end, record_end
from deployments.journal.runtime import LIVE_RUNTIME, EngineRuntime
from deployments.log import compact_chunks
from deployments.models import Execution, Interrupt, StageExecution
from guards.log_lines import get_propagated_fields
from guards.metrics import RECONCILE_SECONDS
from guards.tracing import resume_trace_context
from steps.states import TERMINAL_STATUSES, Status
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS

_NOT_BEGUN_REASON = "because the execution ended before it began"


def finalize_execution(reconcile_context: ReconcileContext) -> timedelta | None:
    """Run the always-actions, then end the execution; None means continue immediately."""
    row = always_actions.get_next_always_action(reconcile_context, reconcile_context.rows.all_steps)
    if row is None:
        _end(reconcile_context)
        return None
    if row.step.stage_id != reconcile_context.stage.pk:
        reconcile_context = replace(reconcile_context, stage=row.step.stage)
    return always_actions.advance_always_action(reconcile_context, row)


def _continue_after_failure(reconcile_context: ReconcileContext) -> bool:
    """Close the failed stage if a later one runs after a failure; return False if none does."""
    execution, stage = reconcile_context.execution, reconcile_context.stage
    later_stages = [
        later_stage for later_stage in reconcile_context.rows.stages if later_stage.position > stage.position
    ]
    if stage.status in TERMINAL_STATUSES or all(
        later_stage.status != Status.QUEUED for later_stage in later_stages
    ):
        return False
    with reconcile_context.commit(reload=True):
        stage.status = execution.final_status
        stage.save(update_fields=["status"])
        stage.steps.exclude(status__in=TERMINAL_STATUSES).update(status=Status.SKIPPED)
        service_locks.release_locks(reconcile_context)
        execution.final_status, execution.status = "", Status.RUNNING
        execution.save(update_fields=["final_status", "status"])
    return True


def _has_begun(reconcile_context: ReconcileContext, stage: StageExecution) -> bool:
    """Return whether an open stage has begun; one that waits for a service lock is queued again."""
    steps = reconcile_context.rows.list_section_steps(stage)
    return stage.status != Status.QUEUED or any(step.started_at is not None for step in steps)


def _end(reconcile_context: ReconcileContext) -> None:
    execution = reconcile_context.execution
    if execution.final_status in ENDED_BADLY and _continue_after_failure(reconcile_context):
        return
    for stage in reconcile_context.rows.stages:
        if stage.status not in TERMINAL_STATUSES:
            reason = "" if _has_begun(reconcile_context, stage) else _NOT_BEGUN_REASON
            reconcile_context.change(stage, status=execution.final_status, skip_reason=reason)
            for step in reconcile_context.rows.list_stage_steps(stage):
                if step.status not in TERMINAL_STATUSES:
                    reconcile_context.change(step, status=Status.SKIPPED)
    reconcile_context.change(
        execution, status=execution.final_status, final_status="", ended_at=reconcile_context.runtime.now()
    )
    with reconcile_context.commit():
        service_locks.release_locks(reconcile_context)
        notify_end(execution, reconcile_context.mask)
        record_end(execution)


# Interval of reads of people's requests, apart from the start of a pass and each write.
CHECK_INTERRUPTS_SECONDS = 2


def reconcile(
    execution_id: UUID,
    *,
    runtime: EngineRuntime = LIVE_RUNTIME,
    snapshot: ServiceSnapshot | None = None,
    owner: str = "",
) -> bool:
    """Reconcile an execution that is due and not leased; return False if there was nothing to do."""
    lease = claim_lease(execution_id, owner=owner or get_lease_owner(), runtime=runtime)
    if lease is None:
        return False
    # The request that woke the execution, if any, is nearer than the one that started it.
    nearest = get_propagated_fields() | {"execution": execution_id}
    with (
        resume_trace_context(lease.execution.trace_context, "reconcile", **nearest),
        name_aws_sessions(lambda: AwsRun(lease.execution.pipeline.identifier, str(execution_id))),
    ):
        return _reconcile_leased(lease, snapshot or ServiceSnapshot())


def _reconcile_leased(lease: Lease, snapshot: ServiceSnapshot) -> bool:
    reconcile_pass = _ReconcilePass(lease, snapshot)
    started, result = time.monotonic(), "failed"
    try:
        next_due_at, service_wait = reconcile_pass.advance_until_it_waits()
        reconcile_pass.rows.release(**lease.build_release_columns(next_due_at, service_wait))
        result = "done"
    except LeaseLostError:
        return False
    finally:
        RECONCILE_SECONDS.labels(result).observe(time.monotonic() - started)
    if next_due_at is None:
        compact_chunks(lease.execution_id)
    return True


@dataclass
class _ReconcilePass:
    """Pass of one worker over one execution: its rows, and the state between two advances."""

    lease: Lease
    snapshot: ServiceSnapshot
    rows: ExecutionRows = field(init=False)
    _scheduler: StepScheduler = field(default_factory=StepScheduler)
    _status_log: StatusLog = field(default_factory=StatusLog)
    _interrupts_checked: float = 0.0

    def __post_init__(self) -> None:
        self._load(self.lease.execution)

    def advance_until_it_waits(self) -> tuple[datetime | None, ServiceWait | None]:
        """Return the moment of the next pass, None when the execution is over, and its service wait."""
        while True:
            self._refresh()
            while self.rows.has_interrupts:
                interrupts.apply_interrupts(self.rows)
                self._load()
            if self.rows.execution.is_over:
                return None, None
            if self.rows.execution.restored_at is not None:
                return self.lease.runtime.now() + INTERVENTION_CHECK_INTERVAL, None
            reconcile_context = self._build_context()
            wait = _advance(reconcile_context)
            if wait is not None:
                return self.lease.runtime.now() + wait, reconcile_context.service_wait
            if self.lease.is_pass_over():
                return self.lease.runtime.now(), None

    def _refresh(self) -> None:
        """Reload the rows if anything but their own commits has changed them."""
        since_check = self.lease.runtime.monotonic() - self._interrupts_checked
        if self.rows.is_stale or since_check >= CHECK_INTERRUPTS_SECONDS:
            self.rows.save()
            self._load()

    def _load(self, execution: Execution | None = None) -> None:
        self._interrupts_checked = self.lease.runtime.monotonic()
        execution = execution or load_execution(self.lease.execution_id)
        self.rows = ExecutionRows(self.lease, execution, self._status_log)

    def _build_context(self) -> ReconcileContext:
        return ReconcileContext(
            rows=self.rows,
            stage=self.rows.current_stage,
            snapshot=self.snapshot,
            scheduler=self._scheduler,
        )


def _advance(reconcile_context: ReconcileContext) -> timedelta | None:
    """Advance the execution; None means continue immediately."""
    stage = reconcile_context.stage
    if not service_locks.reacquire_locks(reconcile_context):
        return service_locks.LOCK_RETRY_INTERVAL
    if reconcile_context.execution.final_status:
        return finalize_execution(reconcile_context)
    if reconcile_context.execution.rolling_back:
        return stage_rollback.advance_rollback(reconcile_context)
    if stage.status == Status.QUEUED and not reconcile_context.claims:
        stage_execution.start_stage(reconcile_context)
        return None
    return stage_execution.advance_stage(reconcile_context)


def get_lease_owner() -> str:
    """Return the owner of this process's leases."""
    return f"{socket.gethostname()}:{os.getpid()}"[:128]


RELEASE_TIMEOUT_SECONDS = 10.0


def record_crash(execution_ids: Sequence[UUID], error: Exception) -> None:
    """Record a crash for the execution that this process was reconciling; its next pass fails it.

    Its lease expires by itself, so the next pass comes within a minute. Others of the batch may have been
    dispatched again, so another worker has their leases.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__} in {frame.name}: {error}"[:255]
    claimed = Execution.objects.filter(
        pk__in=execution_ids, lease_owner=get_lease_owner(), lease_expires_at__gt=get_database_time()
    )
    execution = claimed.order_by("-lease_expires_at").first()
    if execution is None:
        return
    waiting = Interrupt.objects.filter(execution=execution, kind=Interrupt.Kind.FAIL)
    if waiting.filter(applied_at=None).exists():
        return
    Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.FAIL, result=text)


def release_leases(execution_ids: Sequence[UUID], *, within: float = RELEASE_TIMEOUT_SECONDS) -> bool:
    """Release the leases of this process immediately, so that the next tick continues the passes.

    Tries for `within` seconds; returns False if the database is unavailable: then the leases expire.
    """
    deadline = time.monotonic() + within
    while True:
        try:
            # The new fence prevents further writes of the interrupted pass.
            Execution.objects.filter(
                pk__in=execution_ids, lease_owner=get_lease_owner(), lease_expires_at__isnull=False
            ).update(
                lease_expires_at=None,
                due_at=Now(),
                dispatch_backoff_until=None,
                fence=F("fence") + 1,
            )
            return True
        except OUTAGE_ERRORS:
            connection.close()
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.5)
