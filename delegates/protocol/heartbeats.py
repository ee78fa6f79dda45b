"""Heartbeats: parsed, collected per process, and written in one statement a second."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from delegates.connectivity import LATE_AFTER
from delegates.live import publish_delegates_changed
from delegates.models import (
    Delegate,
    DelegateEvent,
    DelegateInstance,
    DelegateTask,
)
from delegates.protocol import configurations
from delegates.protocol.events import get_instance_label, notify_back, record_event
from delegates.protocol.limits import DEADLINE_GRACE, LEASE, ROTATE_BEFORE, SESSION
from delegates.protocol.notices import get_session_end
from delegates.protocol.requests import RequestFields, run_in_thread
from delegates.protocol.sessions import generate_session, hash_secret
from guards.limits import AGENT_TASKS
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage

_UPDATE = """
UPDATE delegates_delegateinstance SET suspect_since = NULL, last_heartbeat_at = %s, cpu_process = %s,
  cpu_system = %s, memory_mib = %s, running = %s, max_executing = %s, status = %s
  WHERE id = %s AND status <> 'GONE'
"""
_SAMPLE = """
INSERT INTO delegates_instancesample (at, cpu_process, cpu_system, memory_mib, running, instance_id)
VALUES (%s, %s, %s, %s, %s, %s)
"""
_UPDATE_ARRAYS = """
UPDATE delegates_delegateinstance AS i SET suspect_since = NULL, last_heartbeat_at = %s,
  cpu_process = b.cpu_process, cpu_system = b.cpu_system, memory_mib = b.memory_mib,
  running = b.running, max_executing = b.max_executing, status = b.status
FROM unnest(%s::float8[], %s::float8[], %s::float8[], %s::int[], %s::int[], %s::text[], %s::bigint[])
  AS b (cpu_process, cpu_system, memory_mib, running, max_executing, status, id)
WHERE i.id = b.id AND i.status <> 'GONE'
"""
_SAMPLE_ARRAYS = """
INSERT INTO delegates_instancesample (at, cpu_process, cpu_system, memory_mib, running, instance_id)
SELECT %s, b.* FROM unnest(%s::float8[], %s::float8[], %s::float8[], %s::int[], %s::bigint[]) AS b
"""


@dataclass(frozen=True)
class Heartbeat:
    """Values that an instance reports; older agents report no `configuration_revision`."""

    instance_id: int
    running: Mapping[UUID, int] = field(default_factory=dict)
    cpu_process: float = 0.0
    cpu_system: float = 0.0
    memory_mib: float = 0.0
    max_executing: int = 0
    draining: bool = False
    configuration_revision: str | None = None

    @property
    def row(self) -> tuple[Any, ...]:
        """Return the row of the SQL statements: load, memory, running, most at once, status, instance."""
        status = DelegateInstance.Status.DRAINING if self.draining else DelegateInstance.Status.REGISTERED
        load = (self.cpu_process, self.cpu_system, self.memory_mib)
        return (*load, len(self.running), self.max_executing, status.value, self.instance_id)


def write_heartbeats(beats: Iterable[Heartbeat], now: datetime) -> None:
    """Store the current values of instances, with one sample each for the charts of a day."""
    rows = [beat.row for beat in beats]
    if not rows:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            columns = [list(column) for column in zip(*rows, strict=True)]
            cursor.execute(_UPDATE_ARRAYS, [now, *columns])
            cursor.execute(_SAMPLE_ARRAYS, [now, *columns[:4], columns[-1]])
        else:
            moment = connection.ops.adapt_datetimefield_value(now)
            cursor.executemany(_UPDATE, [(moment, *row) for row in rows])
            cursor.executemany(_SAMPLE, [(moment, *row[:4], row[-1]) for row in rows])


GONE = DelegateInstance.Status.GONE


@dataclass(frozen=True)
class EndedSession:
    """Response to a heartbeat of an ended session; `code` is the code of the refusal."""

    code: str


HeartbeatResponse = Mapping[str, Any] | EndedSession

_REVISION_FIELD: Final = "configuration_revision"
REVISION_CHARACTERS: Final = 100


def parse_heartbeat(instance_id: int, fields: RequestFields) -> Heartbeat:
    """Return the body of a heartbeat. Raises `BadInput` naming the field."""
    return Heartbeat(
        instance_id=instance_id,
        running=fields.list_task_fences("running", AGENT_TASKS),
        cpu_process=fields.get_number("cpu_process"),
        cpu_system=fields.get_number("cpu_system"),
        memory_mib=fields.get_number("memory_mib"),
        max_executing=fields.get_integer("max_executing", 0, 10_000, default=0),
        draining=fields.body.get("draining") is True,
        configuration_revision=(
            fields.get_text(_REVISION_FIELD, REVISION_CHARACTERS) if _REVISION_FIELD in fields.body else None
        ),
    )


class _InstanceColumns(NamedTuple):
    """Columns of an instance for heartbeats; whole model rows take ten times as long to load."""

    pk: int
    session_hash: str
    token__status: str | None
    delegate__admission: str
    delegate__scope__archived_at: datetime | None
    delegate__scope__parent__archived_at: datetime | None
    delegate: int
    status: str
    session_expires_at: datetime | None
    last_heartbeat_at: datetime | None
    suspect_since: datetime | None
    running: int
    delegate__draining: bool
    delegate__updated_at: datetime
    delegate__configuration: int | None
    delegate__configuration__updated_at: datetime | None

    @property
    def end(self) -> str:
        archived = (self.delegate__scope__archived_at, self.delegate__scope__parent__archived_at)
        return get_session_end(self.session_hash, self.token__status, self.delegate__admission, *archived)


@transaction.atomic
def record_heartbeats(beats: Mapping[int, Heartbeat]) -> dict[int, HeartbeatResponse]:
    """Store the heartbeats of many instances, renew their leases, and return the responses."""
    now = get_database_time()
    rows = DelegateInstance.objects.filter(pk__in=list(beats)).values_list(*_InstanceColumns._fields)
    instances = [_InstanceColumns._make(row) for row in rows]
    answers: dict[int, HeartbeatResponse] = {pk: EndedSession("session_invalid") for pk in beats}
    answers |= {row.pk: EndedSession(row.end) for row in instances if row.end}
    alive = [row for row in instances if not row.end]
    _publish_changes(alive, beats, now)
    write_heartbeats([beats[row.pk] for row in alive], now)
    tasks = _build_task_reports({row.pk: beats[row.pk] for row in alive}, now)
    changed = _list_changed_configurations(alive, beats, now)
    for instance in alive:
        answers[instance.pk] = {
            **tasks[instance.pk],
            **_build_answer(instance, now),
            "configuration": changed.get(instance.pk),
        }
    return answers


def _publish_changes(
    instances: Sequence[_InstanceColumns], beats: Mapping[int, Heartbeat], now: datetime
) -> None:
    """Record recovered and draining instances, and publish them and changes of load."""
    draining = DelegateInstance.Status.DRAINING
    back = {row.pk for row in instances if _was_away(row, now)}
    drained = {row.pk for row in instances if beats[row.pk].draining and row.status != draining}
    if back:
        notify_back(row.delegate for row in instances if row.pk in back)
    for pk, instance in _load_instances(back | drained).items():
        if pk in back:
            text = f"{get_instance_label(instance)} is connected again."
            record_event(instance, DelegateEvent.Kind.CONNECTED, text, at=now)
        if pk in drained:
            text = (
                f"{get_instance_label(instance)} is draining: it finishes its tasks and accepts no new ones."
            )
            record_event(instance, DelegateEvent.Kind.DRAINING, text, at=now)
    changed = back | drained | {row.pk for row in instances if len(beats[row.pk].running) != row.running}
    if changed:
        publish_delegates_changed(*{row.delegate for row in instances if row.pk in changed})


def _load_instances(ids: set[int]) -> dict[int, DelegateInstance]:
    return DelegateInstance.objects.select_related("delegate").in_bulk(list(ids)) if ids else {}


def _was_away(instance: _InstanceColumns, now: datetime) -> bool:
    last_heartbeat_at = instance.last_heartbeat_at
    return (
        last_heartbeat_at is None
        or instance.suspect_since is not None
        or instance.status == GONE
        or now - last_heartbeat_at >= LATE_AFTER
    )


def _build_task_reports(beats: Mapping[int, Heartbeat], now: datetime) -> dict[int, dict[str, list[str]]]:
    """Return the reported tasks that are lost, and those to abort, by instance."""
    reported = {pk: beat.running for pk, beat in beats.items() if beat.running}
    answers: dict[int, dict[str, list[str]]] = {pk: {"aborted": [], "lost": []} for pk in beats}
    task_ids = {task for running in reported.values() for task in running}
    if not task_ids:
        return answers
    running_tasks = DelegateTask.objects.filter(
        pk__in=task_ids,
        status=DelegateTask.Status.STARTED,
        lease_until__gt=now,
        deadline__gt=now - DEADLINE_GRACE,
    )
    rows = {
        row[0]: row[1:] for row in running_tasks.values_list("pk", "instance", "fence", "abort_requested")
    }
    renewed = []
    for pk, running in reported.items():
        for task, fence in running.items():
            instance_id, current, aborts = rows.get(task, (None, None, False))
            if (instance_id, current) != (pk, fence):
                answers[pk]["lost"].append(str(task))
                continue
            renewed.append(task)
            if aborts:
                answers[pk]["aborted"].append(str(task))
    # The condition is repeated: another process may have changed the row since the query.
    running_tasks.filter(pk__in=renewed).update(lease_until=now + LEASE)
    return answers


def _build_answer(instance: _InstanceColumns, now: datetime) -> dict[str, Any]:
    session, until = None, instance.session_expires_at
    if until is not None and until - now < ROTATE_BEFORE:
        renewed, renewed_until = generate_session(instance.pk), now + SESSION
        unchanged = DelegateInstance.objects.filter(pk=instance.pk, session_hash=instance.session_hash)
        # Another process may have renewed it since it was read: then only that session is valid.
        if unchanged.update(
            session_hash=hash_secret(renewed),
            previous_session_hash=instance.session_hash,
            session_expires_at=renewed_until,
        ):
            session, until = renewed, renewed_until
    return {
        "drain": instance.delegate__draining,
        "session": session,
        "session_expires_in": 0 if until is None else max(0, int((until - now).total_seconds())),
    }


def _list_changed_configurations(
    instances: Iterable[_InstanceColumns], beats: Mapping[int, Heartbeat], now: datetime
) -> dict[int, dict[str, Any]]:
    """Return the configurations that instances do not have yet, by instance."""
    changed = [row.pk for row in instances if _lacks_configuration(row, beats[row.pk].configuration_revision)]
    if not changed:
        return {}
    rows = DelegateInstance.objects.filter(pk__in=changed)
    return configurations.serialize_configurations(
        rows.select_related("delegate__scope", "delegate__configuration__scope"), now
    )


def _lacks_configuration(instance: _InstanceColumns, reported: str | None) -> bool:
    """Return whether the reported revision is not the current one, so that a lost answer is sent again."""
    if instance.delegate__admission != Delegate.Admission.ENABLED:
        return False
    if reported is None:
        return _has_changed_configuration(instance)
    current = configurations.build_revision(
        instance.delegate__configuration, instance.delegate__configuration__updated_at
    )
    return bool(current) and reported != current


def _has_changed_configuration(instance: _InstanceColumns) -> bool:
    """Return whether the configuration changed, or was assigned, since the last heartbeat."""
    last_heartbeat_at, changed_at = instance.last_heartbeat_at, instance.delegate__configuration__updated_at
    if changed_at is None or last_heartbeat_at is None:
        return False
    return max(changed_at, instance.delegate__updated_at) >= last_heartbeat_at


FLUSH_INTERVAL_SECONDS = 1.0
HeartbeatCallback = Callable[[HeartbeatResponse], None]
logger = logging.getLogger(__name__)


class HeartbeatBuffer:
    """Buffer of heartbeats before the write: the newest of each instance, and the waiting requests."""

    def __init__(self) -> None:
        self._beats: dict[int, Heartbeat] = {}
        self._callbacks: dict[int, list[HeartbeatCallback]] = {}
        self._written_at = 0.0
        self._job: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    def add(self, beat: Heartbeat, callback: HeartbeatCallback) -> None:
        """Add a heartbeat; `callback` receives the response after the commit."""
        self._beats[beat.instance_id] = beat
        callbacks = self._callbacks.setdefault(beat.instance_id, [])
        if callback not in callbacks:
            callbacks.append(callback)
        if self._job is None:
            self._job = asyncio.create_task(self._write())
            self._job.add_done_callback(self._record_end)

    async def forget(self, instance_id: int) -> None:
        """Drop the heartbeats of a deleted instance, and wait for the current write."""
        self._beats.pop(instance_id, None)
        self._callbacks.pop(instance_id, None)
        async with self._writing:
            return

    def stop(self) -> None:
        """Cancel the waiting requests."""
        if self._job is not None:
            self._job.cancel()

    async def _write(self) -> None:
        """Write the buffer until it is empty."""
        clock = asyncio.get_running_loop().time
        while self._beats:
            await asyncio.sleep(max(0.0, self._written_at + FLUSH_INTERVAL_SECONDS - clock()))
            beats, self._beats = self._beats, {}
            callbacks, self._callbacks = self._callbacks, {}
            self._written_at = clock()
            try:
                async with self._writing:
                    answers = await run_in_thread(record_heartbeats, beats)
            except OUTAGE_ERRORS as error:
                if not is_outage(error):
                    raise
                logger.warning("%s heartbeats wait for the database: %s", len(beats), error)
                self._beats = {**beats, **self._beats}
                for pk, instance_callbacks in callbacks.items():
                    self._callbacks.setdefault(pk, []).extend(instance_callbacks)
                continue
            for pk, instance_callbacks in callbacks.items():
                for callback in instance_callbacks:
                    callback(answers[pk])

    def _record_end(self, job: "asyncio.Task[None]") -> None:
        self._job = None
        if not job.cancelled() and (error := job.exception()) is not None:
            logger.error("Heartbeats were lost because of an internal error", exc_info=error)
