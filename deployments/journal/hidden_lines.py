"""Hidden log lines, appended to their log once the secrets to redact in them can be read."""

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F

from deployments.journal.secret_values import build_execution_mask
from deployments.log import NewLogLine, parse_hidden_lines, store_lines
from deployments.log.hidden import FIRST_PAUSE
from deployments.models import HiddenLogLines
from guards.limits import HIDDEN_LOG_BYTES
from guards.masks import HidingMask
from rbac.encryption import DecryptionFailed
from steps.actions.non_aws_calls import DELEGATE_SERVICE

ROWS_PER_MESSAGE: Final = 20
MOST_PAUSE: Final = timedelta(hours=1)


def show_hidden_lines(now: datetime) -> int:
    """Append the lines whose secrets can be read by now, and return the number of their rows."""
    due = HiddenLogLines.objects.filter(due_at__lte=now).order_by("due_at", "pk")
    return sum(_show(pk, now) for pk in list(due.values_list("pk", flat=True)[:ROWS_PER_MESSAGE]))


def _show(pk: int, now: datetime) -> bool:
    row = HiddenLogLines.objects.select_related("execution__scope", "call").filter(pk=pk).first()
    if row is None:
        return False
    # The pause is the claim: of two workers, one moves it on.
    pause = min(FIRST_PAUSE * 2 ** min(row.attempts, 10), MOST_PAUSE)
    free = HiddenLogLines.objects.filter(pk=pk, due_at=row.due_at)
    if not free.update(due_at=now + pause, attempts=F("attempts") + 1):
        return False
    call = row.call
    params = call.parsed_parameters if call is not None and call.service == DELEGATE_SERVICE else {}
    # Read before the transaction: a secret manager may take its time.
    mask = build_execution_mask(row.execution, params)
    if isinstance(mask, HidingMask):
        return False
    try:
        lines = parse_hidden_lines(row)
    except DecryptionFailed as problem:
        lines = [NewLogLine(now, None, "", "", "warning", f"Hidden lines cannot be decrypted: {problem}")]
    with transaction.atomic():
        # The lines and the end of their row are one commit: a death leaves both or neither.
        if not HiddenLogLines.objects.filter(pk=pk).delete()[0]:
            return False
        store_lines(row.execution_id, [*_build_notes(row, lines), *lines], mask=mask)
    return True


def _build_notes(row: HiddenLogLines, lines: list[NewLogLine]) -> list[NewLogLine]:
    first = lines[0]
    text = f"The secrets can be read again. These lines, from {first.at:%H:%M:%S} on, were hidden above:"
    notes = [NewLogLine(first.at, first.step_id, first.step, first.unit, "info", text)]
    if row.dropped:
        dropped = f"{row.dropped:,} further lines stay hidden: an execution keeps {HIDDEN_LOG_BYTES}."
        notes.append(NewLogLine(first.at, first.step_id, first.step, first.unit, "warning", dropped))
    return notes
