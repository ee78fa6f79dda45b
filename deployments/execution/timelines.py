"""Timeline of an execution: what happened when, in rows, from the rows that the engine writes anyway."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar
from urllib.parse import urlencode

from django.db.models import Max, Min, Prefetch, Q

from deployments.execution.timeline_axis import AxisTick, TimeAxis, build_axis
from deployments.journal.callers import CHECK_PHASE
from deployments.log.line_times import LineIndex, LineReference, LineRequest
from deployments.log.lines import LineOrigin, LogLine
from deployments.models import (
    Approval,
    AwsCall,
    AwsEvent,
    Execution,
    Interrupt,
    ServiceLockClaim,
    StageExecution,
    StepExecution,
)
from steps.actions.ecs_service.service_deployments import STAGE_LINE, TRAFFIC_LINE
from steps.actions.waits import ALARM_LINE, ALARM_STATE
from steps.kinds.native import DEPLOY_TYPE, ROLLBACK_TYPE
from steps.kinds.verify import VERIFY_TYPE
from steps.states import TERMINAL_STATUSES, Status
from web.statuses import get_status_badge

# Pixels of the labels of the axis and of a row, as in timeline.css.
HEAD_HEIGHT: Final = 44
ROW_HEIGHT: Final = 28
_NATIVE_TYPES: Final = (DEPLOY_TYPE, ROLLBACK_TYPE)
# Steps of which the log alone has something that the timeline shows.
_LOG_TYPES: Final = (VERIFY_TYPE, *_NATIVE_TYPES)
MOST_STEPS: Final = 200
MOST_EVENTS: Final = 5_000
MOST_ENTRIES: Final = 500
# Marks of one row nearer to each other than this percentage of the width become one.
_MARK_WIDTH: Final = 1.25
_SHORTEST_BAR: Final = 0.4
_SHORTEST_WAIT: Final = timedelta(seconds=2)
_DATED_AFTER: Final = timedelta(hours=6)
_LONGEST_TEXT: Final = 300
# Calls that belong to an attempt of a step; those of an undo do not.
_ATTEMPT_CALLS: Final = Q(phase__startswith="start") | Q(phase=CHECK_PHASE)


@dataclass(frozen=True)
class TimelineBar:
    """Stretch of time with the status that gives its color; without an end it goes on."""

    start: datetime
    end: datetime | None
    status: str
    text: str
    request: LineRequest | None = None
    attempt: int = 1
    line: LineReference | None = None
    x: float = 0.0
    width: float = 0.0

    @property
    def tone(self) -> str:
        return get_status_badge(self.status).tone

    @property
    def count(self) -> int:
        return 1

    @property
    def line_query(self) -> str:
        return _build_line_query(self.line)


@dataclass(frozen=True)
class TimelineMark:
    """Event at a moment, or `count` events up to `until` that are too near to each other to be drawn."""

    start: datetime
    kind: str
    text: str
    request: LineRequest
    count: int = 1
    until: datetime | None = None
    line: LineReference | None = None
    x: float = 0.0

    @property
    def end(self) -> datetime:
        return self.until or self.start

    @property
    def line_query(self) -> str:
        return _build_line_query(self.line)


def _build_line_query(line: LineReference | None) -> str:
    """Return the query of the execution page that opens the log at a line, filtered to its step."""
    if line is None:
        return ""
    step = {"step": line.step} if line.step else {}
    return f"?{urlencode({**step, 'line': line.number})}#L{line.number}"


Item = TypeVar("Item", TimelineBar, TimelineMark)


@dataclass
class TimelineRow:
    """Row of the timeline; `kind` is execution, stage, step or events, `y` the top of its bars."""

    title: str
    kind: str
    status: str = ""
    bars: list[TimelineBar] = field(default_factory=list)
    marks: list[TimelineMark] = field(default_factory=list)
    y: int = 0


@dataclass(frozen=True)
class TimelineEntry:
    """Bar or mark of the table, with the title of its row."""

    row: str
    item: TimelineBar | TimelineMark


@dataclass(frozen=True)
class Timeline:
    """Rows with positions on one axis; numbers of what is left out."""

    axis: TimeAxis
    ticks: list[AxisTick]
    rows: list[TimelineRow]
    entries: list[TimelineEntry]
    unstarted_steps: int
    hidden_steps: int
    hidden_events: int
    hidden_entries: int

    @property
    def time_style(self) -> str:
        """Return the style of times in the table: with the date in a long execution."""
        return "full" if self.axis.end - self.axis.start > _DATED_AFTER else "clock"

    @property
    def height(self) -> int:
        return HEAD_HEIGHT + len(self.rows) * ROW_HEIGHT


# Number, start and end of an attempt.
AttemptSpan = tuple[int, datetime, datetime]


def build_timeline(execution: Execution, now: datetime) -> Timeline:
    """Return the timeline of an execution at a moment; a fixed number of queries."""
    stages = _load_stages(execution)
    index = LineIndex(execution.pk)
    rows, unstarted_steps, hidden_steps = _build_step_rows(execution, stages)
    events, hidden_events = _build_event_row(execution)
    steps = [step for stage in stages for step in stage.steps.all() if step.type in _LOG_TYPES]
    index.load_spans((step.started_at, step.ended_at or now) for step in steps if step.started_at)
    rows += [
        _build_decision_row(execution, stages),
        _build_retry_row(rows),
        events,
        _build_lifecycle_row(steps, index, now),
        _build_alarm_row(steps, index, now),
    ]
    rows = [row for row in rows if row.bars or row.marks]
    axis = build_axis(_list_moments(execution, rows, now))
    _place_rows(rows, axis, now)
    _find_lines(rows, index)
    entries = sorted(_list_entries(rows), key=lambda entry: entry.item.start)
    return Timeline(
        axis,
        axis.list_ticks(),
        rows,
        entries[:MOST_ENTRIES],
        unstarted_steps,
        hidden_steps,
        hidden_events,
        max(0, len(entries) - MOST_ENTRIES),
    )


def _load_stages(execution: Execution) -> list[StageExecution]:
    """Return the stages with steps, approvals and claims; five queries."""
    approvals = (
        Approval.objects.defer("plan").order_by("attempt", "requested_at").prefetch_related("decisions")
    )
    steps = StepExecution.objects.defer("spec", "unresolved_spec", "outputs", "secret_outputs")
    steps = steps.order_by("section", "position").prefetch_related(
        Prefetch("approvals", queryset=approvals), Prefetch("claims", ServiceLockClaim.objects.order_by("pk"))
    )
    stages = StageExecution.objects.filter(execution=execution).defer("sources", "values")
    return list(stages.order_by("position").prefetch_related(Prefetch("steps", queryset=steps)))


def _list_moments(execution: Execution, rows: Iterable[TimelineRow], now: datetime) -> Iterator[datetime]:
    yield execution.created_at
    yield execution.ended_at or max(now, execution.created_at)
    for row in rows:
        for bar in row.bars:
            yield bar.start
            yield bar.end or now
        yield from (mark.start for mark in row.marks)


# --- rows -----------------------------------------------------------------------------------------


def _build_step_rows(
    execution: Execution, stages: Sequence[StageExecution]
) -> tuple[list[TimelineRow], int, int]:
    """Return the rows of the execution, its stages and its started steps.

    Returns also the numbers of steps that have not started, and of those above the limit.
    """
    rows = [_build_execution_row(execution)]
    attempts = _load_earlier_attempts(execution)
    started_count = 0
    for stage in stages:
        steps = [step for step in stage.steps.all() if step.started_at or step.pk in attempts]
        started_count += len(steps)
        rows += _build_stage_row(stage, steps, attempts)
        rows += [_build_step_row(step, attempts[step.pk]) for step in steps]
    step_rows = [row for row in rows if row.kind == "step"]
    # Of very many steps the latest are shown.
    hidden = {id(row) for row in step_rows[:-MOST_STEPS]}
    total = sum(len(stage.steps.all()) for stage in stages)
    return [row for row in rows if id(row) not in hidden], total - started_count, len(hidden)


def _build_execution_row(execution: Execution) -> TimelineRow:
    row = TimelineRow(f"Execution {execution.number}", "execution", execution.status)
    started_at = execution.started_at
    queued_until = started_at or execution.ended_at
    if queued_until is None or queued_until > execution.created_at + _SHORTEST_WAIT:
        row.bars.append(TimelineBar(execution.created_at, queued_until, Status.QUEUED, "Queued"))
    if started_at is not None:
        word = get_status_badge(execution.status).word
        row.bars.append(
            TimelineBar(started_at, execution.ended_at, execution.status, word, LineRequest(started_at))
        )
    return row


def _build_stage_row(
    stage: StageExecution, steps: Sequence[StepExecution], attempts: Mapping[int, Sequence[AttemptSpan]]
) -> Iterator[TimelineRow]:
    starts = [step.started_at for step in steps if step.started_at]
    starts += [start for step in steps for _, start, _ in attempts.get(step.pk, ())]
    if not starts:
        return
    ends = [step.ended_at for step in steps if step.ended_at]
    end = max(ends) if len(ends) == len(steps) and stage.status in TERMINAL_STATUSES else None
    word = get_status_badge(stage.status).word
    bar = TimelineBar(min(starts), end, stage.status, word, LineRequest(min(starts)))
    yield TimelineRow(stage.name, "stage", stage.status, [bar])


def _load_earlier_attempts(execution: Execution) -> defaultdict[int, list[AttemptSpan]]:
    """Return the attempts before the current one by step, as far as they made calls; one query."""
    calls = AwsCall.objects.filter(_ATTEMPT_CALLS, execution=execution, step__attempt__gt=1).order_by()
    spans = calls.values_list("step", "attempt", "step__attempt").annotate(
        start=Min("planned_at"), end=Max("answered_at"), planned=Max("planned_at")
    )
    attempts: defaultdict[int, list[AttemptSpan]] = defaultdict(list)
    for step, attempt, _, start, end, planned in sorted(spans, key=lambda span: span[:2]):
        attempts[step].append((attempt, start, end or planned))
    return attempts


def _build_step_row(step: StepExecution, attempts: Sequence[AttemptSpan]) -> TimelineRow:
    row = TimelineRow(step.name, "step", step.status)
    earlier = [span for span in attempts if span[0] < step.attempt]
    for attempt, start, end in earlier:
        text = f"Attempt {attempt} of {step.attempt}"
        request = LineRequest(start, step.identifier)
        row.bars.append(TimelineBar(start, end, Status.FAILED, text, request, attempt))
    started_at = next((start for attempt, start, _ in attempts if attempt == step.attempt), step.started_at)
    is_open = step.ended_at is None and step.status not in (Status.QUEUED, Status.SKIPPED)
    if started_at is not None and (step.ended_at or (is_open and not step.retry_at)):
        word = get_status_badge(step.status).word
        text = f"Attempt {step.attempt} of {step.attempt}: {word}" if step.attempt > 1 else word
        ended_at = max(step.ended_at, started_at) if step.ended_at else None
        request = LineRequest(started_at, step.identifier)
        row.bars.append(TimelineBar(started_at, ended_at, step.status, text, request, step.attempt))
    row.bars += _build_wait_bars(step)
    return row


def _build_wait_bars(step: StepExecution) -> Iterator[TimelineBar]:
    """Yield the times in which a step waited for its service lock, a person, or its next attempt."""
    for claim in step.claims.all():
        # A claim that an earlier attempt requested waits since this one began.
        requested_at = max(claim.requested_at, step.started_at or claim.requested_at)
        if claim.granted_at is None or claim.granted_at > requested_at + _SHORTEST_WAIT:
            text = f"Waits for the service lock of {claim.ecs_service}"
            request = LineRequest(requested_at, step.identifier)
            end = claim.granted_at or step.ended_at
            yield TimelineBar(requested_at, end, Status.PAUSED, text, request)
    if step.intervention is not None and step.intervention.get("requested_at"):
        requested_at = datetime.fromisoformat(step.intervention["requested_at"])
        request = LineRequest(requested_at, step.identifier)
        yield TimelineBar(
            requested_at, step.ended_at, Status.INTERVENTION_WAITING, "Awaiting action", request
        )


def _build_decision_row(execution: Execution, stages: Iterable[StageExecution]) -> TimelineRow:
    """Return approvals as bars, and the decisions of people as marks; one query."""
    row = TimelineRow("Approvals and decisions", "events")
    for step in (step for stage in stages for step in stage.steps.all()):
        for approval in step.approvals.all():
            word = get_status_badge(approval.badge_status).word
            request = LineRequest(approval.requested_at, step.identifier)
            row.bars.append(
                TimelineBar(
                    approval.requested_at,
                    approval.ended_at,
                    approval.badge_status,
                    f"Approval {step.name}: {word}",
                    request,
                )
            )
            row.marks += [
                TimelineMark(
                    decision.at,
                    "decision",
                    f"{decision.get_verdict_display()} by {decision.by_name}: {step.name}",
                    LineRequest(decision.at, step.identifier),
                )
                for decision in approval.decisions.all()
            ]
    for interrupt in Interrupt.objects.filter(execution=execution).select_related("by").order_by("pk"):
        text = interrupt.kind.replace("_", " ").capitalize()
        text += f" of {interrupt.step}" if interrupt.step else ""
        text += f" by {interrupt.by or 'the system'}"
        row.marks.append(
            TimelineMark(interrupt.at, "decision", text, LineRequest(interrupt.at, interrupt.step))
        )
    return row


def _build_retry_row(rows: Iterable[TimelineRow]) -> TimelineRow:
    """Return a mark for the start of each attempt after the first one."""
    marks = [
        TimelineMark(bar.start, "retry", f"{row.title}: attempt {bar.attempt}", bar.request)
        for row in rows
        if row.kind == "step"
        for bar in row.bars
        if bar.request and bar.attempt > 1
    ]
    return TimelineRow("Retries", "events", marks=marks)


def _build_event_row(execution: Execution) -> tuple[TimelineRow, int]:
    """Return the newest ECS events, and the number of older ones; two queries at most."""
    events = AwsEvent.objects.filter(execution=execution).order_by("-at", "-pk")
    newest = list(events.values_list("at", "message")[: MOST_EVENTS + 1])
    hidden = events.count() - MOST_EVENTS if len(newest) > MOST_EVENTS else 0
    marks = [
        TimelineMark(at, "event", message[:_LONGEST_TEXT], LineRequest(at, text=message.strip()))
        for at, message in reversed(newest[:MOST_EVENTS])
    ]
    return TimelineRow("ECS events", "events", marks=marks), max(0, hidden)


def _build_alarm_row(steps: Iterable[StepExecution], index: LineIndex, now: datetime) -> TimelineRow:
    """Return the changes of CloudWatch alarms, which only the log of a verification has."""
    row = TimelineRow("Alarms", "events")
    for step in steps:
        for line, at in _list_own_lines(step, index, now) if step.type == VERIFY_TYPE else ():
            if match := ALARM_LINE.match(line["text"]):
                kind = "alarm" if match[1] == ALARM_STATE else "alarm-calm"
                row.marks.append(_build_log_mark(line, at, kind))
    return row


def _build_lifecycle_row(steps: Iterable[StepExecution], index: LineIndex, now: datetime) -> TimelineRow:
    """Return stages and traffic of deployments that ECS itself runs, from their log."""
    row = TimelineRow("Lifecycle stages", "events")
    for step in steps:
        bars: list[TimelineBar] = []
        for line, at in _list_own_lines(step, index, now) if step.type in _NATIVE_TYPES else ():
            if match := STAGE_LINE.match(line["text"]):
                bars[-1:] = [replace(bar, end=at, status=Status.SUCCESS) for bar in bars[-1:]]
                reference = LineReference(line["number"], line["step"])
                bars.append(TimelineBar(at, step.ended_at, step.status, match[1], line=reference))
            elif TRAFFIC_LINE.match(line["text"]):
                row.marks.append(_build_log_mark(line, at, "traffic"))
        row.bars += bars
    return row


def _list_own_lines(
    step: StepExecution, index: LineIndex, now: datetime
) -> Iterator[tuple[LogLine, datetime]]:
    """Yield the lines that the engine wrote in the log of a started step, with their times."""
    if step.started_at is None:
        return
    start, end = step.started_at, step.ended_at or now
    for line in index.list_lines((start, end)):
        at = datetime.fromisoformat(line["at"])
        if line["step"] == step.identifier and line["origin"] == LineOrigin.SLIPWAY and start <= at <= end:
            yield line, at


def _build_log_mark(line: LogLine, at: datetime, kind: str) -> TimelineMark:
    reference = LineReference(line["number"], line["step"])
    return TimelineMark(at, kind, line["text"][:_LONGEST_TEXT], LineRequest(at), line=reference)


# --- positions ------------------------------------------------------------------------------------


def _place_rows(rows: Sequence[TimelineRow], axis: TimeAxis, now: datetime) -> None:
    for number, row in enumerate(rows):
        row.y = HEAD_HEIGHT + number * ROW_HEIGHT
        row.bars = [_place_bar(bar, axis, now) for bar in row.bars]
        row.marks = list(_condense_marks(sorted(row.marks, key=lambda mark: mark.start), axis))


def _place_bar(bar: TimelineBar, axis: TimeAxis, now: datetime) -> TimelineBar:
    x = min(axis.get_position(bar.start), 100 - _SHORTEST_BAR)
    width = max(_SHORTEST_BAR, axis.get_position(bar.end or now) - x)
    return replace(bar, x=round(x, 3), width=round(width, 3))


def _condense_marks(marks: Sequence[TimelineMark], axis: TimeAxis) -> Iterator[TimelineMark]:
    """Yield the marks, with those of one kind that would overlap joined to one."""
    pending: TimelineMark | None = None
    for mark in marks:
        placed = replace(mark, x=axis.get_position(mark.start))
        if pending is not None and pending.kind == mark.kind and placed.x - pending.x < _MARK_WIDTH:
            pending = replace(pending, count=pending.count + 1, until=mark.start)
            continue
        if pending is not None:
            yield pending
        pending = placed
    if pending is not None:
        yield pending


def _find_lines(rows: Sequence[TimelineRow], index: LineIndex) -> None:
    """Set the log line of each bar and mark; one query."""
    items = [entry.item for entry in _list_entries(rows)]
    index.load_moments(item.request for item in items if item.request and item.line is None)
    for row in rows:
        row.bars = [_add_line(bar, index) for bar in row.bars]
        row.marks = [_add_line(mark, index) for mark in row.marks]


def _add_line(item: Item, index: LineIndex) -> Item:
    if item.request is None or item.line is not None:
        return item
    return replace(item, line=index.find_line(item.request))


def _list_entries(rows: Iterable[TimelineRow]) -> Iterator[TimelineEntry]:
    for row in rows:
        yield from (TimelineEntry(row.title, bar) for bar in row.bars)
        yield from (TimelineEntry(row.title, mark) for mark in row.marks)
