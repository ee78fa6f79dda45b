"""Built-in delegate: the workers run delegate tasks with the agent's executors."""

import json
import logging
import threading
import time
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection

from delegates.agent import VERSION
from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from delegates.agent.isolation import IsolationLevel, detect_isolation
from delegates.agent.tasks import HeldTask, parse_task
from delegates.models import Delegate, DelegateInstance, DelegateTask
from delegates.protocol import logs
from delegates.protocol.completions import complete_task
from delegates.protocol.leases import AcquiredTask, acquire_task, renew_leases
from delegates.protocol.limits import RENEW_SECONDS
from delegates.protocol.problems import StaleFence
from delegates.task_owners import TaskAnswer
from guards.limits import TASK_LOG_BURST
from guards.tracing import resume_trace_context
from web.clock import get_database_time
from web.http.client import get_outgoing_reach
from web.http.outages import OUTAGE_ERRORS, is_outage

BUILT_IN_INSTANCE_KEY = "workers"
HEARTBEAT_INTERVAL = timedelta(seconds=5)
# Celery ends longer tasks; the built-in delegate answers earlier.
LONGEST_SECONDS = 40
STOP_SECONDS = 5.0
CAPACITY = 10
logger = logging.getLogger(__name__)


def is_built_in_alive(now: datetime) -> bool:
    """Return whether the workers' instance sent a heartbeat within five seconds."""
    workers = DelegateInstance.objects.filter(delegate__is_built_in=True, key=BUILT_IN_INSTANCE_KEY)
    return workers.filter(last_heartbeat_at__gt=now - HEARTBEAT_INTERVAL).exists()


def record_built_in_heartbeat(now: datetime) -> DelegateInstance | None:
    """Record a heartbeat of the workers' instance; None without a built-in delegate."""
    delegate = Delegate.objects.filter(is_built_in=True).first()
    if delegate is None:
        return None
    instance, _ = DelegateInstance.objects.update_or_create(
        delegate=delegate,
        key=BUILT_IN_INSTANCE_KEY,
        defaults={
            "hostname": BUILT_IN_INSTANCE_KEY,
            "version": VERSION,
            "capacity": CAPACITY,
            "isolation": detect_isolation().level.value,
            "connection": DelegateInstance.Connection.POLLING,
            "status": DelegateInstance.Status.REGISTERED,
            "suspect_since": None,
            "last_heartbeat_at": now,
            "running": DelegateTask.objects.filter(
                instance__delegate=delegate, status=DelegateTask.Status.STARTED
            ).count(),
        },
        create_defaults={
            "hostname": BUILT_IN_INSTANCE_KEY,
            "version": VERSION,
            "capacity": CAPACITY,
            "isolation": detect_isolation().level.value,
            "connection": DelegateInstance.Connection.POLLING,
            "last_heartbeat_at": now,
            "registered_at": now,
        },
    )
    return instance


def list_offered_tasks(now: datetime) -> list[UUID]:
    """Return the tasks that are offered to the workers."""
    queued = DelegateTask.objects.filter(
        status=DelegateTask.Status.QUEUED, offered_to__is_built_in=True, offered_until__gt=now
    )
    return list(queued.order_by("queued_at").values_list("pk", flat=True)[:CAPACITY])


def run_offered_task(task_id: UUID) -> bool:
    """Claim a task and run it in this process; return False if another delegate has it."""
    instance = DelegateInstance.objects.select_related("delegate").filter(
        key=BUILT_IN_INSTANCE_KEY, delegate__is_built_in=True
    )
    worker = instance.first()
    acquired = None if worker is None else acquire_task(worker, task_id)
    if worker is None or acquired is None:
        return False
    with resume_trace_context(acquired.task.trace_context, "delegate task", delegate_task=task_id):
        _run_acquired_task(worker, acquired)
    return True


def _run_acquired_task(worker: DelegateInstance, acquired: AcquiredTask) -> None:
    body = acquired.build_document()
    body["timeout_seconds"] = min(body["timeout_seconds"], LONGEST_SECONDS)
    held_task = HeldTask(parse_task(body, time.monotonic()))
    lines = _LogBuffer()
    renewing = _LeaseRenewal(worker, held_task)
    began = time.monotonic()
    try:
        renewing.start()
        outcome = execute_task(held_task, _build_context(lines))
    finally:
        renewing.stop()
    _record_outcome(
        worker, acquired.task, lines, outcome, duration_ms=round((time.monotonic() - began) * 1000)
    )


def _build_context(lines: "_LogBuffer") -> ExecutorContext:
    """Return the task context without scripts: a script could read the manager's keys and all secrets."""
    blocks_shell = not settings.EMBEDDED
    isolation = detect_isolation().with_hidden(settings.HOME)
    # Another project's script could read one project's repositories.
    is_readable = not blocks_shell and isolation.level == IsolationLevel.NONE
    return ExecutorContext(
        lines,
        blocks_shell,
        token_files=None,
        reach=get_outgoing_reach(),
        git_cache=None if is_readable else settings.GIT_CACHE,
        isolation=isolation,
        patience_seconds=STOP_SECONDS,
        max_result_bytes=None,
    )


def _record_outcome(
    worker: DelegateInstance,
    task: DelegateTask,
    lines: "_LogBuffer",
    outcome: TaskResult,
    *,
    duration_ms: int,
) -> None:
    try:
        if lines.written:
            logs.append_task_lines(worker, task.pk, task.fence, 0, lines.with_gap())
    except StaleFence:
        logger.warning("%s was reassigned from the workers", task.title)
    answer = TaskAnswer(outcome.status, outcome.result, outcome.error, duration_ms)
    complete_task(worker, task.pk, fence=task.fence, answer=answer)


class _LogBuffer:
    """Buffer of a task's output until the task ends, up to the size of one log upload."""

    def __init__(self) -> None:
        self.written: list[dict[str, object]] = []
        self._remaining_bytes, self._missing = int(TASK_LOG_BURST), 0

    def write(self, level: str, text: str) -> None:
        line: dict[str, object] = {"t": time.time_ns() // 1_000_000, "level": level, "text": text}
        self._remaining_bytes -= len(json.dumps(line))
        if self._remaining_bytes > 0:
            self.written.append(line)
        else:
            self._missing += 1

    def with_gap(self) -> list[dict[str, object]]:
        """Return the lines, and at their end how many more there were."""
        if not self._missing:
            return self.written
        text = f"{self._missing:,} lines are missing here: a worker keeps {TASK_LOG_BURST} of a task's log."
        return [*self.written, {"t": time.time_ns() // 1_000_000, "level": "WARN", "text": text}]


class _LeaseRenewal(threading.Thread):
    """Renewal of a running task's lease; it stops the task after a withdrawal."""

    def __init__(self, worker: DelegateInstance, held_task: HeldTask) -> None:
        super().__init__(daemon=True)
        self._worker_id = worker.pk
        self._held_task = held_task
        self._ended = threading.Event()

    def run(self) -> None:
        reported = {UUID(self._held_task.task.id): self._held_task.task.fence}
        try:
            while not self._ended.wait(RENEW_SECONDS):
                try:
                    now = renew_leases(self._worker_id, reported, now=get_database_time())
                except OUTAGE_ERRORS as error:
                    if not is_outage(error):
                        raise
                    logger.warning("The lease of a task was not renewed this time: %s", error)
                    connection.close()
                    continue
                self._held_task.is_lost, self._held_task.is_aborted = bool(now.lost), bool(now.aborted)
                if now.lost or now.aborted:
                    self._held_task.stopped.set()
        finally:
            connection.close()

    def stop(self) -> None:
        """End and wait for the thread: its connection closes with it."""
        self._ended.set()
        self.join()
