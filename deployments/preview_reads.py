"""Reading AWS for a preview through delegates, without holding a worker or a request.

A preview is run from the start with each answer that has come, until none is missing.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import transaction

from aws.caller import Caller, CallPending
from aws.errors import AwsError, NotSent, Unanswered, Undelivered, from_record
from connectors.models import Connector
from delegates.doors import DelegateDoor, DoorClosed, call_here, call_payload, open_door
from delegates.errands import SERVICE, SiteCaller, SiteDoor, errand_payload, kind_of, open_site
from delegates.inquiry_tasks import error_of
from delegates.lending import refuse_to_lend
from delegates.models import DelegateTask
from delegates.operations.tasks import submit_task
from delegates.owners import Answer, Payload
from deployments.engine.doors import selectors_for
from deployments.models import PreviewQuestion, StepExecution
from deployments.regions import region_for
from web.clock import database_now
from web.news import changed

OWNER = "preview"
PATIENCE = timedelta(seconds=60)


def open_here(step: StepExecution) -> Caller:
    """The way of a step whose connectors go out from this Slipway."""
    return _Here(step)


@dataclass(frozen=True)
class _Here:
    """The calls of a step from this process: to AWS, and for the files of manifests."""

    step: StepExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer. Raises its error, or `DoorClosed`."""
        if service == SERVICE:
            return SiteCaller(_named(params)).call(service, operation, params)
        stage = self.step.stage
        return call_here(stage.connector, region_for(stage, self.step)).call(service, operation, params)


def _named(params: Mapping[str, Any]) -> Connector:
    """The connector that an errand names. Raises `DoorClosed`."""
    found = Connector.objects.select_related("scope", "secret").filter(pk=params["connector"]).first()
    if found is None:
        raise DoorClosed("The connector of a manifest is no longer there: change the manifest.")
    return found


@dataclass
class Answers:
    """What has come of a question, in the order of the calls of one run of the preview."""

    question: PreviewQuestion
    _left: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = list(json.loads(self.question.answers))

    def open(self, step: StepExecution) -> Caller:
        """The way of a step: from here, or through delegates, as each connector says."""
        return _EitherWay(self, step)

    def next(self, asked: str) -> dict[str, Any] | None:
        """The answer to a call, None if it has not come; what was answered otherwise is asked anew."""
        if self._left and self._left[0]["asked"] == asked:
            return self._left.pop(0)
        if self._left:
            # Somebody edited something meanwhile: what is known belongs to another preview.
            self.question.answers, self._left = "[]", []
        return None


@dataclass(frozen=True)
class _EitherWay:
    """The calls of a step, each by the way of the connector that it is made for."""

    answers: Answers
    step: StepExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer. Raises its error, `DoorClosed`, or `CallPending` where it is still to come."""
        stage = self.step.stage
        is_errand = service == SERVICE
        found = (
            open_site(_named(params))
            if is_errand
            else open_door(stage.connector, region_for(stage, self.step))
        )
        if isinstance(found, DelegateDoor | SiteDoor):
            return DelegatedReads(self.answers, found, self.step).call(service, operation, params)
        return found.call(service, operation, params)


@dataclass(frozen=True)
class DelegatedReads:
    """A connector's reads through delegates; the first one without an answer becomes a delegate task."""

    answers: Answers
    door: DelegateDoor | SiteDoor
    step: StepExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer. Raises its error, or `CallPending` where it is still to come."""
        said = {
            "service": service,
            "operation": operation,
            "params": dict(params),
            "region": self.door.region,
            "connector": self.door.connector.pk,
        }
        asked = _name_of(said)
        answer = self.answers.next(asked)
        if answer is None:
            self._ask({**said, "asked": asked})
            raise CallPending
        if answer["error"] is not None:
            raise from_record(answer["error"])
        return dict(answer["result"])

    def _ask(self, said: Mapping[str, Any]) -> None:
        question, stage = self.answers.question, self.step.stage
        selectors = selectors_for(self.step, self.door.selectors)
        with transaction.atomic():
            task = submit_task(
                scope=question.pipeline.scope,
                kind=_kind_of(said, self.door.connector),
                title=f"{said['service']}:{said['operation']} for {question}",
                payload=said,
                owner=OWNER,
                owner_ref=str(question.pk),
                selectors=selectors.tags,
                selectors_from=selectors.place,
                criterion=self.door.criterion(said["service"]),
                environment=stage.environment,
                connector=self.door.connector,
                deadline=database_now() + PATIENCE,
            )
            mine = PreviewQuestion.objects.filter(pk=question.pk, task=None)
            if not mine.update(task=task, answers=question.answers):
                # Somebody looked at the same moment, and asks already.
                transaction.set_rollback(True)


def _kind_of(said: Mapping[str, Any], connector: Connector) -> DelegateTask.Kind:
    is_errand = said["service"] == SERVICE
    return kind_of(said["operation"], connector) if is_errand else DelegateTask.Kind.AWS


def _name_of(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class PreviewOwner:
    """The owner of the tasks that previews are read by; all of them only read.

    `go_on` runs a preview again, with the answer that has come.
    """

    go_on: Callable[[PreviewQuestion], object]

    def acquire(self, task: DelegateTask) -> Payload | None:
        """The call with the connector's credentials; None if nobody waits for it or it cannot be made."""
        question = _of(task)
        if question is None:
            return None
        said = json.loads(task.payload)
        try:
            connector = Connector.objects.select_related("scope", "secret").get(pk=said["connector"])
            refuse_to_lend(task, connector)
            if said["service"] == SERVICE:
                return errand_payload(connector, said["operation"], said["params"])
            return call_payload(connector, said["region"], said["service"], said["operation"], said["params"])
        except DoorClosed as closed:
            self._take(question, task, error=Undelivered("CONNECTOR_NOT_USABLE", str(closed)))
        except NotSent as error:
            self._take(question, task, error=error)
        return None

    def complete(self, task: DelegateTask, answer: Answer) -> None:
        """Take the answer, and ask what comes next."""
        if (question := _of(task)) is None:
            return
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        error = None if answer.status == "SUCCEEDED" else error_of(answer)
        self._take(question, task, result=answer.result, error=error)

    def again(self, task: DelegateTask) -> None:
        """The task itself goes to the next delegate."""

    def secrets(self, task: DelegateTask) -> tuple[str, ...]:
        """Reads print nothing."""
        return ()

    def logged(self, task: DelegateTask) -> None:
        """Reads print nothing."""

    def lost(self, task: DelegateTask) -> None:
        """Too late to ask anybody else."""
        if (question := _of(task)) is not None:
            reason = task.reason or "the delegate was lost"
            self._take(question, task, error=Unanswered("DELEGATE_LOST", reason))

    def gave_up(self, task: DelegateTask) -> None:
        """No delegate took the task: that is the answer."""
        if (question := _of(task)) is not None:
            reason = task.reason or "No delegate took this."
            self._take(question, task, error=Undelivered("NO_DELEGATE", reason))

    def _take(
        self,
        question: PreviewQuestion,
        task: DelegateTask,
        *,
        result: Mapping[str, Any] | None = None,
        error: AwsError | None = None,
    ) -> None:
        """Keep an answer; the preview goes on once that is committed."""
        kept = {
            "asked": json.loads(task.payload)["asked"],
            "result": dict(result or {}),
            "error": error.to_record() if error else None,
        }
        question.answers = json.dumps([*json.loads(question.answers), kept])
        question.task = None
        question.save(update_fields=["answers", "task"])
        changed("previews", question.pk)
        transaction.on_commit(lambda: self.go_on(question))


def _of(task: DelegateTask) -> PreviewQuestion | None:
    rows = PreviewQuestion.objects.select_related("pipeline__scope", "asked_by")
    return rows.filter(pk=task.owner_ref, task=task, finished_at=None).first()
