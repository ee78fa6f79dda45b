"""AWS reads of a preview through delegates, as delegate tasks.

Each recorded answer reruns the preview from the start, until no answer is missing.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
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
from deployments.regions import get_call_region
from guards.masks import EMPTY_MASK, SecretMask
from web.clock import get_database_time
from web.live import publish_change_on_commit

PREVIEW_OWNER = "preview"
ANSWER_TIMEOUT = timedelta(seconds=60)


def open_in_process(step: StepExecution) -> Caller:
    """Return the access of a step whose connectors are called from this Slipway."""
    return _InProcessAccess(step)


@dataclass(frozen=True)
class _InProcessAccess:
    """Calls of a step from this process: to AWS, and for files of manifests."""

    step: StepExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises its error, or `ConnectorUnavailable`."""
        if service == SITE_SERVICE:
            return SiteCaller(_find_connector(params)).call(service, operation, params)
        stage = self.step.stage
        return get_local_caller(stage.connector, get_call_region(stage, self.step)).call(
            service, operation, params
        )


def _find_connector(params: Mapping[str, Any]) -> Connector:
    """Return the connector of a site call. Raises `ConnectorUnavailable`."""
    connector = Connector.objects.select_related("scope", "secret").filter(pk=params["connector"]).first()
    if connector is None:
        raise ConnectorUnavailable("The connector of a manifest no longer exists. Change the manifest.")
    return connector


@dataclass
class RecordedAnswers:
    """Recorded answers of a preview request, in the order of its calls."""

    request: PreviewRequest
    _remaining: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._remaining = list(json.loads(self.request.answers))

    def open(self, step: StepExecution) -> Caller:
        """Return the access of a step: from this process, or through delegates."""
        return _RoutedAccess(self, step)

    def pop_answer(self, call_key: str) -> dict[str, Any] | None:
        """Return the answer of a call; None if it is missing. Answers of another call are discarded."""
        if self._remaining and self._remaining[0]["asked"] == call_key:
            return self._remaining.pop(0)
        if self._remaining:
            # The pipeline was edited meanwhile, so the answers belong to another preview.
            self.request.answers, self._remaining = "[]", []
        return None


@dataclass(frozen=True)
class _RoutedAccess:
    """Calls of a step, each through the access of its connector."""

    answers: RecordedAnswers
    step: StepExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer.

        Raises its error, `ConnectorUnavailable`, or `CallPending` while it is missing.
        """
        stage = self.step.stage
        is_site_call = service == SITE_SERVICE
        access = (
            open_site_access(_find_connector(params))
            if is_site_call
            else open_aws_access(stage.connector, get_call_region(stage, self.step))
        )
        if isinstance(access, DelegateAwsAccess | DelegateSiteAccess):
            return DelegatedReads(self.answers, access, self.step).call(service, operation, params)
        return access.call(service, operation, params)


@dataclass(frozen=True)
class DelegatedReads:
    """Reads of a connector through delegates; the first one without an answer becomes a delegate task."""

    answers: RecordedAnswers
    aws_access: DelegateAwsAccess | DelegateSiteAccess
    step: StepExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises its error, or `CallPending` while it is missing."""
        call = {
            "service": service,
            "operation": operation,
            "params": dict(params),
            "region": self.aws_access.region,
            "connector": self.aws_access.connector.pk,
        }
        call_key = _get_task_title(call)
        answer = self.answers.pop_answer(call_key)
        if answer is None:
            self._submit_task({**call, "asked": call_key})
            raise CallPending
        if answer["error"] is not None:
            raise parse_error_record(answer["error"])
        return dict(answer["result"])

    def _submit_task(self, call: Mapping[str, Any]) -> None:
        request, stage = self.answers.request, self.step.stage
        selectors = get_call_selectors(self.step, self.aws_access.selectors)
        with transaction.atomic():
            task = submit_task(
                scope=request.pipeline.scope,
                kind=_get_task_kind(call, self.aws_access.connector),
                title=f"{call['service']}:{call['operation']} for {request}",
                payload=call,
                owner=PREVIEW_OWNER,
                owner_ref=str(request.pk),
                selectors=selectors.tags,
                selectors_from=selectors.source,
                criterion=self.aws_access.criterion(call["service"]),
                environment=stage.environment,
                connector=self.aws_access.connector,
                deadline=get_database_time() + ANSWER_TIMEOUT,
            )
            unsubmitted = PreviewRequest.objects.filter(pk=request.pk, task=None, finished_at=None)
            if not unsubmitted.update(task=task, answers=request.answers):
                # A concurrent request has submitted a task already, or the request is finished.
                transaction.set_rollback(True)


def _get_task_kind(call: Mapping[str, Any], connector: Connector) -> DelegateTask.Kind:
    is_site_call = call["service"] == SITE_SERVICE
    return get_task_kind(call["operation"], connector) if is_site_call else DelegateTask.Kind.AWS


def _get_task_title(call: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(call, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class PreviewOwner:
    """Owner of the tasks of previews, which only read.

    `continue_preview` runs a preview again with the recorded answer.
    """

    continue_preview: Callable[[PreviewRequest], object]

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """Return the call with the connector's credentials; None if it is obsolete or impossible."""
        request = _get_request(task)
        if request is None:
            return None
        call = json.loads(task.payload)
        try:
            connector = Connector.objects.select_related("scope", "secret").get(pk=call["connector"])
            require_lendable_credentials(task, connector)
            if call["service"] == SITE_SERVICE:
                return build_site_payload(connector, call["operation"], call["params"])
            return build_aws_payload(
                connector, call["region"], call["service"], call["operation"], call["params"]
            )
        except ConnectorUnavailable as unavailable:
            self._record_answer(request, task, error=Undelivered("CONNECTOR_NOT_USABLE", str(unavailable)))
        except NotSent as error:
            self._record_answer(request, task, error=error)
        return None

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Record the answer and continue the preview."""
        if (request := _get_request(task)) is None:
            return
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        error = None if answer.status == "SUCCEEDED" else build_task_error(answer)
        self._record_answer(request, task, result=answer.result, error=error)

    def requeue(self, task: DelegateTask, refusal: str = "") -> None:
        """Do nothing: the task itself goes to the next delegate."""

    def get_mask(self, task: DelegateTask) -> SecretMask:
        """Return the empty mask: reads have no output."""
        return EMPTY_MASK

    def keep_hidden_lines(self, task: DelegateTask, lines: Sequence[Mapping[str, Any]]) -> None:
        """Do nothing; reads write no log."""

    def publish_log(self, task: DelegateTask) -> None:
        """Do nothing: reads have no output."""

    def record_lost(self, task: DelegateTask) -> None:
        """Record the loss of the delegate as the answer."""
        if (request := _get_request(task)) is not None:
            reason = task.reason or "the delegate was lost"
            self._record_answer(request, task, error=Unanswered("DELEGATE_LOST", reason))

    def record_unanswered(self, task: DelegateTask) -> None:
        """Record that no delegate took the task as the answer."""
        if (request := _get_request(task)) is not None:
            reason = task.reason or "No delegate took this."
            self._record_answer(request, task, error=Undelivered("NO_DELEGATE", reason))

    def _record_answer(
        self,
        request: PreviewRequest,
        task: DelegateTask,
        *,
        result: Mapping[str, Any] | None = None,
        error: AwsError | None = None,
    ) -> None:
        """Record an answer; the preview continues after the commit."""
        record = {
            "asked": json.loads(task.payload)["asked"],
            "result": dict(result or {}),
            "error": error.to_record() if error else None,
        }
        request.answers = json.dumps([*json.loads(request.answers), record])
        request.task = None
        request.save(update_fields=["answers", "task"])
        publish_change_on_commit("previews", request.pk)
        transaction.on_commit(lambda: self.continue_preview(request))


def _get_request(task: DelegateTask) -> PreviewRequest | None:
    rows = PreviewRequest.objects.select_related("pipeline__scope", "requested_by")
    return rows.filter(pk=task.owner_ref, task=task, finished_at=None).first()
