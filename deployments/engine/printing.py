"""What delegates print for calls, brought into the execution's log as it arrives."""

import json
from datetime import UTC, datetime

from delegates.models import TaskLogChunk
from deployments.log import NewLine
from deployments.log.lines import Origin
from deployments.models import ActionRun, Call, StepExecution

# Chunks of one look; more of them come in the next one.
MOST_CHUNKS = 200


def printed(
    call: Call, row: ActionRun, cursors: dict[str, list[int]], told_in: StepExecution, now: datetime
) -> list[NewLine]:
    """The lines that came since the last look; `cursors` says how far they go."""
    key = f"task {call.task_id}"
    seen = cursors.get(key, [0])[0]
    chunks = TaskLogChunk.objects.filter(task=call.task_id, sequence__gte=seen).order_by("sequence")
    found = list(chunks[:MOST_CHUNKS])
    if not found:
        return []
    cursors[key] = [found[-1].sequence + found[-1].count]
    since = call.sent_at or now
    return [
        NewLine(
            at=_moment(line["t"], since, now),
            step_id=told_in.pk,
            step=told_in.identifier,
            unit=row.unit,
            level=_LEVELS.get(line["level"], "info"),
            text=line["text"],
            origin=Origin.CONTAINER,
        )
        for chunk in found
        for line in json.loads(chunk.lines)
    ]


def _moment(milliseconds: int, since: datetime, now: datetime) -> datetime:
    """When a delegate says that it was, if that can be."""
    if since.timestamp() <= milliseconds / 1000 <= now.timestamp():
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    return now


_LEVELS = {"WARN": "warning", "ERROR": "error"}
