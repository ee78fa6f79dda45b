"""Delegate tasks of cluster scans: one call at a time."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction

from aws.errors import AwsError, NotSent, Unanswered, Undelivered
from delegates.access.aws_access import ConnectorUnavailable, build_aws_payload, require_lendable_credentials
from delegates.access.lookup_tasks import build_task_error
from delegates.models import DelegateTask
from delegates.operations.tasks import ReadOwner
from delegates.task_owners import TaskAnswer, TaskPayload
from inventory.sync.cursor import InvalidAwsResponse
from inventory.sync.pauses import ScanFailure
from inventory.sync.scans.cluster_scan import ClusterScan
from web.clock import get_database_time


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

    def lost(self, task: DelegateTask) -> None:
        """Fail the call of a lost delegate; it is too late for another one."""
        if (scan := self.kind.get_for_task(task)) is not None:
            self._handle_error(scan, Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def gave_up(self, task: DelegateTask) -> None:
        """Fail the call that no delegate took."""
        if (scan := self.kind.get_for_task(task)) is not None:
            self._handle_error(scan, Undelivered("NO_DELEGATE", task.reason or "No delegate took this."))

    def _handle_error(self, scan: ClusterScan, error: AwsError) -> None:
        if scan.handle_error(error):
            self._continue(scan)

    def _continue(self, scan: ClusterScan) -> None:
        """Release the lease, and let a worker make the next call."""
        scan.pause(get_database_time())
        transaction.on_commit(lambda: self.wake(scan.row.pk))
