"""The calls of a chain whose connector goes through delegates: one delegate task at a time."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction

from aws.errors import AwsError, NotSent, Unanswered, Undelivered
from delegates.doors import DoorClosed, call_payload
from delegates.inquiry_tasks import error_of
from delegates.lending import refuse_to_lend
from delegates.models import DelegateTask
from delegates.owners import Answer, Payload
from delegates.reads import ReadOwner
from inventory.sync.chains.chain import Chain
from inventory.sync.chains.paging import NoSense
from inventory.sync.pausing import Failure
from web.clock import database_now


@dataclass(frozen=True)
class ChainOwner(ReadOwner):
    """The owner of the delegate tasks that chains of one kind are made of.

    `wake` goes on with the row of a chain once the answer is committed.
    """

    kind: type[Chain]
    wake: Callable[[int], object]

    def acquire(self, task: DelegateTask) -> Payload | None:
        """The call with the connector's credentials; None if no chain waits for it or it cannot be made."""
        chain = self.kind.waiting_for(task)
        if chain is None:
            return None
        said, cluster = json.loads(task.payload), chain.cluster
        try:
            refuse_to_lend(task, cluster.connector)
            service = said.get("service", "ecs")
            return call_payload(cluster.connector, cluster.region, service, said["operation"], said["params"])
        except DoorClosed as closed:
            chain.shut(closed)
        except NotSent as error:
            self._refuse(chain, error)
        return None

    def complete(self, task: DelegateTask, answer: Answer) -> None:
        """Keep the answer, and go on."""
        chain = self.kind.waiting_for(task)
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        if chain is None:
            return
        if answer.status != "SUCCEEDED":
            self._refuse(chain, error_of(answer))
            return
        try:
            chain.take(chain.question(), answer.result or {})
        except NoSense as error:
            chain.fail(Failure(str(error)))
            return
        self._go_on(chain)

    def lost(self, task: DelegateTask) -> None:
        """Too late to ask anybody else."""
        if (chain := self.kind.waiting_for(task)) is not None:
            self._refuse(chain, Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def gave_up(self, task: DelegateTask) -> None:
        """No delegate took the task."""
        if (chain := self.kind.waiting_for(task)) is not None:
            self._refuse(chain, Undelivered("NO_DELEGATE", task.reason or "No delegate took this."))

    def _refuse(self, chain: Chain, error: AwsError) -> None:
        if chain.refuse(error):
            self._go_on(chain)

    def _go_on(self, chain: Chain) -> None:
        """The next call is asked for by a worker; what follows from the last answer is drawn there too."""
        chain.pause(database_now())
        transaction.on_commit(lambda: self.wake(chain.row.pk))
