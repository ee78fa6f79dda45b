"""Completing: the answer to a task, taken once, and only from who holds it under its newest fence."""

import json
import logging
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from delegates.host_keys import note_host_key
from delegates.models import DelegateInstance, DelegateTask, LateAnswer, TaskAttempt
from delegates.offers import route_after_commit
from delegates.owners import Answer, owner_of
from delegates.protocol.answers import check_answer
from delegates.protocol.attempts import attempt_of, pk_of
from delegates.protocol.fields import Fields, storable
from delegates.protocol.problems import StaleFence
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import instance_of
from delegates.protocol.task_logs import note_missing
from delegates.reachability import note_incapable, note_success
from delegates.task_news import task_changed
from delegates.telling import tell
from guards.masks import Mask
from web.clock import database_now

STATUSES = {
    "SUCCEEDED": DelegateTask.Status.SUCCEEDED,
    "FAILED": DelegateTask.Status.FAILED,
    "NOT_SENT": DelegateTask.Status.FAILED,
    "ABORTED": DelegateTask.Status.ABORTED,
}
NOT_SENT = "It was not sent: more than 5 seconds had passed since the delegate took it."
LONGEST_REASON = 2000
logger = logging.getLogger(__name__)


def completed(request: AgentRequest) -> Reply:
    """POST /agent/v1/tasks/<id>/complete: 200 once and for every repeat, 409 for a stale fence."""
    instance, fields = instance_of(request.bearer), request.fields()
    answer, fence = read_answer(fields), fields.whole("fence", 1, 2**31 - 1)
    written = fields.whole("next_sequence", 0, 2**62, default=0)
    if complete(instance, pk_of(request.task_id), fence=fence, answer=answer, written=written):
        return Reply({})
    raise StaleFence("This task is no longer yours. What you sent is kept, and changes nothing.")


def read_answer(fields: Fields) -> Answer:
    """The answer in the body, its result and error as they came. Raises `BadInput` naming the field."""
    return Answer(
        status=fields.choice("status", tuple(STATUSES)),
        result=storable(fields.body.get("result")),
        error=storable(fields.body.get("error")),
        duration_ms=fields.whole("duration_ms", 0, 2**31 - 1, default=0),
    )


def complete(
    instance: DelegateInstance, task_id: UUID, *, fence: int, answer: Answer, written: int = 0
) -> bool:
    """Take an answer; False where the task is no longer this instance's, and the answer only evidence.

    `written` is how many lines of log the task wrote: those that have not come are not taken any more.
    Raises `NoSuchTask` where the instance never had the task under this fence.
    """
    with transaction.atomic():
        attempt = attempt_of(instance, task_id, fence)
        answer = _hidden(attempt.task, check_answer(attempt, answer))
        now = database_now()
        if _claim(attempt, instance, answer, now):
            task = DelegateTask.objects.select_related("connector", "scope").get(pk=task_id)
            note_missing(task, written, now)
            TaskAttempt.objects.filter(pk=attempt.pk).update(answered_at=now)
            _tell_owner(task, instance, answer)
            route_after_commit()
            return True
        # Asked again, for the answer may have been taken since the attempt was read.
        attempt.refresh_from_db(fields=["answered_at"])
        if attempt.answered_at is not None:
            return True
        _keep_late(attempt, instance, answer, now)
    return False


def _hidden(task: DelegateTask, answer: Answer) -> Answer:
    """The answer with secrets hidden in its error, which people read; its result is kept encrypted."""
    owner = owner_of(task) if answer.error else None
    if owner is None:
        return answer
    return replace(answer, error=Mask(owner.secrets(task)).inside(answer.error))


def _claim(attempt: TaskAttempt, instance: DelegateInstance, answer: Answer, now: datetime) -> bool:
    held = DelegateTask.objects.filter(
        pk=attempt.task_id, status=DelegateTask.Status.STARTED, fence=attempt.fence, instance=instance
    )
    return bool(
        held.update(
            status=STATUSES[answer.status],
            finished_at=now,
            lease_until=None,
            result="" if answer.result is None else json.dumps(answer.result),
            error=answer.error,
            reason=_reason(answer),
        )
    )


def _tell_owner(task: DelegateTask, instance: DelegateInstance, answer: Answer) -> None:
    task_changed(task.pk)
    _learn(task, instance, answer)
    note_host_key(task.connector, task.criterion, answer)
    if (owner := owner_of(task)) is not None:
        owner.complete(task, answer)
    tell(instance.delegate_id)


def _learn(task: DelegateTask, instance: DelegateInstance, answer: Answer) -> None:
    """Only a missing capability blocks: an answer from AWS, even an error, is a delegate that works."""
    if answer.status in ("NOT_SENT", "ABORTED") or answer.is_bad:
        return
    if (answer.error or {}).get("capability") is True:
        note_incapable(instance.delegate, task.criterion, _reason(answer))
    else:
        note_success(instance.delegate, task.criterion, task.connector)


def _keep_late(attempt: TaskAttempt, instance: DelegateInstance, answer: Answer, now: datetime) -> None:
    body: dict[str, Any] = {"status": answer.status, "result": answer.result, "error": answer.error}
    LateAnswer.objects.get_or_create(
        task_id=attempt.task_id,
        fence=attempt.fence,
        instance=instance,
        defaults={"at": now, "body": json.dumps(body)},
    )
    logger.warning("%s answered %s under fence %s, which is over", instance, attempt.task_id, attempt.fence)


def _reason(answer: Answer) -> str:
    if answer.status == "NOT_SENT":
        return NOT_SENT
    said = (answer.error or {}).get("message") or ""
    return said[:LONGEST_REASON] if isinstance(said, str) else ""
