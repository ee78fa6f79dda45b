"""Lines that a hiding mask hides, kept encrypted until the secrets to redact in them can be read again."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Sum

from deployments.log.lines import LineOrigin, NewLogLine
from deployments.models import AwsCall, HiddenLogLines
from guards.limits import HIDDEN_LOG_BYTES
from guards.masks import HIDDEN_BECAUSE
from web.clock import get_database_time

FIRST_PAUSE: Final = timedelta(seconds=30)


def keep_hidden_lines(execution_id: UUID, new: Sequence[NewLogLine], call: AwsCall | None = None) -> None:
    """Keep lines in the commit that stores why they are hidden; above the limit they are only counted."""
    lines = [
        _to_record(line) for line in new if line.text.strip() and not line.text.startswith(HIDDEN_BECAUSE)
    ]
    if not lines:
        return
    text = json.dumps(lines)
    rows = HiddenLogLines.objects.filter(execution_id=execution_id)
    kept = rows.aggregate(bytes=Sum("size"))["bytes"] or 0
    if kept + len(text) > HIDDEN_LOG_BYTES and (last := rows.order_by("-pk").first()):
        rows.filter(pk=last.pk).update(dropped=F("dropped") + len(lines))
        return
    HiddenLogLines.objects.create(
        execution_id=execution_id,
        call=call,
        lines=text,
        size=len(text),
        due_at=get_database_time() + FIRST_PAUSE,
    )


def parse_hidden_lines(row: HiddenLogLines) -> list[NewLogLine]:
    """Return the lines of a row as they were to be stored."""
    return [_from_record(record) for record in json.loads(row.lines)]


def _to_record(line: NewLogLine) -> dict[str, Any]:
    return {
        "at": line.at.isoformat(),
        "step_id": line.step_id,
        "step": line.step,
        "unit": line.unit,
        "level": line.level,
        "text": line.text,
        "origin": line.resolved_origin.value,
    }


def _from_record(record: dict[str, Any]) -> NewLogLine:
    at, origin = datetime.fromisoformat(record["at"]), LineOrigin(record["origin"])
    return NewLogLine(**{**record, "at": at, "origin": origin})
