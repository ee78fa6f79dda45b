"""AWS reads of a preview through delegates, as delegate tasks.

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
from aws.errors import AwsError, NotSent, Unanswered, Undelivered, parse_error_record
from connectors.models import Connector
from delegates.access.aws_access import (
    ConnectorUnavailable,
    DelegateAwsAccess,
    build_aws_payload,
    get_local_caller,
    open_aws_access,
    require_lendable_credentials,
)
from delegates.access.lookup_tasks import build_task_error
from delegates.access.site_calls import (
    SITE_SERVICE,
    DelegateSiteAccess,
    SiteCaller,
    build_site_payload,
    get_task_kind,
    open_site_access,
)
from delegates.models import DelegateTask
from delegates.operations.tasks import submit_task
from delegates.task_owners import TaskAnswer, TaskPayload
from deployments.journal.aws_access import get_call_selectors
from deployments.models import PreviewRequest, StepExecution
from deployments.regions import region_for
from web.clock import get_database_time
from web.live import publish_change_on_commit

PREVIEW_OWNER = "preview"
ANSWER_TIMEOUT = timedelta(seconds=60)


def open_in_process(step: StepExecution) -> Caller:
    """Return the way of a step whose connectors go out from this Slipway."""
    return _InProcessAccess(step)


@dataclass(frozen=True)
class _InProcessAccess:
    """The calls of a step from this process: to AWS, and for the files of manifests."""

    step: StepExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises its error, or `ConnectorUnavailable`."""
        if service == SITE_SERVICE:
            return SiteCaller(_find_connector(params)).call(service, operation, params)
        stage = self.step.stage
        return get_local_caller(stage.connector, region_for(stage, self.step)).call(
            service, operation, params
        )


def _find_connector(params: Mapping[str, Any]) -> Connector:
    """Return the connector that an errand names. Raises `ConnectorUnavailable`."""
    found = Connector.objects.select_related("scope", "secret").filter(pk=params["connector"]).first()
    if found is None:
        raise ConnectorUnavailable("The connector of a manifest is no longer there: change the manifest.")
    return found


@dataclass
class RecordedAnswers:
    """What has come of a question, in the order of the calls of one run of the preview."""

    question: PreviewRequest
    _left: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = list(json.loads(self.question.answers))

    def open(self, step: StepExecution) -> Caller:
        """Return the way of a step: from here, or through delegates, as each connector says."""
        return _RoutedAccess(self, step)

    def next(self, asked: str) -> dict[str, Any] | None:
        """Return the answer to a call, None if it has not come; what was answered otherwise is asked anew."""
        if self._left and self._left[0]["asked"] == asked:
            return self._left.pop(0)
        if self._left:
            # Somebody edited something meanwhile: what is known belongs to another preview.
            self.question.answers, self._left = "[]", []
        return None


@dataclass(frozen=True)
class _RoutedAccess:
    """The calls of a step, each by the way of the connector that it is made for."""

    answers: RecordedAnswers
    step: StepExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer.

        Raises its error, `ConnectorUnavailable`, or `CallPending` where it is still to come.
        """
        stage = self.step.stage
        is_errand = service == SITE_SERVICE
        found = (
            open_site_access(_find_connector(params))
            if is_errand
            else open_aws_access(stage.connector, region_for(stage, self.step))
        )
        if isinstance(found, DelegateAwsAccess | DelegateSiteAccess):
            return DelegatedReads(self.answers, found, self.step).call(service, operation, params)
        return found.call(service, operation, params)


@dataclass(frozen=True)
class DelegatedReads:
    """A connector's reads through delegates; the first one without an answer becomes a delegate task."""

    answers: RecordedAnswers
    aws_access: DelegateAwsAccess | DelegateSiteAccess
    step: StepExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises its error, or `CallPending` where it is still to come."""
        said = {
            "service": service,
            "operation": operation,
            "params": dict(params),
            "region": self.aws_access.region,
            "connector": self.aws_access.connector.pk,
        }
        asked = _get_task_title(said)
        answer = self.answers.next(asked)
        if answer is None:
            self._ask({**said, "asked": asked})
            raise CallPending
        if answer["error"] is not None:
            raise parse_error_record(answer["error"])
        return dict(answer["result"])

    def _ask(self, said: Mapping[str, Any]) -> None:
        question, stage = self.answers.question, self.step.stage
        selectors = get_call_selectors(self.step, self.aws_access.selectors)
        with transaction.atomic():
            task = submit_task(
                scope=question.pipeline.scope,
                kind=_get_task_kind(said, self.aws_access.connector),
                title=f"{said['service']}:{said['operation']} for {question}",
                payload=said,
                owner=PREVIEW_OWNER,
                owner_ref=str(question.pk),
                selectors=selectors.tags,
                selectors_from=selectors.place,
                criterion=self.aws_access.criterion(said["service"]),
                environment=stage.environment,
                connector=self.aws_access.connector,
                deadline=get_database_time() + ANSWER_TIMEOUT,
            )
            mine = PreviewRequest.objects.filter(pk=question.pk, task=None)
            if not mine.update(task=task, answers=question.answers):
                # Somebody looked at the same moment, and asks already.
                transaction.set_rollback(True)


def _get_task_kind(said: Mapping[str, Any], connector: Connector) -> DelegateTask.Kind:
    is_errand = said["service"] == SITE_SERVICE
    return get_task_kind(said["operation"], connector) if is_errand else DelegateTask.Kind.AWS


def _get_task_title(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class PreviewOwner:
    """The owner of the tasks that previews are read by; all of them only read.

    `go_on` runs a preview again, with the answer that has come.
    """

    go_on: Callable[[PreviewRequest], object]

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """The call with the connector's credentials; None if nobody waits for it or it cannot be made."""
        question = _get_request(task)
        if question is None:
            return None
        said = json.loads(task.payload)
        try:
            connector = Connector.objects.select_related("scope", "secret").get(pk=said["connector"])
            require_lendable_credentials(task, connector)
            if said["service"] == SITE_SERVICE:
                return build_site_payload(connector, said["operation"], said["params"])
            return build_aws_payload(
                connector, said["region"], said["service"], said["operation"], said["params"]
            )
        except ConnectorUnavailable as closed:
            self._take(question, task, error=Undelivered("CONNECTOR_NOT_USABLE", str(closed)))
        except NotSent as error:
            self._take(question, task, error=error)
        return None

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Take the answer, and ask what comes next."""
        if (question := _get_request(task)) is None:
            return
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        error = None if answer.status == "SUCCEEDED" else build_task_error(answer)
        self._take(question, task, result=answer.result, error=error)

    def requeue(self, task: DelegateTask) -> None:
        """The task itself goes to the next delegate."""

    def list_secrets(self, task: DelegateTask) -> tuple[str, ...]:
        """Reads print nothing."""
        return ()

    def publish_log(self, task: DelegateTask) -> None:
        """Reads print nothing."""

    def record_lost(self, task: DelegateTask) -> None:
        """Too late to ask anybody else."""
        if (question := _get_request(task)) is not None:
            reason = task.reason or "the delegate was lost"
            self._take(question, task, error=Unanswered("DELEGATE_LOST", reason))

    def record_unanswered(self, task: DelegateTask) -> None:
        """No delegate took the task: that is the answer."""
        if (question := _get_request(task)) is not None:
            reason = task.reason or "No delegate took this."
            self._take(question, task, error=Undelivered("NO_DELEGATE", reason))

    def _take(
        self,
        question: PreviewRequest,
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
        publish_change_on_commit("previews", question.pk)
        transaction.on_commit(lambda: self.go_on(question))


def _get_request(task: DelegateTask) -> PreviewRequest | None:
    rows = PreviewRequest.objects.select_related("pipeline__scope", "requested_by")
    return rows.filter(pk=task.owner_ref, task=task, finished_at=None).first()
