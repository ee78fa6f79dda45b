"""Delegate tasks: putting them into the queue, taking them back, ending them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from django.db import transaction

from connectors.models import Connector
from delegates.models import DelegateTask
from delegates.offers import close_queued, end_queued, route_after_commit, route_waiting
from delegates.protocol.notices import notify_abort
from delegates.reachability import note_incapable, note_success
from delegates.task_news import task_changed
from rbac.audit import record
from rbac.models import Scope
from rbac.policy import Principal, require
from web.clock import database_now

__all__ = [
    "abort_task",
    "note_incapable",
    "note_success",
    "route_waiting",
    "stop_task",
    "submit_task",
    "withdraw_task",
]

# How long a task waits for a delegate where its owner says nothing.
PATIENCE = timedelta(minutes=10)


class TaskFacts(TypedDict, total=False):
    """What else a task may say of itself; each has the model's default."""

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


def submit_task(
    *, scope: Scope, kind: str, title: str, payload: Mapping[str, Any], **facts: Unpack[TaskFacts]
) -> DelegateTask:
    """Queue a task; with the commit it is routed, offered, and the delegate is told.

    `payload` is JSON without secrets of connectors. `criterion` is the URL whose reachability the task needs,
    `environment` a path such as "account/acme/shop/production". A task whose selectors nobody has fails
    right after the commit; its owner hears of it as of every end.
    """
    now = database_now()
    selectors = sorted({one.strip() for one in facts.pop("selectors", ())} - {""})
    task = DelegateTask.objects.create(
        scope=scope,
        kind=kind,
        title=title[:255],
        payload=json.dumps(payload),
        selectors=selectors,
        queued_at=now,
        **{"deadline": now + PATIENCE, **facts},
    )
    route_after_commit(task.pk)
    task_changed(task.pk)
    return task


def withdraw_task(task: DelegateTask, reason: str) -> bool:
    """Take back a task that its owner needs no more; False where a delegate has it or it has ended.

    The owner is not told: it is the one who asks.
    """
    return close_queued(task, DelegateTask.Status.ABORTED, reason, database_now())


def stop_task(task: DelegateTask, reason: str) -> None:
    """Take a task back, or ask whoever runs it to stop, because its owner needs it no more."""
    if not withdraw_task(task, reason):
        _ask_to_stop(task)


def abort_task(*, actor: Principal, task: DelegateTask) -> DelegateTask:
    """End a queued task, or ask the delegate that runs it to stop; nothing happens to one that has ended."""
    require(actor, "core_delegate_edit", task)
    before = {"status": task.status}
    with transaction.atomic():
        reason = f"Aborted by {actor.get_username()}."
        ended = end_queued(task, DelegateTask.Status.ABORTED, reason, database_now())
        if ended or _ask_to_stop(task):
            record(actor=actor, action="delegate_task.abort", thing=task, before=before)
    return task


def _ask_to_stop(task: DelegateTask) -> bool:
    running = DelegateTask.objects.filter(
        pk=task.pk, status=DelegateTask.Status.STARTED, abort_requested=False
    )
    asked = running.update(abort_requested=True) == 1
    task_changed(task.pk)
    task.refresh_from_db()
    if asked and task.instance_id:
        notify_abort(task.instance_id, task.pk)
    return asked
