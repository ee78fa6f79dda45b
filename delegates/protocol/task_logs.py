"""The log lines of tasks: numbered, each kept once, and only from who holds the task."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from delegates.models import DelegateInstance, DelegateTask, TaskAttempt, TaskLogChunk
from delegates.owners import owner_of
from delegates.protocol.attempts import attempt_of, pk_of
from delegates.protocol.fields import Fields, bad, storable
from delegates.protocol.problems import LogGap, LogThrottled, StaleFence, TaskAnswered
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import instance_of
from delegates.task_news import task_changed
from guards.limits import AGENT_BYTES, AGENT_LINES, INTEGER, TASK_LOG_BURST, TASK_LOG_RATE
from guards.masks import Mask
from web.clock import database_now

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
# Agents keep to the burst by themselves; a message under way is theirs beside that.
MOST_LEFT = int(TASK_LOG_BURST + AGENT_BYTES)
EVIDENCE_TAKEN = timedelta(minutes=10)
THROTTLED = (
    f"The delegate sends more than {TASK_LOG_RATE} of this log a second: "
    "from here on it is taken at that pace, and the lines come later."
)


def logged(request: AgentRequest) -> Reply:
    """POST /agent/v1/tasks/<id>/logs: lines from a number on; repeats are fine, a gap is told."""
    instance, fields = instance_of(request.bearer), request.fields()
    fence, sequence = fields.whole("fence", 1, 2**31 - 1), fields.whole("sequence", 0, 2**62)
    lines = [_line(one, index) for index, one in enumerate(fields.objects("lines", AGENT_LINES))]
    attempt = attempt_of(instance, pk_of(request.task_id), fence)
    return Reply({"next": keep(instance, attempt.task_id, fence, sequence, lines)})


def _line(line: dict[str, Any], index: int) -> dict[str, Any]:
    text, level = line.get("text"), str(line.get("level") or "INFO").upper()
    if not isinstance(text, str):
        raise bad(f"lines.{index}.text", "must be a text")
    moment = Fields(line).whole("t", 0, INTEGER, default=0)
    return {"t": moment, "level": level if level in LEVELS else "INFO", "text": storable(text)}


@transaction.atomic
def keep(
    instance: DelegateInstance, task_id: Any, fence: int, sequence: int, lines: list[dict[str, Any]]
) -> int:
    """Keep lines of a task, and say which number comes next.

    Raises `StaleFence`, `TaskAnswered`, `LogGap`, and `LogThrottled` where more came than a log takes.
    """
    # The row is the lock: two uploads of one task follow each other.
    task = DelegateTask.objects.select_for_update(of=("self",)).get(pk=task_id)
    now = database_now()
    _check_open(task, instance, fence, now)
    expected = task.next_sequence
    if sequence > expected:
        raise LogGap(f"Lines from {expected} on are missing. Send them first.", expected=expected)
    fresh = lines[expected - sequence :]
    if not fresh:
        return expected
    left = allowance_of(task, now)
    if left <= 0:
        raise LogThrottled(f"The log of a task takes {TASK_LOG_RATE} a second. Send these lines later.")
    owner = owner_of(task)
    if owner is not None:
        fresh = _hidden(fresh, owner.secrets(task))
    left -= len(json.dumps(fresh, ensure_ascii=False).encode())
    if left <= 0 and not task.log_throttled:
        fresh.append(_own_line(now, THROTTLED))
    _store(task, fresh)
    DelegateTask.objects.filter(pk=task_id).update(
        next_sequence=expected + len(fresh),
        log_bytes_left=left,
        log_counted_at=now,
        log_throttled=task.log_throttled or left <= 0,
    )
    if owner is not None:
        owner.logged(task)
    return expected + len(fresh)


def allowance_of(task: DelegateTask, now: datetime) -> int:
    """How many bytes the log of a task takes now: the lines under way may exceed it once."""
    if task.log_bytes_left is None or task.log_counted_at is None:
        return MOST_LEFT
    seconds = max(0.0, (now - task.log_counted_at).total_seconds())
    return min(MOST_LEFT, task.log_bytes_left + int(seconds * TASK_LOG_RATE))


def note_missing(task: DelegateTask, written: int, now: datetime) -> None:
    """Say in the log of a task how many of the lines that it wrote did not arrive before its answer."""
    if (missing := written - task.next_sequence) > 0:
        text = f"{missing:,} lines are missing here: they did not arrive before the task's answer."
        _store(task, [_own_line(now, text)])
        DelegateTask.objects.filter(pk=task.pk).update(next_sequence=task.next_sequence + 1)


def _check_open(task: DelegateTask, instance: DelegateInstance, fence: int, now: datetime) -> None:
    if task.fence != fence or task.instance_id != instance.pk:
        raise StaleFence("This task is no longer yours. Its lines are not wanted any more.")
    if task.is_open:
        return
    is_answered = TaskAttempt.objects.filter(task=task, fence=fence).exclude(answered_at=None).exists()
    # What a lost delegate wrote before is evidence, if it comes soon.
    if is_answered or task.finished_at is None or now - task.finished_at > EVIDENCE_TAKEN:
        raise TaskAnswered("This task is over. Its log takes no more lines.")


def _store(task: DelegateTask, lines: list[dict[str, Any]]) -> None:
    text = json.dumps(lines, ensure_ascii=False)
    TaskLogChunk.objects.create(task=task, sequence=task.next_sequence, count=len(lines), lines=text)
    task_changed(task.pk)


def _own_line(now: datetime, text: str) -> dict[str, Any]:
    return {"t": int(now.timestamp() * 1000), "level": "WARN", "text": text}


def _hidden(lines: list[dict[str, Any]], secrets: Sequence[str]) -> list[dict[str, Any]]:
    """The lines without what an agent of an older version, or a wrong one, has left in them."""
    mask, texts = Mask(secrets), [str(line["text"]) for line in lines]
    shown = mask.texts(texts)
    if len(shown) != len(lines):
        # One has an end of line in itself.
        shown = [mask.text(text) for text in texts]
    return [{**line, "text": text} for line, text in zip(lines, shown, strict=True)]
