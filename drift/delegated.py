"""The calls of a look whose connector goes through delegates: one delegate task at a time."""

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
from drift.progress import Look, waiting_for
from drift.reading import Question

OWNER: Final = "drift"
PATIENCE: Final = timedelta(seconds=60)


def ask(look: Look, door: DelegateDoor, question: Question) -> None:
    """Queue a call; its answer goes on with the look. Raises `TakenOver`."""
    until = database_now() + PATIENCE
    said = {"service": question.service, "operation": question.operation, "params": dict(question.params)}
    with transaction.atomic():
        task = submit_task(
            scope=door.connector.scope,
            kind=DelegateTask.Kind.AWS,
            title=f"{question.service}:{question.operation} for {look.compared}",
            payload=said,
            owner=OWNER,
            owner_ref=str(look.compared.pk),
            selectors=door.selectors,
            selectors_from="CONNECTOR" if door.selectors else "",
            criterion=door.criterion(question.service),
            connector=door.connector,
            deadline=until,
        )
        look.wait_for(task, until)


@dataclass(frozen=True)
class DriftOwner:
    """The owner of the delegate tasks that looks for drift are made of; all of them only read.

    `wake` goes on with a cluster once the answer is committed.
    """

    wake: Callable[[int], object]

    def acquire(self, task: DelegateTask) -> Payload | None:
        """The call with the connector's credentials; None if no look waits for it or it cannot be made."""
        look = waiting_for(task)
        if look is None:
            return None
        said, cluster = json.loads(task.payload), look.compared.cluster
        try:
            refuse_to_lend(task, cluster.connector)
            return call_payload(
                cluster.connector, cluster.region, said["service"], said["operation"], said["params"]
            )
        except DoorClosed as closed:
            look.fail(str(closed))
        except NotSent as error:
            look.refuse(error)
        return None

    def complete(self, task: DelegateTask, answer: Answer) -> None:
        """Keep the answer, and go on."""
        look = waiting_for(task)
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        if look is None:
            return
        if answer.status == "SUCCEEDED":
            look.take(answer.result or {})
        else:
            look.refuse(error_of(answer))
            if ended_in_failure(look):
                return
        look.pause(database_now())
        transaction.on_commit(lambda: self.wake(look.compared.pk))

    def again(self, task: DelegateTask) -> None:
        """The task itself goes to the next delegate."""

    def secrets(self, task: DelegateTask) -> tuple[str, ...]:
        """Reads print nothing."""
        return ()

    def logged(self, task: DelegateTask) -> None:
        """Reads print nothing."""

    def lost(self, task: DelegateTask) -> None:
        """Too late to ask anybody else."""
        if (look := waiting_for(task)) is not None:
            look.refuse(Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def gave_up(self, task: DelegateTask) -> None:
        """No delegate took the task."""
        if (look := waiting_for(task)) is not None:
            look.refuse(Undelivered("NO_DELEGATE", task.reason or "No delegate took this."))


def ended_in_failure(look: Look) -> bool:
    """Whether a refusal has ended the look, rather than a part of it."""
    look.compared.refresh_from_db(fields=["reading"])
    return look.compared.reading is None
