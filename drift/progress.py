"""How far the look for drift in one cluster is: each answer is in the rows before the next is asked for.

Who is killed loses one answer. Time is the database's.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import F, Q

from aws.errors import AwsError, Throttled
from aws.types import moment
from delegates.clock import database_now
from delegates.models import DelegateTask
from deployments.engine import quota
from deployments.engine.parking import quota_of
from drift.adopting import read_what_is_asked
from drift.keeping import keep_comparisons
from drift.models import ComparedCluster, KnownRevision
from drift.reading import REVISIONS, Question, Reading
from drift.wanted import wanted_reading

INTERVAL: Final = timedelta(minutes=2)
# Sync has seen something new while a look was under way.
SOON: Final = timedelta(seconds=5)
LEASE: Final = timedelta(seconds=60)
LONGEST_PAUSE: Final = timedelta(hours=1)


class TakenOver(Exception):
    """Another worker has this cluster now."""


@dataclass
class Look:
    """One cluster in the hands of one worker; `fence` tells it from who had it before."""

    compared: ComparedCluster
    reading: Reading

    @property
    def cluster(self) -> str:
        return self.compared.cluster.cluster

    @property
    def quota(self) -> str:
        return quota_of(self.compared.cluster)

    def question(self) -> Question:
        return self.reading.question(self.cluster)

    def take(self, answer: Mapping[str, Any]) -> None:
        """Keep an answer and say where it goes on, in one commit. Raises `TakenOver`."""
        now = database_now()
        with transaction.atomic():
            if self.reading.phase == REVISIONS:
                _keep_revision(answer.get("taskDefinition") or {}, now)
            self.reading = self.reading.answered(self.cluster, answer)
            self._update(reading=self.reading.to_row(), claimed_until=now + LEASE)

    def close(self) -> None:
        """Compare, now that all is read, and say when it is done again. Raises `TakenOver`."""
        now = database_now()
        with transaction.atomic():
            self._update(
                reading=None,
                task=None,
                compared_at=now,
                calls=self.reading.calls,
                failures=0,
                failure="",
                failed_at=None,
                scaling_unread=self.reading.scaling_unread,
                claimed_until=None,
                due_at=now + INTERVAL,
            )
            is_whole = keep_comparisons(self.compared.cluster, self.reading, now)
            is_read = read_what_is_asked(self.compared.cluster, self.reading, now)
            if not (is_whole and is_read):
                self._update(due_at=now + SOON, compared_at=None)

    def refuse(self, error: AwsError) -> None:
        """What becomes of a look whose call AWS refused. Raises `TakenOver`."""
        now = database_now()
        if isinstance(error, Throttled):
            quota.rest(self.quota, error, now)
        left = self.reading.without(error)
        if left is not None:
            self._skip(left)
        else:
            self.fail(error.sentence)

    def _skip(self, reading: Reading) -> None:
        self.reading = reading
        self._update(reading=reading.to_row(), claimed_until=database_now() + LEASE)

    def fail(self, error: str) -> None:
        """Note why it does not go on, and when it is tried again: later each time. Raises `TakenOver`."""
        now = database_now()
        pause = min(INTERVAL * 2 ** min(self.compared.failures, 10), LONGEST_PAUSE)
        self._update(
            failures=F("failures") + 1,
            failure=error,
            failed_at=now,
            reading=None,
            due_at=now + pause,
            claimed_until=None,
            task=None,
        )

    def pause(self, until: datetime) -> None:
        """Go on later from here. Raises `TakenOver`."""
        self._update(due_at=until, claimed_until=None, task=None, reading=self.reading.to_row())

    def wait_for(self, task: DelegateTask, until: datetime) -> None:
        """Let a delegate make the next call. Raises `TakenOver`."""
        self._update(task=task, claimed_until=until + LEASE, reading=self.reading.to_row())

    def _update(self, **fields: Any) -> None:
        mine = ComparedCluster.objects.filter(pk=self.compared.pk, fence=self.compared.fence)
        if not mine.update(**fields):
            raise TakenOver


def claim(pk: int) -> Look | None:
    """Take a cluster that is due and in nobody's hands."""
    now = database_now()
    free = Q(claimed_until__isnull=True) | Q(claimed_until__lte=now)
    due = ComparedCluster.objects.filter(free, pk=pk, due_at__lte=now)
    if not due.update(fence=F("fence") + 1, claimed_until=now + LEASE, task=None):
        return None
    return held(_rows().get(pk=pk))


def held(compared: ComparedCluster) -> Look:
    """A cluster whose look is under way, in the hands of whoever has it."""
    row = compared.reading
    if row:
        return Look(compared, Reading.from_row(row))
    return Look(compared, wanted_reading(compared.cluster, database_now()))


def waiting_for(task: DelegateTask) -> Look | None:
    """The look that waits for this task."""
    compared = _rows().filter(pk=task.owner_ref, task=task).first()
    return held(compared) if compared else None


def _rows() -> Any:
    return ComparedCluster.objects.select_related("cluster__connector__scope", "cluster__connector__secret")


def _keep_revision(found: Mapping[str, Any], now: datetime) -> None:
    arn = str(found.get("taskDefinitionArn", ""))[:512]
    if not arn:
        return
    # Its contents never change; whether it may still be used does.
    KnownRevision.objects.update_or_create(
        arn=arn,
        defaults={
            "content": json.dumps(dict(found), default=str),
            "registered_at": _moment(found.get("registeredAt")),
            "registered_by": str(found.get("registeredBy", ""))[:512],
            "used_at": now,
        },
    )


def _moment(value: object) -> datetime | None:
    try:
        found = moment(value)
    except ValueError:
        return None
    return found if found is None or found.tzinfo else None
