"""Calls of set-ups of event queues through delegates.

Each call is a task. With its answer, the pass begins again, and repeats stored answers up to the next call.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet

from aws.caller import CallPending
from aws.errors import AwsError, NotSent, Unanswered, Undelivered
from connectors.live import publish_setup_changed
from connectors.models import EventQueueSetup
from connectors.operations.event_queue_setups import NO_CALLS
from delegates.access.aws_access import (
    ConnectorUnavailable,
    DelegateAwsAccess,
    build_aws_payload,
    require_lendable_credentials,
)
from delegates.access.lookup_tasks import build_task_error
from delegates.access.replayed_calls import NextCall, ReplayedCalls, append_answer
from delegates.models import DelegateTask
from delegates.operations.tasks import ReadOwner, submit_task
from delegates.queries.routing_candidates import build_own_tag
from delegates.task_owners import TaskAnswer, TaskPayload
from web.clock import get_database_time

SETUP_OWNER: Final = "event-queue-setup"
ABORTED: Final = "ABORTED"
"""Error code of a call that a user aborted."""
CALL_DEADLINE: Final = timedelta(seconds=60)
# Longer than the deadline and the end of a task that no delegate took.
_OVERDUE: Final = timedelta(seconds=90)
_WRITE: Final = "CreateStack"
# In the payload of a task: the connector as it was when the task was queued.
_VERSION: Final = "connector_version"


@dataclass(frozen=True)
class DelegateSetupCaller:
    """Caller of a pass that repeats stored answers; the first call without one becomes a task.

    One delegate makes all calls of a pass: another one could have the credentials of another account than the
    one that was checked. `own` has the set-up as long as no other worker has claimed it.
    """

    setup: EventQueueSetup
    access: DelegateAwsAccess
    now: datetime
    own: QuerySet[EventQueueSetup]

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the next stored answer. Raises its error, or `CallPending` if it is missing."""
        with suppress(NextCall):
            return self._answers.call(service, operation, params)
        if not self._continues:
            self.own.update(due_at=self.now, **NO_CALLS)
        else:
            self._wait_for(service, operation, params)
        raise CallPending

    @cached_property
    def _answers(self) -> ReplayedCalls:
        return ReplayedCalls(self.setup.answers or "[]")

    @cached_property
    def _last_task(self) -> DelegateTask | None:
        tasks = DelegateTask.objects.select_related("instance")
        return tasks.filter(pk=self.setup.last_task).first() if self.setup.last_task else None

    @property
    def _continues(self) -> bool:
        """Return whether the same delegate can go on; otherwise the pass begins again."""
        if not self.setup.answers:
            return True
        last = self._last_task
        return last is not None and last.instance is not None and _is_of_connector(last, self.setup)

    def _wait_for(self, service: str, operation: str, params: Mapping[str, Any]) -> None:
        with transaction.atomic():
            task = self._submit(service, operation, params)
            message = self.setup.message or "A delegate makes the calls to AWS."
            waits = {"call_task": str(task.pk), "due_at": self.now + CALL_DEADLINE + _OVERDUE}
            if not self.own.update(message=message, **waits):
                transaction.set_rollback(True)
            elif message != self.setup.message:
                publish_setup_changed(self.setup.pk)

    def _submit(self, service: str, operation: str, params: Mapping[str, Any]) -> DelegateTask:
        is_write = operation == _WRITE
        instance = self._last_task.instance if self._last_task else None
        selectors = (build_own_tag(instance.delegate_id),) if instance else self.access.selectors
        call = {"service": service, "operation": operation, "params": dict(params)}
        return submit_task(
            scope=self.setup.scope,
            kind=DelegateTask.Kind.AWS,
            title=f"{service}:{operation} for the set-up of {self.setup}",
            payload={**call, _VERSION: _get_version(self.setup)},
            owner=SETUP_OWNER,
            owner_ref=str(self.setup.pk),
            is_write=is_write,
            repeatable=not is_write,
            selectors=selectors,
            selectors_from="CONNECTOR" if selectors and not instance else "",
            # The one that makes the first call has to reach what the others need.
            criterion=self.access.criterion("cloudformation"),
            connector=self.setup.connector,
            deadline=self.now + CALL_DEADLINE,
        )


class SetupTaskOwner(ReadOwner):
    """Owner of the calls of set-ups. Only the call that a set-up waits for has an effect."""

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """Return the call with the connector's credentials; None if the set-up does not wait for it."""
        setup = _get_setup_of(task)
        if setup is None:
            return None
        if not _is_of_connector(task, setup):
            _begin_again(setup)
            return None
        payload = json.loads(task.payload)
        try:
            require_lendable_credentials(task, setup.connector)
            return build_aws_payload(
                setup.connector, setup.region, payload["service"], payload["operation"], payload["params"]
            )
        except ConnectorUnavailable as unavailable:
            _record_answer(setup, error=Undelivered("CONNECTOR_NOT_USABLE", str(unavailable)))
        except NotSent as error:
            _record_answer(setup, error=error)
        return None

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Store the answer, with which the pass begins again."""
        setup = _get_setup_of(task)
        if setup is None:
            return
        if not _is_of_connector(task, setup):
            _begin_again(setup)
        elif answer.status == "SUCCEEDED":
            _record_answer(setup, result=answer.result)
        elif answer.status == ABORTED:
            _record_answer(setup, error=Undelivered(ABORTED, "The delegate aborted the call."))
        else:
            _record_answer(setup, error=build_task_error(answer))

    def record_lost(self, task: DelegateTask) -> None:
        """Store that the answer is lost; the next pass reads what happened."""
        if (setup := _get_setup_of(task)) is not None:
            _record_answer(setup, error=Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def record_unanswered(self, task: DelegateTask) -> None:
        """Store that no delegate made the call."""
        if (setup := _get_setup_of(task)) is not None:
            code = ABORTED if task.status == DelegateTask.Status.ABORTED else "NO_DELEGATE"
            _record_answer(setup, error=Undelivered(code, task.reason or "No delegate accepted the task."))


def _get_setup_of(task: DelegateTask) -> EventQueueSetup | None:
    """Return the set-up that waits for a task; otherwise None."""
    running = EventQueueSetup.objects.filter(status=EventQueueSetup.Status.RUNNING, call_task=str(task.pk))
    relations = ("connector__scope", "connector__secret", "connector__session_token")
    return running.select_related(*relations).filter(pk=task.owner_ref).first()


def _get_version(setup: EventQueueSetup) -> str:
    return setup.connector.updated_at.isoformat()


def _is_of_connector(task: DelegateTask, setup: EventQueueSetup) -> bool:
    """Return whether a task was queued for the connector as it is; another may be of another account."""
    return bool(json.loads(task.payload)[_VERSION] == _get_version(setup))


def _begin_again(setup: EventQueueSetup) -> None:
    _update(setup, **NO_CALLS)


def _record_answer(
    setup: EventQueueSetup, *, result: Mapping[str, Any] | None = None, error: AwsError | None = None
) -> None:
    answers = append_answer(setup.answers or "[]", result=result, error=error)
    _update(setup, call_task="", last_task=setup.call_task, answers=answers)


def _update(setup: EventQueueSetup, **columns: str) -> None:
    """Make the next pass due with these columns, unless the set-up waits for another call meanwhile."""
    waiting = EventQueueSetup.objects.filter(pk=setup.pk, call_task=setup.call_task)
    waiting.filter(status=EventQueueSetup.Status.RUNNING).update(due_at=get_database_time(), **columns)
