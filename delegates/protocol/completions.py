"""Completion of delegate tasks: one result per task, from the holder of its newest fence."""

import json
import logging
import re
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from delegates.access.site_calls import record_answered_host_key
from delegates.live import publish_delegates_changed, publish_task_changed
from delegates.models import DelegateInstance, DelegateTask, LateAnswer, TaskAttempt
from delegates.protocol.leases import build_requeue_values
from delegates.protocol.logs import append_missing_lines_note, get_task_attempt, parse_task_path
from delegates.protocol.problems import StaleFence
from delegates.protocol.requests import AgentReply, AgentRequest, RequestFields, replace_unstorable
from delegates.protocol.result_schemas import validate_answer
from delegates.protocol.sessions import get_session_instance
from delegates.queries.shortlists import has_other_delegate
from delegates.state_log import log_task_status
from delegates.task_owners import TaskAnswer, get_task_owner, has_secret_result
from delegates.task_queue import allow_delegate, block_delegate, fill_after_commit, route_after_commit
from guards.masks import HidingMask
from web.clock import get_database_time

STATUSES = {
    "SUCCEEDED": DelegateTask.Status.SUCCEEDED,
    "FAILED": DelegateTask.Status.FAILED,
    "NOT_SENT": DelegateTask.Status.FAILED,
    "ABORTED": DelegateTask.Status.ABORTED,
}
NOT_SENT_REASON = "It was not sent: more than 5 seconds passed after the delegate accepted it."
MAX_REASON_LENGTH = 2000
logger = logging.getLogger(__name__)


def complete_task_request(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/tasks/<id>/complete: 200 once and for every repeat, 409 for a stale fence."""
    instance, fields = get_session_instance(request.bearer), request.fields()
    answer, fence = parse_answer(fields), fields.get_integer("fence", 1, 2**31 - 1)
    next_sequence = fields.get_integer("next_sequence", 0, 2**62, default=0)
    if complete_task(
        instance, parse_task_path(request.task_id), fence=fence, answer=answer, next_sequence=next_sequence
    ):
        return AgentReply({})
    raise StaleFence("This task is no longer assigned to you. Your result is recorded and ignored.")


def parse_answer(fields: RequestFields) -> TaskAnswer:
    """Return the answer in the body, with unvalidated result and error.

    Raises `BadInput` with the field's name.
    """
    return TaskAnswer(
        status=fields.get_choice("status", tuple(STATUSES)),
        result=replace_unstorable(fields.body.get("result")),
        error=replace_unstorable(fields.body.get("error")),
        duration_ms=fields.get_integer("duration_ms", 0, 2**31 - 1, default=0),
    )


def complete_task(
    instance: DelegateInstance, task_id: UUID, *, fence: int, answer: TaskAnswer, next_sequence: int = 0
) -> bool:
    """Apply an answer; return False for an old fence, when the answer is only evidence.

    `next_sequence` is the number of log lines of the task; missing ones are no longer accepted. Raises
    `NoSuchTask` if the instance never had the task under this fence.
    """
    with transaction.atomic():
        attempt = get_task_attempt(instance, task_id, fence)
        answer = _redact_error(attempt.task, validate_answer(attempt, answer))
        now = get_database_time()
        if _pass_on(attempt, instance, answer, now):
            return True
        if _claim(attempt, instance, answer, now):
            task = DelegateTask.objects.select_related("connector", "scope").get(pk=task_id)
            log_task_status(task, previous=DelegateTask.Status.STARTED)
            append_missing_lines_note(task, next_sequence, now)
            TaskAttempt.objects.filter(pk=attempt.pk).update(answered_at=now)
            _notify_owner(task, instance, answer)
            fill_after_commit(instance.delegate_id)
            return True
        # Checked again, because an answer may have been stored since the attempt was read.
        attempt.refresh_from_db(fields=["answered_at"])
        if attempt.answered_at is not None:
            return True
        _store_late_answer(attempt, instance, answer, now)
    return False


def _pass_on(attempt: TaskAttempt, instance: DelegateInstance, answer: TaskAnswer, now: datetime) -> bool:
    """Queue a task for another delegate if this one could not begin it; return False if it stays as it is."""
    if not _is_refusal(attempt.task, answer):
        return False
    task = DelegateTask.objects.select_related("connector", "scope").get(pk=attempt.task_id)
    is_over = task.abort_requested or task.deadline <= now
    if is_over or not has_other_delegate(task, instance.delegate_id, now):
        return False
    reason = _get_reason(answer)
    refusal = f"{task.instance_name} could not begin it: {reason.rstrip('.') or 'it gave no reason'}."
    # Nobody could take a task that is aborted meanwhile.
    held = _filter_held(attempt, instance).filter(abort_requested=False)
    if not held.update(**build_requeue_values(refusal)):
        return False
    TaskAttempt.objects.filter(pk=attempt.pk).update(answered_at=now, refusal=reason or refusal)
    task.refresh_from_db()
    log_task_status(task, previous=DelegateTask.Status.STARTED)
    publish_task_changed(task.pk)
    _record_reachability(task, instance, answer)
    if (owner := get_task_owner(task)) is not None:
        owner.requeue(task, refusal)
    publish_delegates_changed(instance.delegate_id)
    route_after_commit(task.pk)
    return True


def _is_refusal(task: DelegateTask, answer: TaskAnswer) -> bool:
    """Return whether the delegate lacks what the task needs, so that nothing has begun.

    A write to AWS rests on reads that the engine repeats before it sends it again.
    """
    is_aws_write = task.is_write and task.kind == DelegateTask.Kind.AWS
    lacks = answer.status == "FAILED" and (answer.error or {}).get("capability") is True
    return lacks and not answer.is_bad and not is_aws_write


def _redact_error(task: DelegateTask, answer: TaskAnswer) -> TaskAnswer:
    """Return the answer with secrets redacted in its error; its result is stored encrypted."""
    owner = get_task_owner(task) if answer.error else None
    if owner is None:
        return answer
    mask, error = owner.get_mask(task), dict(answer.error or {})
    if not isinstance(mask, HidingMask):
        return replace(answer, error=mask.mask_json(error))
    # The words of the protocol decide what happens next; only a text could have a secret in it.
    kept = {name: word for name in _PROTOCOL_WORDS if _is_protocol_word(word := error.get(name))}
    return replace(answer, error={**kept, "message": mask.mask_text("message")})


_PROTOCOL_WORDS: Final = ("kind", "code", "capability")


def _is_protocol_word(value: Any) -> bool:
    return value is True or isinstance(value, str) and bool(re.fullmatch(r"[A-Za-z_.]{1,64}", value))


def _claim(attempt: TaskAttempt, instance: DelegateInstance, answer: TaskAnswer, now: datetime) -> bool:
    return bool(
        _filter_held(attempt, instance).update(
            status=STATUSES[answer.status],
            finished_at=now,
            lease_until=None,
            result=""
            if answer.result is None or has_secret_result(attempt.task)
            else json.dumps(answer.result),
            error=answer.error,
            reason=_get_reason(answer),
        )
    )


def _filter_held(attempt: TaskAttempt, instance: DelegateInstance) -> QuerySet[DelegateTask]:
    """Return the task if the instance still holds it under the fence of this attempt."""
    return DelegateTask.objects.filter(
        pk=attempt.task_id, status=DelegateTask.Status.STARTED, fence=attempt.fence, instance=instance
    )


def _notify_owner(task: DelegateTask, instance: DelegateInstance, answer: TaskAnswer) -> None:
    publish_task_changed(task.pk)
    _record_reachability(task, instance, answer)
    record_answered_host_key(task.connector, task.criterion, answer)
    if (owner := get_task_owner(task)) is not None:
        owner.complete(task, answer)
    publish_delegates_changed(instance.delegate_id)


def _record_reachability(task: DelegateTask, instance: DelegateInstance, answer: TaskAnswer) -> None:
    """Record reachability; only a missing capability blocks, because any answer of AWS proves access."""
    if answer.status in ("NOT_SENT", "ABORTED") or answer.is_bad:
        return
    # Nothing about the target: all users of the pool may be busy for a moment.
    if (answer.error or {}).get("code") == "NotIsolated":
        return
    if (answer.error or {}).get("capability") is True:
        block_delegate(instance.delegate, task.criterion, _get_reason(answer))
    else:
        # A shell is no address that only some delegates reach: scripts go to the least busy one.
        reached = "" if task.kind == DelegateTask.Kind.SHELL else task.criterion
        allow_delegate(instance.delegate, reached, task.connector)


def _store_late_answer(
    attempt: TaskAttempt, instance: DelegateInstance, answer: TaskAnswer, now: datetime
) -> None:
    result = None if has_secret_result(attempt.task) else answer.result
    body: dict[str, Any] = {"status": answer.status, "result": result, "error": answer.error}
    LateAnswer.objects.get_or_create(
        task_id=attempt.task_id,
        fence=attempt.fence,
        instance=instance,
        defaults={"at": now, "body": json.dumps(body)},
    )
    logger.warning(
        "%s answered %s with the outdated fencing token %s", instance, attempt.task_id, attempt.fence
    )


def _get_reason(answer: TaskAnswer) -> str:
    if answer.status == "NOT_SENT":
        return NOT_SENT_REASON
    message = (answer.error or {}).get("message") or ""
    return message[:MAX_REASON_LENGTH] if isinstance(message, str) else ""
