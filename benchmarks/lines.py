"""Costs of storing and reading an execution's log by the number of lines in a commit."""

from collections.abc import Iterator
from functools import partial

from django.db import transaction
from django.utils import timezone

from benchmarks.clock import row, seconds
from deployments import log
from deployments.log import NewLogLine
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import Scope, User

LINES = 1000
TEXT = "2026-01-01T00:00:00.000Z [nginx] 203.0.113.7 GET /index.html 200 612 " + "x" * 70


def _execution() -> Execution:
    scope = Scope.objects.account()
    pipeline = Pipeline.objects.create(scope=scope, identifier="bench_log", name="Bench", yaml="")
    return Execution.objects.create(
        pipeline=pipeline,
        scope=scope,
        number=1,
        started_by=User.objects.create_user("writer"),
        # Workers of later measurements leave it alone.
        status="SUCCESS",
    )


def _store(execution: Execution, batch: int) -> None:
    line = NewLogLine(at=timezone.now(), step_id=None, step="deploy", unit="Deploy", level="info", text=TEXT)
    for _ in range(LINES // batch):
        with transaction.atomic():
            log.store_lines(execution.pk, [line] * batch)


def report() -> Iterator[str]:
    """Store thousands of lines in commits of several sizes, then read them."""
    execution = _execution()
    whole = seconds(lambda: _store(execution, LINES), times=5)
    yield f"{LINES} lines of {len(TEXT)} characters"
    yield row("stored in 1 commit", whole, whole)
    for batch in (100, 10, 1):
        yield row(f"stored in {LINES // batch} commits", seconds(partial(_store, execution, batch), 3), whole)
    yield row("the last page read", seconds(lambda: log.read_lines(execution.pk, after=LINES)), whole)
    log.compact_chunks(execution.pk)
    yield row("the last page read, packed", seconds(lambda: log.read_lines(execution.pk, after=LINES)), whole)
