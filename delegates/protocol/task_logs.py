"""The log lines of tasks: numbered, each kept once, and only from who holds the task."""

import json
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from delegates.models import DelegateInstance, DelegateTask, TaskLogChunk
from delegates.owners import owner_of
from delegates.protocol.completing import attempt_of, pk_of
from delegates.protocol.fields import Fields, bad, storable
from delegates.protocol.problems import LogGap, StaleFence
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import instance_of
from delegates.task_news import task_changed
from guards.limits import AGENT_LINES, INTEGER
from guards.masks import Mask

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")


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
    # The row is the lock: two uploads of one task follow each other.
    task = DelegateTask.objects.select_for_update(of=("self",)).get(pk=task_id)
    if task.fence != fence or task.instance_id != instance.pk:
        raise StaleFence("This task is no longer yours. Its lines are not wanted any more.")
    expected = task.next_sequence
    if sequence > expected:
        raise LogGap(f"Lines from {expected} on are missing. Send them first.", expected=expected)
    fresh = lines[expected - sequence :]
    if fresh:
        owner = owner_of(task)
        if owner is not None:
            fresh = _hidden(fresh, owner.secrets(task))
        TaskLogChunk.objects.create(
            task=task, sequence=expected, count=len(fresh), lines=json.dumps(fresh, ensure_ascii=False)
        )
        DelegateTask.objects.filter(pk=task_id).update(next_sequence=expected + len(fresh))
        task_changed(task_id)
        if owner is not None:
            owner.logged(task)
    return expected + len(fresh)


def _hidden(lines: list[dict[str, Any]], secrets: Sequence[str]) -> list[dict[str, Any]]:
    """The lines without what an agent of an older version, or a wrong one, has left in them."""
    mask, texts = Mask(secrets), [str(line["text"]) for line in lines]
    shown = mask.texts(texts)
    if len(shown) != len(lines):
        # One has an end of line in itself.
        shown = [mask.text(text) for text in texts]
    return [{**line, "text": text} for line, text in zip(lines, shown, strict=True)]
