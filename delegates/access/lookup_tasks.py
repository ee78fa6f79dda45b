"""Delegate tasks of lookup requests: one for each missing answer, and their owner."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from aws.caller import CallPending
from aws.errors import AwsError, NotSent, Unanswered, Undelivered, parse_error_record
from connectors.models import Connector
from connectors.secret_managers.base import SecretUnreadable
from connectors.secret_managers.vault import check_login
from connectors.secret_managers.vault_client import VAULT_SERVICE
from delegates.access.aws_access import (
    ConnectorUnavailable,
    DelegateAwsAccess,
    build_aws_payload,
    fetch_clusters,
    get_delegate_access,
    require_lendable_credentials,
)
from delegates.access.connector_tests import (
    record_connector_test,
    run_aws_test,
    run_site_test,
    run_vault_test,
)
from delegates.access.images import read_registry
from delegates.access.lookup_options import LOOKUPS, fetch_options
from delegates.access.queue_calls import call_queue
from delegates.access.remedies import describe_with_remedy
from delegates.access.replayed_calls import (
    NextCall,
    ReplayedCalls,
    append_answer,
    build_vault_payload,
    get_call_task_kind,
)
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
from guards.masks import EMPTY_MASK, SecretMask
from web.clock import get_database_time
from web.live import publish_change_on_commit

LOOKUP_OWNER = "inquiry"
LOOKUP_TIMEOUT = timedelta(seconds=60)
_REGISTRY_KINDS = (
    LookupRequest.Kind.TAGS,
    LookupRequest.Kind.DIGESTS,
    LookupRequest.Kind.REPOSITORIES,
)


@dataclass(frozen=True)
class LookupCaller:
    """AWS caller that replays stored responses; the first unanswered call becomes a delegate task."""

    lookup: LookupRequest
    aws_access: DelegateAwsAccess | DelegateSiteAccess

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the next stored response. Raises its error, or `CallPending` if it is missing."""
        with suppress(NextCall):
            return self._answers.call(service, operation, params)
        # A request to Vault has its token in it, and is built again when a delegate takes the task.
        shown = {} if service == VAULT_SERVICE else dict(params)
        payload = {"service": service, "operation": operation, "params": shown}
        self.lookup.task = submit_task(
            scope=self.aws_access.connector.scope,
            kind=get_task_kind(operation, self.aws_access.connector)
            if service == SITE_SERVICE
            else get_call_task_kind(service),
            title=f"{service}:{operation} for {self.lookup}",
            payload=payload,
            owner=LOOKUP_OWNER,
            owner_ref=str(self.lookup.pk),
            selectors=self.aws_access.selectors,
            selectors_from="CONNECTOR" if self.aws_access.selectors else "",
            criterion=self.aws_access.criterion(service),
            connector=self.aws_access.connector,
            deadline=get_database_time() + LOOKUP_TIMEOUT,
        )
        self.lookup.save(update_fields=["task"])
        raise CallPending

    @cached_property
    def _answers(self) -> ReplayedCalls:
        return ReplayedCalls(self.lookup.answers)


def resume_lookup(lookup: LookupRequest) -> None:
    """Run the query again from its start; without a missing response it finishes the request."""
    try:
        caller = LookupCaller(lookup, open_delegate_access(lookup.connector, lookup.kind, lookup.region))
        lookup.report = _build_report(lookup, caller)
    except CallPending:
        publish_change_on_commit("inquiries", lookup.pk)
        return
    except ConnectorUnavailable as closed:
        # The connector was changed meanwhile.
        lookup.report = None if lookup.kind == LookupRequest.Kind.TEST else {"error": str(closed)}
    lookup.finished_at = get_database_time()
    if lookup.kind != LookupRequest.Kind.FILES:
        lookup.answers = "[]"
    lookup.save(update_fields=["answers", "finished_at", "report"])
    publish_change_on_commit("inquiries", lookup.pk)


def open_delegate_access(
    connector: Connector, kind: str, region: str
) -> DelegateAwsAccess | DelegateSiteAccess:
    """Return delegate access for one kind of lookup.

    Raises `ConnectorUnavailable`, also for a question about AWS to a connector of another kind.
    """
    if connector.kind != Connector.Kind.AWS and kind in (LookupRequest.Kind.CLUSTERS, *LOOKUPS):
        raise ConnectorUnavailable(
            f"The connector {connector} is for {connector.get_kind_display()}, not for AWS: choose another."
        )
    if connector.kind != Connector.Kind.AWS or kind == LookupRequest.Kind.FILES:
        return DelegateSiteAccess(connector)
    return get_delegate_access(connector, region)


def _run_test(lookup: LookupRequest, caller: LookupCaller) -> dict[str, Any]:
    connector = lookup.connector
    if connector.kind == Connector.Kind.VAULT:
        result = run_vault_test(connector, caller, delegate=lookup.answered_by)
    elif connector.kind == Connector.Kind.AWS:
        result = run_aws_test(connector, lookup.region, caller, delegate=lookup.answered_by)
    else:
        result = run_site_test(connector, caller, delegate=lookup.answered_by)
    if connector.updated_at <= lookup.requested_at:
        record_connector_test(actor=lookup.requested_by, connector=connector, result=result)
    return result.to_json()


def _build_report(lookup: LookupRequest, caller: LookupCaller) -> dict[str, Any]:
    if lookup.kind == LookupRequest.Kind.TEST:
        return _run_test(lookup, caller)
    try:
        if lookup.kind in _REGISTRY_KINDS:
            tags = lookup.params.get("tags", ())
            return read_registry(lookup.kind, caller, lookup.subject, lookup.region, tags)
        if lookup.kind == LookupRequest.Kind.FILES:
            return _fetch_files(lookup, caller)
        if lookup.kind == LookupRequest.Kind.QUEUE:
            return call_queue(caller, lookup.subject, lookup.params["receipts"])
        if lookup.kind in LOOKUPS:
            return {"seen": fetch_options(lookup.kind, caller, lookup.subject)}
        return {"clusters": [asdict(cluster) for cluster in fetch_clusters(caller)]}
    except AwsError as error:
        if lookup.kind in (*_REGISTRY_KINDS, LookupRequest.Kind.QUEUE):
            return {"error": describe_with_remedy(lookup.connector, error, lookup.region)}
        return {"error": error.display_message}


def _fetch_files(lookup: LookupRequest, caller: LookupCaller) -> dict[str, Any]:
    """Fetch the files; an error without files is also a response."""
    try:
        caller.call(SITE_SERVICE, FETCH_FILES, lookup.params)
    except AwsError as error:
        return {"fetched": False, "code": error.code}
    return {"fetched": True}


class LookupTaskOwner:
    """Owner of the tasks of lookup requests; all of them may be repeated."""

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """Return the call with the connector's credentials; None if the request is finished or impossible."""
        lookup = _get_open_request(task)
        if lookup is None:
            return None
        payload = json.loads(task.payload)
        try:
            require_lendable_credentials(task, lookup.connector)
            return _build_payload(lookup, payload["service"], payload["operation"], payload["params"])
        except ConnectorUnavailable as closed:
            _record_answer(lookup, error=Undelivered("CONNECTOR_NOT_USABLE", str(closed)))
        except NotSent:
            # The same question becomes another task.
            resume_lookup(lookup)
        return None

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Store the answer and submit the next call."""
        if (lookup := _get_open_request(task)) is None:
            return
        lookup.answered_by = task.instance_name
        if lookup.kind == LookupRequest.Kind.FILES or lookup.connector.kind == Connector.Kind.VAULT:
            DelegateTask.objects.filter(pk=task.pk).update(result="")
        if answer.status == "SUCCEEDED":
            _record_success(lookup, task, answer)
        else:
            _record_answer(lookup, error=build_task_error(answer))

    def requeue(self, task: DelegateTask, refusal: str = "") -> None:
        """Do nothing; the task itself returns to the queue."""

    def get_mask(self, task: DelegateTask) -> SecretMask:
        """Return the empty mask; reads write no log."""
        return EMPTY_MASK

    def keep_hidden_lines(self, task: DelegateTask, lines: Sequence[Mapping[str, Any]]) -> None:
        """Do nothing; reads write no log."""

    def publish_log(self, task: DelegateTask) -> None:
        """Do nothing; reads write no log."""

    def record_lost(self, task: DelegateTask) -> None:
        """Fail the request; its deadline leaves no time for a second delegate."""
        if (lookup := _get_open_request(task)) is not None:
            _record_answer(lookup, error=Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def record_unanswered(self, task: DelegateTask) -> None:
        """Store the failure as the response, because no delegate took the task."""
        if (lookup := _get_open_request(task)) is not None:
            _record_answer(
                lookup, error=Undelivered("NO_DELEGATE", task.reason or "No delegate accepted the task.")
            )


def _build_payload(
    lookup: LookupRequest, service: str, operation: str, params: Mapping[str, Any]
) -> TaskPayload:
    if service == VAULT_SERVICE:
        return _build_vault_payload(lookup)
    if service == SITE_SERVICE:
        return build_site_payload(lookup.connector, operation, params)
    return build_aws_payload(lookup.connector, lookup.region, service, operation, params)


def _build_vault_payload(lookup: LookupRequest) -> TaskPayload:
    try:
        check_login(lookup.connector, ReplayedCalls(lookup.answers))
    except NextCall as call:
        return build_vault_payload(call)
    except SecretUnreadable as problem:
        raise ConnectorUnavailable(str(problem)) from problem
    raise ConnectorUnavailable("The test has all of its answers.")


def _record_success(lookup: LookupRequest, task: DelegateTask, answer: TaskAnswer) -> None:
    operation, result = str(json.loads(task.payload)["operation"]), answer.result or {}
    if operation not in OPERATIONS:
        _record_answer(lookup, result=trim_result(operation, result))
    elif problem := build_terraform_error(answer, is_write=False):
        _record_answer(lookup, error=problem)
    else:
        _record_answer(lookup, result=redact_result(lookup.connector, operation, result))


def _get_open_request(task: DelegateTask) -> LookupRequest | None:
    rows = LookupRequest.objects.select_related("connector__scope", "connector__secret", "requested_by")
    return rows.filter(pk=task.owner_ref, task=task, finished_at=None).first()


def build_task_error(answer: TaskAnswer) -> AwsError:
    """Return the error for an unsuccessful answer."""
    record = {key: str(value) for key, value in (answer.error or {}).items()}
    is_record = record.get("kind") not in (None, "TaskError")
    message = record.get("message", "The delegate gave no reason.")
    return (
        parse_error_record(record) if is_record else Undelivered(record.get("code", answer.status), message)
    )


def _record_answer(
    lookup: LookupRequest, *, result: Mapping[str, Any] | None = None, error: AwsError | None = None
) -> None:
    lookup.answers = append_answer(lookup.answers, result=result, error=error)
    lookup.save(update_fields=["answers", "answered_by"])
    resume_lookup(lookup)
