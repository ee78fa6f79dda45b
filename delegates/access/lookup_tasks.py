"""Delegate tasks of lookup requests: one for each missing answer, and their owner."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from aws.caller import CallPending
from aws.errors import AwsError, NotSent, Unanswered, Undelivered, parse_error_record
from connectors.models import Connector
from delegates.access.aws_access import (
    ConnectorUnavailable,
    DelegateAwsAccess,
    build_aws_payload,
    fetch_clusters,
    open_aws_access,
    require_lendable_credentials,
)
from delegates.access.connector_tests import record_connector_test, run_aws_test, run_site_test
from delegates.access.images import read_registry
from delegates.access.load_balancers import LOOKUPS, fetch_options
from delegates.access.remedies import describe_with_remedy
from delegates.access.site_calls import (
    FETCH_FILES,
    SITE_SERVICE,
    DelegateSiteAccess,
    build_site_payload,
    get_task_kind,
    redact_result,
    trim_result,
)
from delegates.access.terraform_cloud import OPERATIONS, build_terraform_error
from delegates.models import DelegateTask, LookupRequest
from delegates.operations.tasks import submit_task
from delegates.task_owners import TaskAnswer, TaskPayload
from web.clock import get_database_time
from web.live import publish_change_on_commit

LOOKUP_OWNER = "inquiry"
LOOKUP_TIMEOUT = timedelta(seconds=60)
_REGISTRY_KINDS = (LookupRequest.Kind.TAGS, LookupRequest.Kind.REPOSITORIES)


@dataclass(frozen=True)
class LookupCaller:
    """AWS caller that replays stored responses; the first unanswered call becomes a delegate task."""

    inquiry: LookupRequest
    aws_access: DelegateAwsAccess | DelegateSiteAccess

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the next stored response. Raises its error, or `CallPending` if it is missing."""
        if self._left:
            answer = self._left.pop(0)
            if answer["error"] is not None:
                raise parse_error_record(answer["error"])
            return dict(answer["result"])
        said = {"service": service, "operation": operation, "params": dict(params)}
        self.inquiry.task = submit_task(
            scope=self.aws_access.connector.scope,
            kind=get_task_kind(operation, self.aws_access.connector)
            if service == SITE_SERVICE
            else DelegateTask.Kind.AWS,
            title=f"{service}:{operation} for {self.inquiry}",
            payload=said,
            owner=LOOKUP_OWNER,
            owner_ref=str(self.inquiry.pk),
            selectors=self.aws_access.selectors,
            selectors_from="CONNECTOR" if self.aws_access.selectors else "",
            criterion=self.aws_access.criterion(service),
            connector=self.aws_access.connector,
            deadline=get_database_time() + LOOKUP_TIMEOUT,
        )
        self.inquiry.save(update_fields=["task"])
        raise CallPending

    def __post_init__(self) -> None:
        object.__setattr__(self, "_answers", json.loads(self.inquiry.answers))

    @property
    def _left(self) -> list[dict[str, Any]]:
        left: list[dict[str, Any]] = self.__dict__["_answers"]
        return left


def resume_lookup(inquiry: LookupRequest) -> None:
    """Run the query again from its start; without a missing response it finishes the request."""
    try:
        caller = LookupCaller(inquiry, open_delegate_access(inquiry.connector, inquiry.kind, inquiry.region))
        inquiry.report = _build_report(inquiry, caller)
    except CallPending:
        publish_change_on_commit("inquiries", inquiry.pk)
        return
    except ConnectorUnavailable as closed:
        # The connector was changed meanwhile.
        inquiry.report = None if inquiry.kind == LookupRequest.Kind.TEST else {"error": str(closed)}
    inquiry.finished_at = get_database_time()
    if inquiry.kind != LookupRequest.Kind.FILES:
        inquiry.answers = "[]"
    inquiry.save(update_fields=["answers", "finished_at", "report"])
    publish_change_on_commit("inquiries", inquiry.pk)


def open_delegate_access(
    connector: Connector, kind: str, region: str
) -> DelegateAwsAccess | DelegateSiteAccess:
    """Return the way through delegates for one kind of question. Raises `ConnectorUnavailable`."""
    if connector.kind != Connector.Kind.AWS or kind == LookupRequest.Kind.FILES:
        return DelegateSiteAccess(connector)
    aws_access = open_aws_access(connector, region)
    if not isinstance(aws_access, DelegateAwsAccess):
        raise ConnectorUnavailable(f"The connector {connector} connects through Slipway.")
    return aws_access


def _test(inquiry: LookupRequest, caller: LookupCaller) -> dict[str, Any]:
    connector = inquiry.connector
    if connector.kind == Connector.Kind.AWS:
        tested = run_aws_test(connector, inquiry.region, caller, delegate=inquiry.answered_by)
    else:
        tested = run_site_test(connector, caller, delegate=inquiry.answered_by)
    if connector.updated_at <= inquiry.asked_at:
        record_connector_test(actor=inquiry.asked_by, connector=connector, tested=tested)
    return tested.to_json()


def _build_report(inquiry: LookupRequest, caller: LookupCaller) -> dict[str, Any]:
    if inquiry.kind == LookupRequest.Kind.TEST:
        return _test(inquiry, caller)
    try:
        if inquiry.kind in _REGISTRY_KINDS:
            return read_registry(inquiry.kind, caller, inquiry.subject, inquiry.region)
        if inquiry.kind == LookupRequest.Kind.FILES:
            return _fetch_files(inquiry, caller)
        if inquiry.kind in LOOKUPS:
            return {"seen": fetch_options(inquiry.kind, caller, inquiry.subject)}
        return {"clusters": [asdict(one) for one in fetch_clusters(caller)]}
    except AwsError as error:
        if inquiry.kind in _REGISTRY_KINDS:
            return {"error": describe_with_remedy(inquiry.connector, error, inquiry.region)}
        return {"error": error.display_message}


def _fetch_files(inquiry: LookupRequest, caller: LookupCaller) -> dict[str, Any]:
    """Fetch the files; an error without files is also a response."""
    try:
        caller.call(SITE_SERVICE, FETCH_FILES, inquiry.said)
    except AwsError as error:
        return {"fetched": False, "code": error.code}
    return {"fetched": True}


class LookupTaskOwner:
    """Owner of the tasks of lookup requests; all of them are read-only."""

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """Return the call with the connector's credentials; None if the request is finished or impossible."""
        inquiry = _get_open_request(task)
        if inquiry is None:
            return None
        said = json.loads(task.payload)
        try:
            require_lendable_credentials(task, inquiry.connector)
            return _build_payload(inquiry, said["service"], said["operation"], said["params"])
        except ConnectorUnavailable as closed:
            _record_answer(inquiry, error=Undelivered("CONNECTOR_NOT_USABLE", str(closed)))
        except NotSent:
            # The same question becomes another task.
            resume_lookup(inquiry)
        return None

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Store the answer and submit the next call."""
        if (inquiry := _get_open_request(task)) is None:
            return
        inquiry.answered_by = task.instance_name
        if inquiry.kind == LookupRequest.Kind.FILES:
            DelegateTask.objects.filter(pk=task.pk).update(result="")
        if answer.status == "SUCCEEDED":
            _record_success(inquiry, task, answer)
        else:
            _record_answer(inquiry, error=build_task_error(answer))

    def requeue(self, task: DelegateTask) -> None:
        """Do nothing; the task itself goes to the next delegate."""

    def list_secrets(self, task: DelegateTask) -> tuple[str, ...]:
        """Read print nothing."""
        return ()

    def publish_log(self, task: DelegateTask) -> None:
        """Read print nothing."""

    def record_lost(self, task: DelegateTask) -> None:
        """Fail the request; its deadline leaves no time for a second delegate."""
        if (inquiry := _get_open_request(task)) is not None:
            _record_answer(inquiry, error=Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def record_unanswered(self, task: DelegateTask) -> None:
        """Store the failure as the response, because no delegate took the task."""
        if (inquiry := _get_open_request(task)) is not None:
            _record_answer(
                inquiry, error=Undelivered("NO_DELEGATE", task.reason or "No delegate accepted the task.")
            )


def _build_payload(
    inquiry: LookupRequest, service: str, operation: str, params: Mapping[str, Any]
) -> TaskPayload:
    if service == SITE_SERVICE:
        return build_site_payload(inquiry.connector, operation, params)
    return build_aws_payload(inquiry.connector, inquiry.region, service, operation, params)


def _record_success(inquiry: LookupRequest, task: DelegateTask, answer: TaskAnswer) -> None:
    operation, result = str(json.loads(task.payload)["operation"]), answer.result or {}
    if operation not in OPERATIONS:
        _record_answer(inquiry, result=trim_result(operation, result))
    elif problem := build_terraform_error(answer, is_write=False):
        _record_answer(inquiry, error=problem)
    else:
        _record_answer(inquiry, result=redact_result(inquiry.connector, operation, result))


def _get_open_request(task: DelegateTask) -> LookupRequest | None:
    rows = LookupRequest.objects.select_related("connector__scope", "connector__secret", "asked_by")
    return rows.filter(pk=task.owner_ref, task=task, finished_at=None).first()


def build_task_error(answer: TaskAnswer) -> AwsError:
    """Return the error for an unsuccessful answer."""
    record = {key: str(value) for key, value in (answer.error or {}).items()}
    known = record.get("kind") not in (None, "TaskError")
    message = record.get("message", "The delegate gave no reason.")
    return parse_error_record(record) if known else Undelivered(record.get("code", answer.status), message)


def _record_answer(
    inquiry: LookupRequest, *, result: Mapping[str, Any] | None = None, error: AwsError | None = None
) -> None:
    answer = {"result": dict(result or {}), "error": error.to_record() if error else None}
    inquiry.answers = json.dumps([*json.loads(inquiry.answers), answer])
    inquiry.save(update_fields=["answers", "answered_by"])
    resume_lookup(inquiry)
