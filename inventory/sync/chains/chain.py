"""A chain of calls about one cluster: each answer is in the rows before the next call is made.

Who is killed loses one answer: the next worker goes on where the rows say. Time is the database's.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Protocol, Self

from django.db import transaction
from django.db.models import F, Q, QuerySet

from aws.errors import AwsError, Throttled
from connectors.aws_accounts import read_spec
from delegates.doors import DelegateDoor, DoorClosed
from delegates.models import DelegateTask
from delegates.next_steps import next_step
from delegates.reads import Read, queue_read
from deployments.engine import quota
from deployments.engine.parking import quota_of
from inventory.models.instances import SyncedCluster
from inventory.sync import columns, pausing
from inventory.sync.pausing import Failure
from inventory.sync.reading import Question
from web.clock import database_now

LEASE: Final = timedelta(seconds=60)
# How long a call waits for a delegate.
PATIENCE: Final = timedelta(seconds=60)
MEND_CONNECTOR: Final = "Mend the connector and test it; the next look follows by itself."


class TakenOver(Exception):
    """Another worker has this cluster now."""


class Place(Protocol):
    """Where a chain goes on: a value that a row keeps."""

    @property
    def is_over(self) -> bool: ...

    def question(self, cluster: str) -> Question: ...

    def to_row(self) -> dict[str, Any]: ...


@dataclass
class Chain(ABC):
    """One cluster in the hands of one worker; the `fence` of its row tells it from who had it before.

    `OWNER` is the name of its delegate tasks, and of its share in AWS's quota.
    """

    OWNER: ClassVar[str]

    row: Any
    reading: Any

    @classmethod
    @abstractmethod
    def rows(cls) -> "QuerySet[Any]":
        """The rows of all such chains, each with its connector."""

    @classmethod
    @abstractmethod
    def of_row(cls, row: Any) -> Self:
        """The chain that a row tells of: where it goes on, or its beginning."""

    @property
    @abstractmethod
    def cluster(self) -> SyncedCluster:
        """What it reads."""

    def use_recent_reads(self) -> None:  # noqa: B027  -- a chain may have none to use
        """Take over what another process has just read instead of a call. Raises `TakenOver`."""

    @abstractmethod
    def take(self, question: Question, answer: Mapping[str, Any]) -> None:
        """Keep an answer and say where it goes on, in one commit. Raises `TakenOver`, `NoSense`."""

    @abstractmethod
    def close(self) -> None:
        """Draw what follows from all that was read, and say when it begins anew. Raises `TakenOver`."""

    def skips(self, error: AwsError) -> bool:
        """Whether it can go on without what this call would have told."""
        return False

    def skip(self, error: AwsError) -> None:
        """Go on without what AWS keeps back. Raises `TakenOver`."""
        raise NotImplementedError

    def note_refusal(self, error: AwsError) -> str:
        """Keep what else a refusal tells, and answer with what somebody can do about it."""
        return next_step(error, read_spec(self.cluster.connector.spec), self.cluster.region).text

    @classmethod
    def claim(cls, pk: int) -> Self | None:
        """Take a cluster that is due, in nobody's hands and not resting with others."""
        now = database_now()
        free = Q(claimed_until__isnull=True) | Q(claimed_until__lte=now)
        due = cls.rows().model.objects.filter(free, pk=pk, due_at__lte=now)
        if not due.update(fence=F("fence") + 1, claimed_until=now + LEASE, task=None):
            return None
        chain = cls.of_row(cls.rows().get(pk=pk))
        begun = chain.row.reading is not None
        if (until := pausing.held_back(chain.cluster, now, cls.OWNER, is_under_way=begun)) is not None:
            chain.pause(until)
            return None
        return chain

    @classmethod
    def waiting_for(cls, task: DelegateTask) -> Self | None:
        """The chain that waits for this task."""
        row = cls.rows().filter(pk=task.owner_ref, task=task).first()
        return cls.of_row(row) if row else None

    @property
    def quota(self) -> str:
        return quota_of(self.cluster)

    def question(self) -> Question:
        found: Question = self.reading.question(self.cluster.cluster)
        return found

    def ask(self, door: DelegateDoor, question: Question) -> None:
        """Let a delegate make the next call; its answer goes on with the chain. Raises `TakenOver`."""
        until = database_now() + PATIENCE
        read = Read(question.service, question.operation, question.params, str(self.cluster))
        with transaction.atomic():
            task = queue_read(door, read, owner=self.OWNER, ref=str(self.row.pk), until=until)
            self.update(task=task, claimed_until=until + LEASE, reading=self.reading.to_row())

    def refuse(self, error: AwsError) -> bool:
        """What becomes of a call that AWS refused; whether the chain goes on. Raises `TakenOver`."""
        if isinstance(error, Throttled):
            quota.rest(self.quota, error, database_now())
        if self.skips(error):
            self.skip(error)
            return True
        shared = pausing.key_for(self.cluster, error, self.OWNER)
        with transaction.atomic():
            self.fail(Failure(error.sentence, error.code, self.note_refusal(error)), shared=shared)
        return False

    def shut(self, closed: DoorClosed) -> None:
        """What becomes of a chain whose connector cannot be used. Raises `TakenOver`."""
        _, way = pausing.keys_of(self.cluster, self.OWNER)
        with transaction.atomic():
            self.fail(Failure(str(closed), "CONNECTOR_NOT_USABLE", MEND_CONNECTOR), shared=way)

    def fail(self, failure: Failure, *, shared: str = "") -> None:
        """Note why it does not go on, and when it is tried again: later each time. Raises `TakenOver`.

        `shared` is the key of those that fail with it (`inventory.sync.pausing`); they rest together.
        """
        now = database_now()
        alone = now + pausing.pause_for(self.row.failures)
        until = pausing.pause(shared, failure, now) if shared else alone
        self.update(
            failures=F("failures") + 1,
            failure=columns.text(failure.text),
            failure_code=columns.text(failure.code, 128),
            failure_step=columns.text(failure.step),
            failed_at=now,
            reading=None,
            due_at=until,
            claimed_until=None,
            task=None,
        )

    def pause(self, until: datetime) -> None:
        """Go on later from here. Raises `TakenOver`."""
        self.update(due_at=until, claimed_until=None, task=None)

    def go_on(self, now: datetime, **known: Any) -> None:
        """Write where it goes on, and keep it in these hands. Raises `TakenOver`."""
        self.update(reading=self.reading.to_row(), claimed_until=now + LEASE, **known)

    def end(self, now: datetime, again: timedelta, **known: Any) -> None:
        """Write that it went well, and when it begins anew. Raises `TakenOver`."""
        self.update(
            reading=None,
            task=None,
            claimed_until=None,
            calls=self.reading.calls,
            failures=0,
            failure="",
            failure_code="",
            failure_step="",
            failed_at=None,
            due_at=now + again,
            **known,
        )

    def update(self, **fields: Any) -> None:
        """Write columns of its row, while it is in these hands. Raises `TakenOver`."""
        mine = type(self.row).objects.filter(pk=self.row.pk, fence=self.row.fence)
        if not mine.update(**fields):
            raise TakenOver
