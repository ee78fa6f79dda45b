"""Log lines of delegate tasks and of agents: numbered, each stored once."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from delegates.live import LOG_SOURCE_NAME, publish_task_changed
from delegates.models import DelegateInstance, DelegateLogChunk, DelegateTask, TaskAttempt, TaskLogChunk
from delegates.models.tasks import MAX_LINE_TIME
from delegates.protocol.problems import LogGap, LogThrottled, NoSuchTask, StaleFence, TaskAnswered
from delegates.protocol.requests import (
    AgentReply,
    AgentRequest,
    RequestFields,
    build_field_error,
    replace_unstorable,
)
from delegates.protocol.sessions import get_session_instance
from delegates.task_owners import get_task_owner
from guards.limits import (
    AGENT_BYTES,
    AGENT_LINES,
    AGENT_LOG_REQUESTS,
    MAX_INTEGER,
    TASK_LOG_BURST,
    TASK_LOG_RATE,
)
from guards.masks import HidingMask, SecretMask
from rbac.usage_counts import is_within_limit
from web.clock import get_database_time
from web.live import publish_change_on_commit

FIRST_SEQUENCE = 1


def get_next_sequence(instance_id: int) -> int:
    """Return the number of the line that is expected next."""
    last = DelegateLogChunk.objects.filter(instance_id=instance_id).order_by("-sequence").first()
    return FIRST_SEQUENCE if last is None else last.sequence + last.count


def agent_log_request(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/logs: store lines of delegate.log; repeated lines are ignored, a gap is reported.

    Raises `LogGap`, and `LogThrottled` for too many uploads with lines; an agent repeats them later.
    """
    instance, fields = get_session_instance(request.bearer), request.fields()
    sequence, lines = fields.get_integer("sequence", FIRST_SEQUENCE, 2**62), fields.body.get("lines")
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise build_field_error("lines", "must be a list of texts")
    if len(lines) > AGENT_LINES:
        raise build_field_error("lines", f"may hold {AGENT_LINES}")
    if lines and not is_within_limit("delegate-log", str(instance.pk), at_most=AGENT_LOG_REQUESTS):
        raise LogThrottled(
            f"The log of a delegate takes {AGENT_LOG_REQUESTS} a minute. Send these lines later."
        )
    return AgentReply({"next": _append_agent_lines(instance, sequence, lines)})


@transaction.atomic
def _append_agent_lines(instance: DelegateInstance, sequence: int, lines: list[str]) -> int:
    # One writer at a time for each instance: its row is the lock.
    DelegateInstance.objects.select_for_update(of=("self",)).get(pk=instance.pk)
    expected = get_next_sequence(instance.pk)
    if sequence > expected:
        raise LogGap(f"Lines from {expected} on are missing. Send them first.", expected=expected)
    fresh = lines[expected - sequence :]
    if fresh:
        text = "\n".join(replace_unstorable(line).replace("\n", " ") for line in fresh)
        DelegateLogChunk.objects.create(instance=instance, sequence=expected, count=len(fresh), text=text)
        publish_change_on_commit(LOG_SOURCE_NAME, instance.delegate_id)
    return expected + len(fresh)


def parse_task_path(text: str) -> UUID:
    """Return the task of an address. Raises `NoSuchTask`."""
    try:
        return UUID(text)
    except ValueError as problem:
        raise NoSuchTask("There is no such task.") from problem


def get_task_attempt(instance: DelegateInstance, task_id: UUID, fence: int) -> TaskAttempt:
    """Return the attempt of an instance under a fencing token. Raises `NoSuchTask` if there is none."""
    attempts = TaskAttempt.objects.filter(task=task_id, fence=fence, instance=instance)
    attempt = attempts.select_related("task", "instance__delegate").first()
    if attempt is None:
        raise NoSuchTask("There is no such task.")
    return attempt


LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
# Agents respect the burst; a message in flight may exceed it.
MAX_ALLOWANCE_BYTES = int(TASK_LOG_BURST + AGENT_BYTES)
LATE_LOG_WINDOW = timedelta(minutes=10)
THROTTLED_MESSAGE = (
    f"The delegate sends more than {TASK_LOG_RATE} of this log a second: "
    "from here on it is taken at that pace, and the lines come later."
)


def task_log_request(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/tasks/<id>/logs: store lines from a number on; report a gap, ignore repeats."""
    instance, fields = get_session_instance(request.bearer), request.fields()
    fence, sequence = fields.get_integer("fence", 1, 2**31 - 1), fields.get_integer("sequence", 0, 2**62)
    lines = [
        _parse_line(entry, index) for index, entry in enumerate(fields.list_objects("lines", AGENT_LINES))
    ]
    attempt = get_task_attempt(instance, parse_task_path(request.task_id), fence)
    return AgentReply({"next": append_task_lines(instance, attempt.task_id, fence, sequence, lines)})


def _parse_line(line: dict[str, Any], index: int) -> dict[str, Any]:
    text, level = line.get("text"), str(line.get("level") or "INFO").upper()
    if not isinstance(text, str):
        raise build_field_error(f"lines.{index}.text", "must be a text")
    moment = RequestFields(line).get_integer("t", 0, MAX_INTEGER, default=0)
    if moment > MAX_LINE_TIME:
        # The clock of the delegate is wrong; its lines are still evidence.
        moment = _convert_to_milliseconds(get_database_time())
    return {"t": moment, "level": level if level in LEVELS else "INFO", "text": replace_unstorable(text)}


@transaction.atomic
def append_task_lines(
    instance: DelegateInstance, task_id: Any, fence: int, sequence: int, lines: list[dict[str, Any]]
) -> int:
    """Store lines of a task, and return the next expected number.

    Raises `StaleFence`, `TaskAnswered`, `LogGap`, and `LogThrottled` above the rate limit.
    """
    # The row is the lock: two uploads of one task follow each other.
    task = DelegateTask.objects.select_for_update(of=("self",)).get(pk=task_id)
    now = get_database_time()
    _check_open(task, instance, fence, now)
    expected = task.next_sequence
    if sequence > expected:
        raise LogGap(f"Lines from {expected} on are missing. Send them first.", expected=expected)
    fresh = lines[expected - sequence :]
    if not fresh:
        return expected
    allowance = compute_allowance(task, now)
    if allowance <= 0:
        raise LogThrottled(f"The log of a task takes {TASK_LOG_RATE} a second. Send these lines later.")
    owner = get_task_owner(task)
    if owner is not None:
        mask = owner.get_mask(task)
        if isinstance(mask, HidingMask):
            owner.keep_hidden_lines(task, fresh)
        fresh = _redact_lines(fresh, mask)
    allowance -= len(json.dumps(fresh, ensure_ascii=False).encode())
    if allowance <= 0 and not task.log_throttled:
        fresh.append(_build_manager_line(now, THROTTLED_MESSAGE))
    _store(task, fresh)
    DelegateTask.objects.filter(pk=task_id).update(
        next_sequence=expected + len(fresh),
        log_bytes_left=allowance,
        log_counted_at=now,
        log_throttled=task.log_throttled or allowance <= 0,
    )
    if owner is not None:
        owner.publish_log(task)
    return expected + len(fresh)


def compute_allowance(task: DelegateTask, now: datetime) -> int:
    """Return the bytes that the log of a task currently accepts; one upload may exceed the limit."""
    if task.log_bytes_left is None or task.log_counted_at is None:
        return MAX_ALLOWANCE_BYTES
    seconds = max(0.0, (now - task.log_counted_at).total_seconds())
    return min(MAX_ALLOWANCE_BYTES, task.log_bytes_left + int(seconds * TASK_LOG_RATE))


def append_missing_lines_note(task: DelegateTask, next_sequence: int, now: datetime) -> None:
    """Log the number of lines that did not arrive before the task's answer."""
    if (missing := next_sequence - task.next_sequence) > 0:
        text = f"{missing:,} lines are missing: they did not arrive before the result of the task."
        _store(task, [_build_manager_line(now, text)])
        DelegateTask.objects.filter(pk=task.pk).update(next_sequence=task.next_sequence + 1)


def _check_open(task: DelegateTask, instance: DelegateInstance, fence: int, now: datetime) -> None:
    if task.fence != fence or task.instance_id != instance.pk:
        raise StaleFence("This task is no longer assigned to you. Its lines are ignored.")
    if task.is_open:
        return
    is_answered = TaskAttempt.objects.filter(task=task, fence=fence).exclude(answered_at=None).exists()
    # Earlier lines of a lost delegate are evidence, if they arrive soon.
    if is_answered or task.finished_at is None or now - task.finished_at > LATE_LOG_WINDOW:
        raise TaskAnswered("This task is finished. Its log accepts no more lines.")


def _store(task: DelegateTask, lines: list[dict[str, Any]]) -> None:
    text = json.dumps(lines, ensure_ascii=False)
    TaskLogChunk.objects.create(task=task, sequence=task.next_sequence, count=len(lines), lines=text)
    publish_task_changed(task.pk)


def _build_manager_line(now: datetime, text: str) -> dict[str, Any]:
    return {"t": _convert_to_milliseconds(now), "level": "WARN", "text": text}


def _convert_to_milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _redact_lines(lines: list[dict[str, Any]], mask: SecretMask) -> list[dict[str, Any]]:
    """Return the lines with secrets redacted that an old or faulty agent did not redact."""
    texts = [str(line["text"]) for line in lines]
    redacted_texts = mask.mask_lines(texts)
    if len(redacted_texts) != len(lines):
        # One has an end of line in itself.
        redacted_texts = [mask.mask_text(text) for text in texts]
    return [{**line, "text": text} for line, text in zip(lines, redacted_texts, strict=True)]
