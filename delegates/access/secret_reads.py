"""Reads of secrets in secret managers through delegates: one open read of a secret at a time."""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from aws.errors import NotSent
from connectors.models import Secret
from connectors.secret_managers.aws_reads import get_region
from connectors.secret_managers.base import (
    SecretPending,
    SecretReference,
    SecretUnreadable,
    fetch_reference,
)
from connectors.secret_managers.vault_client import VAULT_SERVICE
from connectors.secret_values import (
    CACHE_SECONDS,
    FAILURE_SECONDS,
    REFRESH_SECONDS,
    RemoteValue,
    record_read,
)
from connectors.specs.sites import parse_connector_spec
from delegates.access.aws_access import (
    ConnectorPending,
    ConnectorUnavailable,
    build_aws_payload,
    get_delegate_access,
    require_lendable_credentials,
)
from delegates.access.lookup_tasks import build_task_error
from delegates.access.replayed_calls import (
    NextCall,
    ReplayedCalls,
    append_answer,
    build_vault_payload,
    get_call_task_kind,
    get_vault_criterion,
)
from delegates.models import DelegateTask, SecretRead
from delegates.operations.tasks import ReadOwner, submit_task
from delegates.task_owners import TaskAnswer, TaskPayload
from web.clock import get_database_time

SECRET_READ_OWNER: Final = "secret-read"  # noqa: S105 - the name of an owner
READ_TIMEOUT: Final = timedelta(seconds=60)
WAIT_SECONDS: Final = 5.0
"""A reconcile pass has 30 seconds in all."""
_POLL_SECONDS: Final = 0.1
_FEATURES: Final = ("secret-managers",)
_Status = DelegateTask.Status


def read_through_delegate(secret: Secret, reader: str, since: datetime | None) -> RemoteValue:
    """Return the value of a reference as a delegate has read it, not before `since`; begin a read if needed.

    Outside of a transaction it waits for some seconds. Raises `SecretPending` until a delegate has answered,
    and `SecretUnreadable` after a refusal.
    """
    deadline = time.monotonic() + (0.0 if connection.in_atomic_block else WAIT_SECONDS)
    while True:
        read = SecretRead.objects.select_related("secret", "task").filter(secret=secret).first()
        value = _get_outcome(read, secret, since) if read is not None else None
        is_stale = value is None or value.age_seconds >= REFRESH_SECONDS
        if read is None or (is_stale and not _is_under_way(read, secret)):
            read = _start(secret, reader)
        if value is not None:
            return value
        if time.monotonic() >= deadline:
            raise SecretPending(_describe_wait(read))
        time.sleep(_POLL_SECONDS)


def _get_outcome(read: SecretRead, secret: Secret, since: datetime | None) -> RemoteValue | None:
    """Return the value of the last read, or None if it does not count. Raises its `SecretUnreadable`."""
    if read.source_at != secret.updated_at:
        return None
    now = get_database_time()
    if read.problem_at is not None and not read.is_unanswered and not read.is_open:
        is_recent = read.problem_at > now - timedelta(seconds=FAILURE_SECONDS)
        if is_recent and (since is None or read.problem_at >= since):
            raise SecretUnreadable(read.problem)
    if read.value_at is None or read.value_at <= now - timedelta(seconds=CACHE_SECONDS):
        return None
    if since is not None and read.value_at < since:
        return None
    return RemoteValue(read.value, (now - read.value_at).total_seconds())


def _is_under_way(read: SecretRead, secret: Secret) -> bool:
    """Return whether the read will end; a task that was deleted or forgotten never answers."""
    is_current = read.is_open and read.source_at == secret.updated_at
    return is_current and read.requested_at > get_database_time() - 2 * READ_TIMEOUT


def _describe_wait(read: SecretRead) -> str:
    reason = read.task.reason if read.is_open and read.task else read.problem
    return (
        f"A delegate reads the secret {read.secret} in its secret manager: "
        f"{reason or 'it has not answered yet'}".rstrip(".")
        + "."
    )


@transaction.atomic
def _start(secret: Secret, reader: str) -> SecretRead:
    """Begin a read, unless another process has just begun one."""
    now = get_database_time()
    begun = {"source_at": secret.updated_at, "requested_at": now, "reader": reader[:255]}
    SecretRead.objects.get_or_create(secret=secret, defaults=begun)
    free = Q(is_open=False) | ~Q(source_at=secret.updated_at) | Q(requested_at__lte=now - 2 * READ_TIMEOUT)
    # The condition is the lock: the process that changes the row begins the read.
    claimed = SecretRead.objects.filter(free, secret=secret).update(**begun, is_open=True, task=None)
    read = _select_reads().get(secret=secret)
    if claimed:
        read.answers = "[]"
        _resume(read)
    return read


def _select_reads() -> QuerySet[SecretRead]:
    return SecretRead.objects.select_related(
        "secret__scope",
        "secret__manager_connector__scope",
        "secret__manager_connector__secret",
        "secret__manager_connector__session_token",
        "task",
    )


def _resume(read: SecretRead) -> None:
    """Repeat the read from its start; the first call without an answer becomes a delegate task."""
    try:
        reference = SecretReference.from_secret(read.secret)
        try:
            _finish(read, fetch_reference(reference, ReplayedCalls(read.answers)))
        except NextCall as call:
            _submit(read, reference, call)
    except (SecretPending, ConnectorPending) as pending:
        _fail(read, str(pending), is_unanswered=True)
    except (SecretUnreadable, ConnectorUnavailable) as problem:
        _fail(read, str(problem))


def _submit(read: SecretRead, reference: SecretReference, call: NextCall) -> None:
    """Queue a task for a call; its parameters are built when a delegate takes it."""
    connector, secret = reference.connector, read.secret
    # Who may view tasks of the connector's scope need not know the secrets of scopes below.
    is_own = secret.scope_id == connector.scope_id
    subject = f"the secret {secret} of {secret.scope}" if is_own else f"a secret of {connector}"
    selectors = parse_connector_spec(connector.kind, connector.spec).delegate_selectors
    is_vault = call.service == VAULT_SERVICE
    read.task = submit_task(
        scope=connector.scope,
        kind=get_call_task_kind(call.service),
        title=f"{call.service}:{call.operation} for {subject}",
        payload={"service": call.service, "operation": call.operation},
        owner=SECRET_READ_OWNER,
        owner_ref=str(read.pk),
        selectors=selectors,
        selectors_from="CONNECTOR" if selectors else "",
        criterion=get_vault_criterion(connector)
        if is_vault
        else get_delegate_access(connector, get_region(reference)).criterion(call.service),
        connector=connector,
        deadline=get_database_time() + READ_TIMEOUT,
        features=() if is_vault else _FEATURES,
    )
    read.save(update_fields=["task", "answers"])


def _finish(read: SecretRead, value: str) -> None:
    read.value, read.value_at = value, get_database_time()
    read.problem, read.problem_at, read.is_unanswered = "", None, False
    _close(read)
    record_read(read.secret, read.reader, "")


def _fail(read: SecretRead, problem: str, *, is_unanswered: bool = False) -> None:
    """Close a read without a value; an earlier value stays until it is too old."""
    read.problem, read.problem_at = problem, get_database_time()
    read.is_unanswered = is_unanswered
    _close(read)
    record_read(read.secret, read.reader, problem)


def _close(read: SecretRead) -> None:
    read.is_open, read.task, read.answers = False, None, "[]"
    read.save()


class SecretReadOwner(ReadOwner):
    """Owner of the tasks that read secrets; a lost or expired one is submitted again by the next reader."""

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """Return the call with the connector's credentials; None if the read is over or impossible."""
        if (read := _get_open_read(task)) is None:
            return None
        reference = SecretReference.from_secret(read.secret)
        try:
            require_lendable_credentials(task, reference.connector)
            fetch_reference(reference, ReplayedCalls(read.answers))
        except NextCall as call:
            return _build_payload(read, reference, call)
        except NotSent:
            # The same call becomes another task.
            _resume(read)
        except SecretPending as pending:
            _fail(read, str(pending), is_unanswered=True)
        except SecretUnreadable as problem:
            _fail(read, str(problem))
        return None

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Store the answer, encrypted until the read ends, and submit the next call."""
        if (read := _get_open_read(task)) is None:
            return
        error = None if answer.status == "SUCCEEDED" else build_task_error(answer)
        read.answers = append_answer(read.answers, result=_trim(task, answer), error=error)
        _resume(read)

    def record_lost(self, task: DelegateTask) -> None:
        """Close the read; it changes nothing, so the next reader repeats it."""
        self._close_unanswered(task, is_final=False)

    def record_unanswered(self, task: DelegateTask) -> None:
        """Close the read; without a suitable delegate the reason is final for a moment."""
        self._close_unanswered(task, is_final=task.status != _Status.EXPIRED)

    def _close_unanswered(self, task: DelegateTask, *, is_final: bool) -> None:
        if (read := _get_open_read(task)) is not None:
            reason = task.reason or "No delegate accepted the task."
            _fail(read, f"The secret {read.secret} was not read: {reason}", is_unanswered=not is_final)


def _build_payload(read: SecretRead, reference: SecretReference, call: NextCall) -> TaskPayload | None:
    if call.service == VAULT_SERVICE:
        return build_vault_payload(call)
    region = get_region(reference)
    try:
        return build_aws_payload(reference.connector, region, call.service, call.operation, call.params)
    except ConnectorUnavailable as closed:
        _fail(read, str(closed), is_unanswered=isinstance(closed, ConnectorPending))
    return None


def _trim(task: DelegateTask, answer: TaskAnswer) -> Mapping[str, Any]:
    """Return the needed part of a result."""
    result = answer.result or {}
    is_http = task.kind == DelegateTask.Kind.HTTP
    return {name: result.get(name) for name in ("status", "body")} if is_http and result else result


def _get_open_read(task: DelegateTask) -> SecretRead | None:
    """Return the read that still waits for this task."""
    read = _select_reads().filter(pk=int(task.owner_ref), task=task.pk, is_open=True).first()
    if read is None or read.source_at != read.secret.updated_at or read.secret.manager_connector is None:
        return None
    return read
