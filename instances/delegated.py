"""The calls of a sync whose connector goes through delegates: one delegate task at a time."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import transaction

from aws.errors import NotSent, Unanswered, Undelivered
from delegates.clock import database_now
from delegates.doors import DelegateDoor, DoorClosed, call_payload
from delegates.inquiry_tasks import error_of
from delegates.lending import refuse_to_lend
from delegates.models import DelegateTask
from delegates.operations.tasks import submit_task
from delegates.owners import Answer, Payload
from instances.models import SyncedCluster
from instances.pausing import Failure
from instances.progress import Sync, held, refuse, shut
from instances.reading import NoSense, Question

OWNER: Final = "sync"
PATIENCE: Final = timedelta(seconds=60)


def ask(sync: Sync, door: DelegateDoor, question: Question) -> None:
    """Queue a call; its answer goes on with the sync. Raises `TakenOver`."""
    until = database_now() + PATIENCE
    with transaction.atomic():
        task = submit_task(
            scope=door.connector.scope,
            kind=DelegateTask.Kind.AWS,
            title=f"{question.service}:{question.operation} for {sync.cluster}",
            payload={
                "service": question.service,
                "operation": question.operation,
                "params": dict(question.params),
            },
            owner=OWNER,
            owner_ref=str(sync.cluster.pk),
            selectors=door.selectors,
            selectors_from="CONNECTOR" if door.selectors else "",
            criterion=door.criterion(question.service),
            connector=door.connector,
            deadline=until,
        )
        sync.wait_for(task, until)


@dataclass(frozen=True)
class SyncOwner:
    """The owner of the delegate tasks that syncs are made of; all of them only read.

    `wake` goes on with a cluster once the answer is committed.
    """

    wake: Callable[[int], object]

    def acquire(self, task: DelegateTask) -> Payload | None:
        """The call with the connector's credentials; None if no sync waits for it or it cannot be made."""
        sync = _sync_of(task)
        if sync is None:
            return None
        said, cluster = json.loads(task.payload), sync.cluster
        try:
            refuse_to_lend(task, cluster.connector)
            service = said.get("service", "ecs")
            return call_payload(cluster.connector, cluster.region, service, said["operation"], said["params"])
        except DoorClosed as closed:
            shut(sync, closed)
        except NotSent as error:
            refuse(sync, error)
        return None

    def complete(self, task: DelegateTask, answer: Answer) -> None:
        """Keep the answer, and go on."""
        sync = _sync_of(task)
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        if sync is None:
            return
        if _take(sync, answer) and not sync.reading.is_over:
            sync.pause(database_now())
            transaction.on_commit(lambda: self.wake(sync.cluster.pk))

    def again(self, task: DelegateTask) -> None:
        """The task itself goes to the next delegate."""

    def secrets(self, task: DelegateTask) -> tuple[str, ...]:
        """Reads print nothing."""
        return ()

    def logged(self, task: DelegateTask) -> None:
        """Reads print nothing."""

    def lost(self, task: DelegateTask) -> None:
        """Too late to ask anybody else."""
        if (sync := _sync_of(task)) is not None:
            refuse(sync, Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def gave_up(self, task: DelegateTask) -> None:
        """No delegate took the task."""
        if (sync := _sync_of(task)) is not None:
            refuse(sync, Undelivered("NO_DELEGATE", task.reason or "No delegate took this."))


def _take(sync: Sync, answer: Answer) -> bool:
    """Keep an answer, or why there is none, and say whether it goes on."""
    try:
        if answer.status == "SUCCEEDED":
            sync.take(sync.question(), answer.result or {})
            return True
        error = error_of(answer)
        if sync.skips(error):
            sync.skip(error)
            return True
        refuse(sync, error)
    except NoSense as error:
        sync.fail(Failure(str(error)))
    return False


def _sync_of(task: DelegateTask) -> Sync | None:
    """The sync that waits for this task."""
    rows = SyncedCluster.objects.select_related("connector__scope", "connector__secret")
    cluster = rows.filter(pk=task.owner_ref, task=task).first()
    return held(cluster) if cluster else None
