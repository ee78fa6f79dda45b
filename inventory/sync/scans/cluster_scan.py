"""Base of cluster scans: each response is stored before the next call, under a lease and a fencing token.

A killed worker loses at most one response; the next one continues from the rows. Time is the database's.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Self

from django.db import transaction
from django.db.models import F, QuerySet

from aws.errors import AwsError, Throttled
from connectors.models import Connector
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import ConnectorUnavailable, DelegateAwsAccess
from delegates.access.remedies import find_remedy
from delegates.models import DelegateTask
from delegates.operations.tasks import AwsRead, queue_read
from deployments.engine.service_waits import get_rate_limit_key
from deployments.journal import rate_limits
from inventory.models.instances import SyncedCluster
from inventory.sync import column_values, pauses
from inventory.sync.clusters import build_unleased_filter
from inventory.sync.cursor import ReadCall
from inventory.sync.pauses import ScanFailure
from web.clock import get_database_time

LEASE_DURATION: Final = timedelta(seconds=60)
# The timeout of a call through a delegate.
DELEGATE_TASK_TIMEOUT: Final = timedelta(seconds=60)
CONNECTOR_ADVICE: Final = "Fix the connector and test it. The next scan starts automatically."


class ScanLeaseLost(Exception):
    """Error raised when another worker has the lease of this cluster."""


@dataclass
class ClusterScan(ABC):
    """A scan of one cluster under a lease; `fence` is the fencing token of its row.

    `OWNER` names its delegate tasks and its share of the AWS rate limit.
    """

    OWNER: ClassVar[str]

    row: Any
    cursor: Any

    @classmethod
    @abstractmethod
    def rows(cls) -> "QuerySet[Any]":
        """Return the rows of all scans of this kind, each with its connector."""

    @classmethod
    @abstractmethod
    def of_row(cls, row: Any) -> Self:
        """Return the scan of a row, at its cursor or at the start."""

    @classmethod
    @abstractmethod
    def schedule(cls, now: datetime) -> None:
        """Create the missing rows, and make clusters due after deployments."""

    @classmethod
    @abstractmethod
    def list_due_clusters(cls, now: datetime, limit: int) -> list[int]:
        """Return the keys of due rows without a lease, the longest waiting first."""

    @property
    @abstractmethod
    def cluster(self) -> SyncedCluster:
        """Return the cluster to read."""

    def use_recent_reads(self) -> None:  # noqa: B027  -- optional for a scan
        """Reuse a response that another process has just read. Raises `ScanLeaseLost`."""

    @abstractmethod
    def apply_response(self, call: ReadCall, response: Mapping[str, Any]) -> None:
        """Store a response and the new cursor in one transaction.

        Raises `ScanLeaseLost`, `InvalidAwsResponse`.
        """

    @abstractmethod
    def finish(self) -> None:
        """Process the responses, and schedule the next scan. Raises `ScanLeaseLost`."""

    def can_skip(self, error: AwsError) -> bool:
        """Return whether the scan can continue without this call."""
        return False

    def skip(self, error: AwsError) -> None:
        """Continue without the denied read. Raises `ScanLeaseLost`."""
        raise NotImplementedError

    def record_denial(self, error: AwsError) -> str:
        """Record a denial, and return the advice for it."""
        return find_remedy(error, parse_aws_spec(self.cluster.connector.spec), self.cluster.region).text

    @classmethod
    def claim(cls, pk: int) -> Self | None:
        """Take the lease of a cluster that is due and not paused."""
        now = get_database_time()
        due = cls.rows().model.objects.filter(build_unleased_filter(now), pk=pk, due_at__lte=now)
        if not due.update(fence=F("fence") + 1, lease_expires_at=now + LEASE_DURATION, task=None):
            return None
        scan = cls.of_row(cls.rows().get(pk=pk))
        is_under_way = scan.row.cursor is not None
        if (until := pauses.claim_trial(scan.cluster, now, cls.OWNER, is_under_way=is_under_way)) is not None:
            scan.pause(until)
            return None
        return scan

    @classmethod
    def get_for_task(cls, task: DelegateTask) -> Self | None:
        """Return the scan that waits for this delegate task."""
        row = cls.rows().filter(pk=task.owner_ref, task=task).first()
        return cls.of_row(row) if row else None

    @property
    def rate_limit_key(self) -> str:
        return get_rate_limit_key(self.cluster)

    def build_call(self) -> ReadCall:
        call: ReadCall = self.cursor.build_call(self.cluster.cluster)
        return call

    def queue_call(self, aws_access: DelegateAwsAccess, call: ReadCall) -> None:
        """Queue the next call as a delegate task. Raises `ScanLeaseLost`."""
        deadline = get_database_time() + DELEGATE_TASK_TIMEOUT
        read = AwsRead(call.service, call.operation, call.params, str(self.cluster))
        with transaction.atomic():
            task = queue_read(
                aws_access,
                read,
                owner=self.OWNER,
                ref=str(self.row.pk),
                until=deadline,
                account=self._get_known_account(aws_access.connector),
            )
            self.update(task=task, lease_expires_at=deadline + LEASE_DURATION, cursor=self.cursor.to_row())

    def _get_known_account(self, connector: Connector) -> str:
        """Return the account of the last sync; empty if the connector was saved since."""
        synced_at = self.cluster.synced_at
        return self.cluster.account if synced_at and synced_at > connector.updated_at else ""

    def handle_error(self, error: AwsError) -> bool:
        """Handle an error of AWS, and return whether the scan continues. Raises `ScanLeaseLost`."""
        if isinstance(error, Throttled):
            rate_limits.record_throttling(self.rate_limit_key, error, get_database_time())
        if self.can_skip(error):
            self.skip(error)
            return True
        shared = pauses.choose_pause_key(self.cluster, error, self.OWNER)
        with transaction.atomic():
            self.fail(
                ScanFailure(error.display_message, error.code, self.record_denial(error)), pause_key=shared
            )
        return False

    def handle_unavailable_connector(self, error: ConnectorUnavailable) -> None:
        """Fail the scan of a connector that cannot be used. Raises `ScanLeaseLost`."""
        _, pause_key = pauses.list_pause_keys(self.cluster, self.OWNER)
        with transaction.atomic():
            self.fail(ScanFailure(str(error), "CONNECTOR_NOT_USABLE", CONNECTOR_ADVICE), pause_key=pause_key)

    def fail(self, failure: ScanFailure, *, pause_key: str = "") -> None:
        """Record a failure, and retry with growing backoff. Raises `ScanLeaseLost`.

        `shared` is the key of a pause for all clusters with the same failure (`inventory.sync.pauses`).
        """
        now = get_database_time()
        own_retry_at = now + pauses.compute_backoff(self.row.failures)
        retry_at = pauses.record_pause(pause_key, failure, now) if pause_key else own_retry_at
        self.update(
            failures=F("failures") + 1,
            failure=column_values.clean_text(failure.text),
            failure_code=column_values.clean_text(failure.code, 128),
            failure_step=column_values.clean_text(failure.next_step),
            failed_at=now,
            cursor=None,
            due_at=retry_at,
            lease_expires_at=None,
            task=None,
        )

    def pause(self, until: datetime) -> None:
        """Release the lease, and continue after `until`. Raises `ScanLeaseLost`."""
        self.update(due_at=until, lease_expires_at=None, task=None)

    def save_cursor(self, now: datetime, **columns: Any) -> None:
        """Store the cursor and extend the lease. Raises `ScanLeaseLost`."""
        self.update(cursor=self.cursor.to_row(), lease_expires_at=now + LEASE_DURATION, **columns)

    def complete(self, now: datetime, interval: timedelta, **columns: Any) -> None:
        """Record the success, and schedule the next scan. Raises `ScanLeaseLost`."""
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
            due_at=now + interval,
            **columns,
        )

    def update(self, **fields: Any) -> None:
        """Update columns of the row under the fencing token. Raises `ScanLeaseLost`."""
        leased = type(self.row).objects.filter(pk=self.row.pk, fence=self.row.fence)
        if not leased.update(**fields):
            raise ScanLeaseLost
