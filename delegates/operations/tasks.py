"""Operations on delegate tasks: submit, stop, abort, connectivity checks, AWS reads."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.db.models import F

from connectors.models import Connector
from delegates.access.aws_access import DelegateAwsAccess, list_required_features
from delegates.live import publish_task_changed
from delegates.models import Delegate, DelegateTask
from delegates.protocol.notices import notify_abort
from delegates.queries.routing_candidates import build_own_tag
from delegates.state_log import log_task_status
from delegates.task_owners import get_task_owner
from delegates.task_queue import (
    close_queued_task,
    end_queued_task,
    route_after_commit,
)
from guards.address_policy import PRIVATE_ALLOWED
from guards.limits import CHECKED_URL_CHARACTERS
from guards.masks import EMPTY_MASK, SecretMask
from guards.tracing import capture_trace_context
from guards.urls import describe_url_problem
from rbac.audit import record_audit_entry
from rbac.models import Scope
from rbac.policy import Principal, require
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

# Default time that a task waits for a delegate.
TASK_TIMEOUT = timedelta(minutes=10)


class TaskOptions(TypedDict, total=False):
    """Optional fields of a task; each has the model's default."""

    owner: str
    owner_ref: str
    is_write: bool
    repeatable: bool
    selectors: Sequence[str]
    selectors_from: str
    criterion: str
    aws_account: str
    environment: str
    connector: Connector | None
    timeout_seconds: int
    deadline: datetime
    features: Sequence[str]
    excluded_delegate_id: int | None


def submit_task(
    *, scope: Scope, kind: str, title: str, payload: Mapping[str, Any], **facts: Unpack[TaskOptions]
) -> DelegateTask:
    """Queue a task; the commit routes and offers it.

    `payload` is JSON without the connector's credentials. `criterion` is a URL that the task must reach.
    `environment` is a path such as "account/acme/shop/production". A task whose selectors no delegate has
    fails right after the commit; its owner is notified as usual.
    """
    now = get_database_time()
    selectors = sorted({selector.strip() for selector in facts.pop("selectors", ())} - {""})
    task = DelegateTask.objects.create(
        scope=scope,
        kind=kind,
        title=title[:255],
        payload=json.dumps(payload),
        selectors=selectors,
        features=[*list_required_features(facts.get("connector")), *facts.pop("features", ())],
        queued_at=now,
        trace_context=capture_trace_context(),
        **{"deadline": now + TASK_TIMEOUT, **facts},
    )
    log_task_status(task)
    route_after_commit(task.pk)
    publish_task_changed(task.pk)
    return task


def withdraw_task(task: DelegateTask, reason: str) -> bool:
    """Withdraw a task that its owner no longer needs; return False if a delegate has it or it has ended.

    The owner requests this and is not notified.
    """
    return close_queued_task(task, DelegateTask.Status.ABORTED, reason, get_database_time())


def stop_task(task: DelegateTask, reason: str) -> None:
    """Withdraw a task, or request an abort from the delegate that runs it."""
    if not withdraw_task(task, reason):
        _request_abort(task)


def abort_task(*, actor: Principal, task: DelegateTask) -> DelegateTask:
    """End a queued task, or request an abort of a running one; an ended task is unchanged."""
    require(actor, "core_delegate_edit", task)
    before = {"status": task.status}
    with transaction.atomic():
        reason = f"Aborted by {actor.get_username()}."
        ended = end_queued_task(task, DelegateTask.Status.ABORTED, reason, get_database_time())
        if ended or _request_abort(task):
            record_audit_entry(actor=actor, action="delegate_task.abort", thing=task, before=before)
    return task


def _request_abort(task: DelegateTask) -> bool:
    running = DelegateTask.objects.filter(
        pk=task.pk, status=DelegateTask.Status.STARTED, abort_requested=False
    )
    is_requested = running.update(abort_requested=True) == 1
    publish_task_changed(task.pk)
    task.refresh_from_db()
    if is_requested and task.instance_id:
        notify_abort(task.instance_id, task.pk)
    return is_requested


RESTORED_REASON = "The database was restored from a backup."


def end_open_tasks(now: datetime) -> int:
    """End all open tasks of a restored database, notify their owners, and return their number.

    Delegates may have run them since the backup, so none is offered again.
    """
    tasks = list(DelegateTask.objects.filter(status__in=DelegateTask.OPEN).defer("payload", "result"))
    for task in tasks:
        if end_queued_task(task, DelegateTask.Status.ABORTED, RESTORED_REASON, now):
            continue
        lost = {"status": DelegateTask.Status.FAILED, "reason": RESTORED_REASON, "finished_at": now}
        DelegateTask.objects.filter(pk=task.pk).update(**lost, lease_until=None, fence=F("fence") + 1)
        task.refresh_from_db()
        if owner := get_task_owner(task):
            owner.record_lost(task)
    return len(tasks)


# A user is waiting: a task that has not started by then is useless.
CHECK_DEADLINE = timedelta(minutes=1)
CHECK_TIMEOUT_SECONDS = 30
DIAGNOSIS_TIMEOUT_SECONDS = 90


def start_connectivity_check(*, actor: Principal, delegate: Delegate, url: str) -> DelegateTask:
    """Start a connectivity check of an address on one delegate, and return its task. Raises `BadInput`.

    The result changes neither the allowlist nor the blocklist, so that users can retry at once.
    """
    require(actor, "core_delegate_edit", delegate)
    url = url.strip()
    if fault := _find_address_fault(url):
        raise BadInput(f"The address {fault}.", errors=[{"path": "url", "message": fault}])
    with transaction.atomic():
        task = submit_task(
            scope=delegate.scope,
            kind=DelegateTask.Kind.CHECK,
            title=f"Can {delegate.name} reach {url}?",
            payload={"url": url},
            selectors=[build_own_tag(delegate.pk)],
            timeout_seconds=CHECK_TIMEOUT_SECONDS,
            deadline=get_database_time() + CHECK_DEADLINE,
        )
        record_audit_entry(actor=actor, action="delegate.check", thing=delegate, after={"url": url})
    return task


def start_diagnosis(*, actor: Principal, delegate: Delegate) -> DelegateTask:
    """Let a delegate examine its own place: network, clock, token and AWS permissions; return the task.

    Raises `Conflict` for the built-in delegate.
    """
    require(actor, "core_delegate_edit", delegate)
    if delegate.is_built_in:
        raise Conflict("The built-in delegate is part of Slipway. Run manage doctor instead.")
    with transaction.atomic():
        task = submit_task(
            scope=delegate.scope,
            kind=DelegateTask.Kind.DOCTOR,
            title=f"Diagnosis of {delegate.name}",
            payload={},
            selectors=[build_own_tag(delegate.pk)],
            features=["doctor"],
            timeout_seconds=DIAGNOSIS_TIMEOUT_SECONDS,
            deadline=get_database_time() + CHECK_DEADLINE,
        )
        audited = {"task": str(task.pk)}
        record_audit_entry(actor=actor, action="delegate.diagnose", thing=delegate, after=audited)
    return task


def _find_address_fault(url: str) -> str:
    if len(url) > CHECKED_URL_CHARACTERS:
        return f"must have at most {CHECKED_URL_CHARACTERS}"
    if not url.isascii() or not url.isprintable():
        return "must contain only ASCII characters"
    # The delegate resolves the name and checks the address itself.
    why = describe_url_problem(url, PRIVATE_ALLOWED)
    return f"cannot be checked: {why}" if why else ""


@dataclass(frozen=True)
class AwsRead:
    """Read-only AWS call; `about` is its purpose in words."""

    service: str
    operation: str
    params: Mapping[str, Any]
    about: str


def queue_read(
    aws_access: DelegateAwsAccess,
    read: AwsRead,
    *,
    owner: str,
    ref: str,
    until: datetime,
    account: str = "",
    delegate_id: int | None = None,
) -> DelegateTask:
    """Queue a call for a delegate with the connector's tags; `owner` receives the answer.

    Credentials of the delegate itself decide which AWS account is read: then only delegates of `account`, if
    known, take the call, or only the one with `delegate_id`.
    """
    selectors, selected_by = aws_access.selectors, "CONNECTOR" if aws_access.selectors else ""
    if aws_access.uses_own_credentials and delegate_id is not None:
        selectors, selected_by = (build_own_tag(delegate_id),), ""
    payload = {"service": read.service, "operation": read.operation, "params": dict(read.params)}
    return submit_task(
        scope=aws_access.connector.scope,
        kind=DelegateTask.Kind.AWS,
        title=f"{read.service}:{read.operation} for {read.about}",
        payload=payload,
        owner=owner,
        owner_ref=ref,
        selectors=selectors,
        selectors_from=selected_by,
        criterion=aws_access.criterion(read.service),
        aws_account=account if aws_access.uses_own_credentials else "",
        connector=aws_access.connector,
        deadline=until,
    )


class ReadOwner:
    """Base class of owners of reads: no log output, and lost tasks are requeued."""

    def requeue(self, task: DelegateTask, refusal: str = "") -> None:
        """Do nothing; the task itself returns to the queue."""

    def get_mask(self, task: DelegateTask) -> SecretMask:
        """Return the empty mask; reads write no log."""
        return EMPTY_MASK

    def keep_hidden_lines(self, task: DelegateTask, lines: Sequence[Mapping[str, Any]]) -> None:
        """Do nothing; reads write no log."""

    def publish_log(self, task: DelegateTask) -> None:
        """Do nothing; reads write no log."""
