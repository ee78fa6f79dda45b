"""Runner of cluster scans: it makes calls from this process, or queues them for a delegate."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.db import transaction

from aws.caller import Caller
from aws.errors import AwsError, NotSent, Unanswered, Undelivered
from connectors.models import Connector
from delegates.access.aws_access import (
    ConnectorUnavailable,
    DelegateAwsAccess,
    build_aws_payload,
    open_aws_access,
    require_lendable_credentials,
)
from delegates.access.lookup_tasks import build_task_error
from delegates.models import DelegateTask
from delegates.operations.tasks import ReadOwner
from delegates.task_owners import TaskAnswer, TaskPayload
from deployments.journal import rate_limits
from deployments.journal.engine_signals import RateLimited
from deployments.journal.recent_reads import publish_targets
from inventory.sync.cursor import InvalidAwsResponse, ReadCall
from inventory.sync.pauses import ScanFailure
from inventory.sync.scans.cluster_scan import ClusterScan, ScanLeaseLost
from web.clock import get_database_time

logger = logging.getLogger(__name__)

# Workers process other messages between two slices.
TIME_SLICE_SECONDS: Final = 20.0
OpenConnector = Callable[[Connector, str], Caller | DelegateAwsAccess]


def run_scan(kind: type[ClusterScan], pk: int, open_connector: OpenConnector = open_aws_access) -> None:
    """Continue a scan for one time slice; with a delegate, only the next call is queued."""
    scan = kind.claim(pk)
    if scan is None:
        return
    try:
        if _run_until_read(scan, open_connector):
            scan.finish()
    except ScanLeaseLost:
        logger.info("Another worker has taken over the %s of %s", kind.OWNER, scan.cluster)


def _run_until_read(scan: ClusterScan, open_connector: OpenConnector) -> bool:
    """Return whether the scan has read everything; a failure is recorded."""
    try:
        return _run_time_slice(scan, open_connector)
    except RateLimited as limit:
        scan.pause(limit.until)
    except ConnectorUnavailable as unavailable:
        scan.handle_unavailable_connector(unavailable)
    except InvalidAwsResponse as error:
        scan.fail(ScanFailure(str(error)))
    return False


def _run_time_slice(scan: ClusterScan, open_connector: OpenConnector) -> bool:
    if scan.cursor.is_complete:
        return True
    deadline = time.monotonic() + TIME_SLICE_SECONDS
    aws_access = open_connector(scan.cluster.connector, scan.cluster.region)
    while not scan.cursor.is_complete:
        scan.use_recent_reads()
        if scan.cursor.is_complete:
            break
        call = scan.build_call()
        holder, now = f"{scan.OWNER}:{scan.row.pk}", get_database_time()
        rate_limits.take_token(scan.rate_limit_key, call.service, call.operation, holder=holder, now=now)
        if isinstance(aws_access, DelegateAwsAccess):
            scan.queue_call(aws_access, call)
            return False
        if not _make_call(scan, aws_access, call):
            return False
        if time.monotonic() > deadline and not scan.cursor.is_complete:
            scan.pause(get_database_time())
            return False
    return True


def _make_call(scan: ClusterScan, caller: Caller, call: ReadCall) -> bool:
    """Make one call, and return whether the scan continues."""
    started_at = get_database_time()
    try:
        response = caller.call(call.service, call.operation, call.params)
    except AwsError as error:
        return scan.handle_error(error)
    rate_limits.record_success(scan.rate_limit_key, call.service, call.operation, get_database_time())
    if call.operation == "DescribeScalableTargets":
        cluster = scan.cluster
        publish_targets(cluster.connector, cluster.region, call.params, response, started_at=started_at)
    scan.apply_response(call, response)
    return True


@dataclass(frozen=True)
class ScanTaskOwner(ReadOwner):
    """The owner of the delegate tasks of one kind of scan.

    `wake` continues a scan after its response is committed.
    """

    kind: type[ClusterScan]
    wake: Callable[[int], object]

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """Return the call with the connector's credentials, or None without a waiting scan."""
        scan = self.kind.get_for_task(task)
        if scan is None:
            return None
        payload, cluster = json.loads(task.payload), scan.cluster
        try:
            require_lendable_credentials(task, cluster.connector)
            service = payload.get("service", "ecs")
            return build_aws_payload(
                cluster.connector, cluster.region, service, payload["operation"], payload["params"]
            )
        except ConnectorUnavailable as unavailable:
            scan.handle_unavailable_connector(unavailable)
        except NotSent as error:
            self._handle_error(scan, error)
        return None

    def complete(self, task: DelegateTask, task_answer: TaskAnswer) -> None:
        """Store the response, and continue the scan."""
        scan = self.kind.get_for_task(task)
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        if scan is None:
            return
        if task_answer.status != "SUCCEEDED":
            self._handle_error(scan, build_task_error(task_answer))
            return
        try:
            scan.apply_response(scan.build_call(), task_answer.result or {})
        except InvalidAwsResponse as error:
            scan.fail(ScanFailure(str(error)))
            return
        self._continue(scan)

    def record_lost(self, task: DelegateTask) -> None:
        """Fail the call of a lost delegate; it is too late for another one."""
        if (scan := self.kind.get_for_task(task)) is not None:
            self._handle_error(scan, Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def record_unanswered(self, task: DelegateTask) -> None:
        """Fail the call that no delegate took."""
        if (scan := self.kind.get_for_task(task)) is not None:
            self._handle_error(
                scan, Undelivered("NO_DELEGATE", task.reason or "No delegate accepted this task.")
            )

    def _handle_error(self, scan: ClusterScan, error: AwsError) -> None:
        if scan.handle_error(error):
            self._continue(scan)

    def _continue(self, scan: ClusterScan) -> None:
        """Release the lease, and let a worker make the next call."""
        scan.pause(get_database_time())
        transaction.on_commit(lambda: self.wake(scan.row.pk))
