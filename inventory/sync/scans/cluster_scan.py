"""Base of cluster scans: each response is stored before the next call, under a lease and a fencing token.

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
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import ConnectorUnavailable, DelegateAwsAccess
from delegates.access.remedies import find_remedy
from delegates.models import DelegateTask
from delegates.operations.tasks import AwsRead, queue_read
from deployments.engine.service_waits import get_rate_limit_key
from deployments.journal import rate_limits
from inventory.models.instances import SyncedCluster
from inventory.sync import column_values, pauses
from inventory.sync.cursor import ReadCall
from inventory.sync.pauses import ScanFailure
from web.clock import get_database_time

LEASE_DURATION: Final = timedelta(seconds=60)
# How long a call waits for a delegate.
DELEGATE_TASK_TIMEOUT: Final = timedelta(seconds=60)
CONNECTOR_ADVICE: Final = "Mend the connector and test it; the next look follows by itself."


class ScanLeaseLost(Exception):
    """Another worker has this cluster now."""


class ScanCursor(Protocol):
    """Where a chain goes on: a value that a row keeps."""

    @property
    def is_complete(self) -> bool: ...

    def build_call(self, cluster: str) -> ReadCall: ...

    def to_row(self) -> dict[str, Any]: ...


@dataclass
class ClusterScan(ABC):
    """One cluster in the hands of one worker; the `fence` of its row tells it from who had it before.

    `OWNER` is the name of its delegate tasks, and of its share in AWS's quota.
    """

    OWNER: ClassVar[str]

    row: Any
    cursor: Any

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
        """Take over what another process has just read instead of a call. Raises `ScanLeaseLost`."""

    @abstractmethod
    def apply_response(self, question: ReadCall, answer: Mapping[str, Any]) -> None:
        """Keep an answer and say where it goes on, in one commit.

        Raises `ScanLeaseLost`, `InvalidAwsResponse`.
        """

    @abstractmethod
    def finish(self) -> None:
        """Draw what follows from all that was read, and say when it begins anew. Raises `ScanLeaseLost`."""

    def can_skip(self, error: AwsError) -> bool:
        """Whether it can go on without what this call would have told."""
        return False

    def skip(self, error: AwsError) -> None:
        """Go on without what AWS keeps back. Raises `ScanLeaseLost`."""
        raise NotImplementedError

    def record_denial(self, error: AwsError) -> str:
        """Keep what else a refusal tells, and answer with what somebody can do about it."""
        return find_remedy(error, parse_aws_spec(self.cluster.connector.spec), self.cluster.region).text

    @classmethod
    def claim(cls, pk: int) -> Self | None:
        """Take a cluster that is due, in nobody's hands and not resting with others."""
        now = get_database_time()
        free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now)
        due = cls.rows().model.objects.filter(free, pk=pk, due_at__lte=now)
        if not due.update(fence=F("fence") + 1, lease_expires_at=now + LEASE_DURATION, task=None):
            return None
        chain = cls.of_row(cls.rows().get(pk=pk))
        begun = chain.row.cursor is not None
        if (until := pauses.claim_trial(chain.cluster, now, cls.OWNER, is_under_way=begun)) is not None:
            chain.pause(until)
            return None
        return chain

    @classmethod
    def get_for_task(cls, task: DelegateTask) -> Self | None:
        """The chain that waits for this task."""
        row = cls.rows().filter(pk=task.owner_ref, task=task).first()
        return cls.of_row(row) if row else None

    @property
    def quota(self) -> str:
        return get_rate_limit_key(self.cluster)

    def build_call(self) -> ReadCall:
        found: ReadCall = self.cursor.question(self.cluster.cluster)
        return found

    def queue_call(self, door: DelegateAwsAccess, question: ReadCall) -> None:
        """Let a delegate make the next call; its answer goes on with the chain. Raises `ScanLeaseLost`."""
        until = get_database_time() + DELEGATE_TASK_TIMEOUT
        read = AwsRead(question.service, question.operation, question.params, str(self.cluster))
        with transaction.atomic():
            task = queue_read(door, read, owner=self.OWNER, ref=str(self.row.pk), until=until)
            self.update(task=task, lease_expires_at=until + LEASE_DURATION, cursor=self.cursor.to_row())

    def handle_error(self, error: AwsError) -> bool:
        """What becomes of a call that AWS refused; whether the chain goes on. Raises `ScanLeaseLost`."""
        if isinstance(error, Throttled):
            rate_limits.record_throttling(self.quota, error, get_database_time())
        if self.can_skip(error):
            self.skip(error)
            return True
        shared = pauses.choose_pause_key(self.cluster, error, self.OWNER)
        with transaction.atomic():
            self.fail(
                ScanFailure(error.display_message, error.code, self.record_denial(error)), shared=shared
            )
        return False

    def handle_unavailable_connector(self, closed: ConnectorUnavailable) -> None:
        """What becomes of a chain whose connector cannot be used. Raises `ScanLeaseLost`."""
        _, way = pauses.list_pause_keys(self.cluster, self.OWNER)
        with transaction.atomic():
            self.fail(ScanFailure(str(closed), "CONNECTOR_NOT_USABLE", CONNECTOR_ADVICE), shared=way)

    def fail(self, failure: ScanFailure, *, shared: str = "") -> None:
        """Note why it does not go on, and when it is tried again: later each time. Raises `ScanLeaseLost`.

        `shared` is the key of those that fail with it (`inventory.sync.pauses`); they rest together.
        """
        now = get_database_time()
        alone = now + pauses.compute_backoff(self.row.failures)
        until = pauses.record_pause(shared, failure, now) if shared else alone
        self.update(
            failures=F("failures") + 1,
            failure=column_values.clean_text(failure.text),
            failure_code=column_values.clean_text(failure.code, 128),
            failure_step=column_values.clean_text(failure.next_step),
            failed_at=now,
            cursor=None,
            due_at=until,
            lease_expires_at=None,
            task=None,
        )

    def pause(self, until: datetime) -> None:
        """Go on later from here. Raises `ScanLeaseLost`."""
        self.update(due_at=until, lease_expires_at=None, task=None)

    def save_cursor(self, now: datetime, **known: Any) -> None:
        """Write where it goes on, and keep it in these hands. Raises `ScanLeaseLost`."""
        self.update(cursor=self.cursor.to_row(), lease_expires_at=now + LEASE_DURATION, **known)

    def complete(self, now: datetime, again: timedelta, **known: Any) -> None:
        """Write that it went well, and when it begins anew. Raises `ScanLeaseLost`."""
        self.update(
            cursor=None,
            task=None,
            lease_expires_at=None,
            calls=self.cursor.calls,
            failures=0,
            failure="",
            failure_code="",
            failure_step="",
            failed_at=None,
            due_at=now + again,
            **known,
        )

    def update(self, **fields: Any) -> None:
        """Write columns of its row, while it is in these hands. Raises `ScanLeaseLost`."""
        mine = type(self.row).objects.filter(pk=self.row.pk, fence=self.row.fence)
        if not mine.update(**fields):
            raise ScanLeaseLost
