"""Rows of the places that triggers look at by themselves, and what a look finds there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F, Func, JSONField, QuerySet
from django.db.models.sql.compiler import SQLCompiler

from connectors.models import EventQueue
from connectors.operations.event_queues import lock_queue_readers
from delegates.models import LookupRequest
from pipelines.models import Trigger, TriggerWatch
from pipelines.triggers.base import TriggerEvent
from pipelines.triggers.registry import find_kind
from web.clock import get_database_time
from web.http.problems import Conflict

# In a state: the watch was woken, and no look has begun since.
WOKEN: Final = "woken"


@dataclass(frozen=True)
class Look:
    """Findings of a look, with the events of what is new.

    A look ends unless a delegate still reads for `lookup`, or `continues` says that its next part follows.
    """

    state: Mapping[str, Any]
    events: tuple[TriggerEvent, ...] = ()
    refused: tuple[tuple[TriggerEvent, str], ...] = ()
    """What was no event, each with the reason."""
    problem: str = ""
    lookup: LookupRequest | None = None
    continues: bool = False


def update_watches(trigger: Trigger) -> None:
    """Make the rows of a trigger those of its settings; one with the same settings keeps its findings.

    A disabled trigger has none: what changes meanwhile is not made up for. Raises `Conflict` for a queue of
    another trigger or an event queue, for each message has one reader.
    """
    kind = find_kind(trigger.kind)
    sources = kind.list_watch_sources(trigger.spec) if kind and trigger.is_enabled else []
    queues = [source.subject for source in sources if source.kind == TriggerWatch.Kind.QUEUE]
    if queues:
        lock_queue_readers()
    if queues and _list_queue_watches(*queues).exclude(trigger=trigger).exists():
        raise Conflict("Another trigger reads this queue. Give each trigger a queue of its own.")
    if queues and EventQueue.objects.filter(queue_url__in=queues).exists():
        raise Conflict(
            "This queue is the event queue of a connector, and each message has one reader. Give the trigger "
            "a queue of its own, with a rule that sends to it."
        )
    present = {(row.kind, row.subject): row for row in TriggerWatch.objects.filter(trigger=trigger)}
    now, kept = get_database_time(), set()
    for source in sources:
        row = present.get((source.kind, source.subject))
        if row is None or row.settings != source.settings:
            continue
        kept.add(row.pk)
        if row.interval_seconds != source.interval_seconds:
            TriggerWatch.objects.filter(pk=row.pk).update(
                interval_seconds=source.interval_seconds, due_at=now
            )
    TriggerWatch.objects.filter(trigger=trigger).exclude(pk__in=kept).delete()
    TriggerWatch.objects.bulk_create(
        TriggerWatch(
            trigger=trigger,
            kind=source.kind,
            subject=source.subject,
            settings=dict(source.settings),
            interval_seconds=source.interval_seconds,
            due_at=now,
        )
        for source in sources
        if (row := present.get((source.kind, source.subject))) is None or row.pk not in kept
    )


def find_queue_trigger(queue_url: str) -> str:
    """Return that an enabled trigger reads a queue, or an empty text.

    Its name is left out: whoever asks may not see the trigger.
    """
    return "An image trigger" if _list_queue_watches(queue_url).exists() else ""


def _list_queue_watches(*queue_urls: str) -> QuerySet[TriggerWatch]:
    """Return the watches of queues; those of deleted pipelines are not read."""
    return TriggerWatch.objects.filter(
        kind=TriggerWatch.Kind.QUEUE, subject__in=queue_urls, trigger__pipeline__deleted_at=None
    )


def wake_watch(trigger: Trigger, subject: str) -> bool:
    """Have a watch looked at now; False if there is none that has a first look behind it."""
    if not subject:
        return False
    rows = TriggerWatch.objects.filter(trigger=trigger, subject=subject, looked_at__isnull=False)
    return bool(wake_watches(rows, get_database_time()))


def wake_watches(watches: QuerySet[TriggerWatch], now: datetime) -> int:
    """Have watches looked at now, and once more after a look that has begun; return their number."""
    # One statement: a worker that looks writes the state at any moment.
    return watches.update(due_at=now, state=_WithWokenMark(F("state")))


def restart_watches(now: datetime) -> None:
    """Have all watches begin anew, as after a restored backup."""
    TriggerWatch.objects.update(state={}, lookup=None, looked_at=None, due_at=now)


class _WithWokenMark(Func):
    """A state with the mark of a watch that was woken."""

    output_field = JSONField()
    template = f"(%(expressions)s || jsonb_build_object('{WOKEN}', true))"

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **more: Any) -> Any:
        template = f"json_set(%(expressions)s, '$.{WOKEN}', json('true'))"
        return self.as_sql(compiler, connection, template=template, **more)
