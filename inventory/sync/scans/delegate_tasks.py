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
from inventory.sync.pauses import ScanFailure
from inventory.sync.scans.cluster_scan import ClusterScan
from inventory.sync.scans.pagination import InvalidAwsResponse
from web.clock import get_database_time


@dataclass(frozen=True)
class ScanTaskOwner(ReadOwner):
    """The owner of the delegate tasks that chains of one kind are made of.

    `wake` goes on with the row of a chain once the answer is committed.
    """

    kind: type[ClusterScan]
    wake: Callable[[int], object]

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """The call with the connector's credentials; None if no chain waits for it or it cannot be made."""
        chain = self.kind.get_for_task(task)
        if chain is None:
            return None
        said, cluster = json.loads(task.payload), chain.cluster
        try:
            require_lendable_credentials(task, cluster.connector)
            service = said.get("service", "ecs")
            return build_aws_payload(
                cluster.connector, cluster.region, service, said["operation"], said["params"]
            )
        except ConnectorUnavailable as closed:
            chain.handle_unavailable_connector(closed)
        except NotSent as error:
            self._refuse(chain, error)
        return None

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Keep the answer, and go on."""
        chain = self.kind.get_for_task(task)
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        if chain is None:
            return
        if answer.status != "SUCCEEDED":
            self._refuse(chain, build_task_error(answer))
            return
        try:
            chain.apply_response(chain.build_call(), answer.result or {})
        except InvalidAwsResponse as error:
            chain.fail(ScanFailure(str(error)))
            return
        self._go_on(chain)

    def lost(self, task: DelegateTask) -> None:
        """Too late to ask anybody else."""
        if (chain := self.kind.get_for_task(task)) is not None:
            self._refuse(chain, Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def gave_up(self, task: DelegateTask) -> None:
        """No delegate took the task."""
        if (chain := self.kind.get_for_task(task)) is not None:
            self._refuse(chain, Undelivered("NO_DELEGATE", task.reason or "No delegate took this."))

    def _refuse(self, chain: ClusterScan, error: AwsError) -> None:
        if chain.handle_error(error):
            self._go_on(chain)

    def _go_on(self, chain: ClusterScan) -> None:
        """The next call is asked for by a worker; what follows from the last answer is drawn there too."""
        chain.pause(get_database_time())
        transaction.on_commit(lambda: self.wake(chain.row.pk))
