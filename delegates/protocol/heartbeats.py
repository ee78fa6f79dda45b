"""Heartbeats: gathered by each web process and written together, once a second, in one statement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from delegates.connectivity import LATE_AFTER
from delegates.models import (
    DelegateConfiguration,
    DelegateEvent,
    DelegateInstance,
    DelegateTask,
)
from delegates.notifying import tell_back
from delegates.protocol import configurations
from delegates.protocol.beats import Beat, store
from delegates.protocol.fields import Fields
from delegates.protocol.happenings import called, note
from delegates.protocol.looking import end_of
from delegates.protocol.sessions import hash_of, new_session
from delegates.protocol.terms import AFTER_DEADLINE, LEASE, ROTATE_BEFORE, SESSION
from delegates.telling import tell
from guards.limits import AGENT_TASKS
from web.clock import database_now

GONE = DelegateInstance.Status.GONE


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


class _Known(NamedTuple):
    """What is known of an instance that beats: columns, for whole rows take ten times as long to make."""

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
        return end_of(self.session_hash, self.token__status, self.delegate__admission, *archived)


@transaction.atomic
def write(beats: Mapping[int, Beat]) -> dict[int, Answer]:
    """Write the heartbeats of many instances, renew their leases, and say what each is answered."""
    now = database_now()
    rows = DelegateInstance.objects.filter(pk__in=list(beats)).values_list(*_Known._fields)
    found = [_Known._make(row) for row in rows]
    answers: dict[int, Answer] = {pk: Ended("session_invalid") for pk in beats}
    answers |= {one.pk: Ended(one.end) for one in found if one.end}
    alive = [one for one in found if not one.end]
    _tell_changes(alive, beats, now)
    store([beats[one.pk] for one in alive], now)
    tasks = _tasks({one.pk: beats[one.pk] for one in alive}, now)
    for one in alive:
        answers[one.pk] = {**tasks[one.pk], **_terms_of(one, now)}
    return answers


def _tell_changes(instances: Sequence[_Known], beats: Mapping[int, Beat], now: datetime) -> None:
    """Write down who came back and who drains; watchers hear of these and of busier instances."""
    draining = DelegateInstance.Status.DRAINING
    back = {one.pk for one in instances if _was_away(one, now)}
    drained = {one.pk for one in instances if beats[one.pk].draining and one.status != draining}
    if back:
        tell_back(one.delegate for one in instances if one.pk in back)
    for pk, instance in _rows(back | drained).items():
        if pk in back:
            text = f"{called(instance)} is heard again."
            note(instance, DelegateEvent.Kind.CONNECTED, text, at=now)
        if pk in drained:
            text = f"{called(instance)} drains: it finishes what it has and takes nothing new."
            note(instance, DelegateEvent.Kind.DRAINING, text, at=now)
    changed = back | drained | {one.pk for one in instances if len(beats[one.pk].running) != one.running}
    if changed:
        tell(*{one.delegate for one in instances if one.pk in changed})


def _rows(ids: set[int]) -> dict[int, DelegateInstance]:
    return DelegateInstance.objects.select_related("delegate").in_bulk(list(ids)) if ids else {}


def _was_away(instance: _Known, now: datetime) -> bool:
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


def _terms_of(instance: _Known, now: datetime) -> dict[str, Any]:
    session, until = None, instance.session_expires_at
    if until is not None and until - now < ROTATE_BEFORE:
        session, until = new_session(instance.pk), now + SESSION
        DelegateInstance.objects.filter(pk=instance.pk, session_hash=instance.session_hash).update(
            session_hash=hash_of(session),
            previous_session_hash=instance.session_hash,
            session_expires_at=until,
        )
    return {
        "drain": instance.delegate__draining,
        "session": session,
        "session_expires_in": 0 if until is None else max(0, int((until - now).total_seconds())),
        "configuration": _changed_configuration(instance),
    }


def _changed_configuration(instance: _Known) -> dict[str, Any] | None:
    """The configuration, where it or the choice of it changed since this instance was heard last."""
    heard, written = instance.last_heartbeat_at, instance.delegate__configuration__updated_at
    if written is None or heard is None or max(written, instance.delegate__updated_at) < heard:
        return None
    found = DelegateConfiguration.objects.filter(delegates=instance.delegate).first()
    return configurations.document(found)
