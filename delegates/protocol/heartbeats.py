"""Heartbeats: gathered by each web process and written together, once a second, in one statement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from delegates.clock import database_now
from delegates.connectivity import LATE_AFTER
from delegates.models import (
    DelegateEvent,
    DelegateInstance,
    DelegateTask,
    InstanceSample,
)
from delegates.protocol import configurations
from delegates.protocol.fields import Fields
from delegates.protocol.happenings import called, note
from delegates.protocol.looking import end_of
from delegates.protocol.sessions import hash_of, new_session
from delegates.protocol.terms import AFTER_DEADLINE, LEASE, ROTATE_BEFORE, SESSION
from delegates.telling import tell
from guards.limits import AGENT_TASKS

GONE = DelegateInstance.Status.GONE
_SQLITE = """
UPDATE delegates_delegateinstance SET suspect_since = NULL, last_heartbeat_at = %s, cpu_process = %s,
  cpu_system = %s, memory_mib = %s, running = %s, max_executing = %s, status = %s WHERE id = %s
"""
_POSTGRES = """
UPDATE delegates_delegateinstance AS i SET suspect_since = NULL, last_heartbeat_at = %s,
  cpu_process = b.cpu_process, cpu_system = b.cpu_system, memory_mib = b.memory_mib,
  running = b.running, max_executing = b.max_executing, status = b.status
FROM (SELECT * FROM unnest(%s::float8[], %s::float8[], %s::float8[], %s::int[], %s::int[], %s::text[],
  %s::bigint[]) AS t (cpu_process, cpu_system, memory_mib, running, max_executing, status, id)) AS b
WHERE i.id = b.id
"""


@dataclass(frozen=True)
class Beat:
    """What an instance said of itself."""

    instance_id: int
    running: Mapping[UUID, int] = field(default_factory=dict)
    cpu_process: float = 0.0
    cpu_system: float = 0.0
    memory_mib: float = 0.0
    max_executing: int = 0
    draining: bool = False


@dataclass(frozen=True)
class Ended:
    """The session is over: why, as the code of a refusal."""

    code: str


Answer = Mapping[str, Any] | Ended


def read_beat(instance_id: int, fields: Fields) -> Beat:
    """The body of a heartbeat. Raises `BadInput` naming the field."""
    return Beat(
        instance_id=instance_id,
        running=fields.held("running", AGENT_TASKS),
        cpu_process=fields.measured("cpu_process"),
        cpu_system=fields.measured("cpu_system"),
        memory_mib=fields.measured("memory_mib"),
        max_executing=fields.whole("max_executing", 0, 10_000, default=0),
        draining=fields.body.get("draining") is True,
    )


@transaction.atomic
def write(beats: Mapping[int, Beat]) -> dict[int, Answer]:
    """Write the heartbeats of many instances, renew their leases, and say what each is answered."""
    now = database_now()
    related = ("delegate__configuration", "token")
    found = DelegateInstance.objects.select_related(*related).in_bulk(list(beats))
    answers: dict[int, Answer] = {pk: Ended("session_invalid") for pk in beats}
    alive = {}
    for pk, instance in found.items():
        if code := end_of(instance):
            answers[pk] = Ended(code)
        else:
            alive[pk] = instance
    _tell_changes(alive.values(), beats, now)
    _store([beats[pk] for pk in alive], now)
    InstanceSample.objects.bulk_create(_sample(beats[pk], now) for pk in alive)
    tasks = _tasks({pk: beats[pk] for pk in alive}, now)
    for pk, instance in alive.items():
        answers[pk] = {**tasks[pk], **_terms_of(instance, now)}
    return answers


def _store(beats: Iterable[Beat], now: datetime) -> None:
    rows = [
        (
            one.cpu_process,
            one.cpu_system,
            one.memory_mib,
            len(one.running),
            one.max_executing,
            (DelegateInstance.Status.DRAINING if one.draining else DelegateInstance.Status.REGISTERED).value,
            one.instance_id,
        )
        for one in beats
    ]
    if not rows:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_POSTGRES, [now, *(list(column) for column in zip(*rows, strict=True))])
        else:
            moment = connection.ops.adapt_datetimefield_value(now)
            cursor.executemany(_SQLITE, [(moment, *row) for row in rows])


def _sample(beat: Beat, now: datetime) -> InstanceSample:
    return InstanceSample(
        instance_id=beat.instance_id,
        at=now,
        cpu_process=beat.cpu_process,
        cpu_system=beat.cpu_system,
        memory_mib=beat.memory_mib,
        running=len(beat.running),
    )


def _tell_changes(instances: Iterable[DelegateInstance], beats: Mapping[int, Beat], now: datetime) -> None:
    """Write down who came back and who drains; watchers hear of these and of busier instances."""
    changed = set()
    for instance in instances:
        beat = beats[instance.pk]
        if is_back := _was_away(instance, now):
            text = f"{called(instance)} is heard again."
            note(instance, DelegateEvent.Kind.CONNECTED, text, at=now)
        was_draining = instance.status == DelegateInstance.Status.DRAINING
        if beat.draining and not was_draining:
            text = f"{called(instance)} drains: it finishes what it has and takes nothing new."
            note(instance, DelegateEvent.Kind.DRAINING, text, at=now)
        if is_back or beat.draining != was_draining or len(beat.running) != instance.running:
            changed.add(instance.delegate_id)
    if changed:
        tell(*changed)


def _was_away(instance: DelegateInstance, now: datetime) -> bool:
    heard = instance.last_heartbeat_at
    return (
        heard is None
        or instance.suspect_since is not None
        or instance.status == GONE
        or now - heard >= LATE_AFTER
    )


def _tasks(beats: Mapping[int, Beat], now: datetime) -> dict[int, dict[str, list[str]]]:
    """Which of the tasks that instances say they run were taken from them, and which are to stop."""
    said = {pk: one.running for pk, one in beats.items() if one.running}
    answers: dict[int, dict[str, list[str]]] = {pk: {"aborted": [], "lost": []} for pk in beats}
    wanted = {task for running in said.values() for task in running}
    if not wanted:
        return answers
    held = DelegateTask.objects.filter(
        pk__in=wanted,
        status=DelegateTask.Status.STARTED,
        lease_until__gt=now,
        deadline__gt=now - AFTER_DEADLINE,
    )
    found = {row[0]: row[1:] for row in held.values_list("pk", "instance", "fence", "abort_requested")}
    kept = []
    for pk, running in said.items():
        for task, fence in running.items():
            instance_id, current, aborts = found.get(task, (None, None, False))
            if (instance_id, current) != (pk, fence):
                answers[pk]["lost"].append(str(task))
                continue
            kept.append(task)
            if aborts:
                answers[pk]["aborted"].append(str(task))
    # Still under the condition: between the question and this somebody may have taken one.
    held.filter(pk__in=kept).update(lease_until=now + LEASE)
    return answers


def _terms_of(instance: DelegateInstance, now: datetime) -> dict[str, Any]:
    session, until = None, instance.session_expires_at
    if until is not None and until - now < ROTATE_BEFORE:
        session, until = new_session(instance.pk), now + SESSION
        DelegateInstance.objects.filter(pk=instance.pk, session_hash=instance.session_hash).update(
            session_hash=hash_of(session),
            previous_session_hash=instance.session_hash,
            session_expires_at=until,
        )
    return {
        "drain": instance.delegate.draining,
        "session": session,
        "session_expires_in": 0 if until is None else max(0, int((until - now).total_seconds())),
        "configuration": _changed_configuration(instance),
    }


def _changed_configuration(instance: DelegateInstance) -> dict[str, Any] | None:
    """The configuration, where it or the choice of it changed since this instance was heard last."""
    delegate, heard = instance.delegate, instance.last_heartbeat_at
    configuration = delegate.configuration
    if configuration is None or heard is None:
        return None
    changed = max(configuration.updated_at, delegate.updated_at)
    return configurations.document(configuration) if changed >= heard else None
