"""Delegate tasks for lists and pages, with log lines and routing decisions explained."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, QuerySet

from delegates.models import Delegate, DelegateTask, RoutingDecision, TaskLogChunk
from delegates.models.tags import OWN_TAG
from delegates.models.tasks import MAX_LINE_TIME
from delegates.queries.shortlists import RoutingField
from delegates.routing.rules import RoutingRule
from delegates.task_owners import list_background_owners
from delegates.task_queue import is_complete_when_serialized, list_waiting_tasks, serialize_decision
from guards.text import sanitize_text
from rbac.policy import Principal, filter_visible
from web.templatetags.slipway import format_duration

VIEW = "core_delegate_view"
MAX_LINES = 1000
# Parameters and results, which no list or page reads.
HIDDEN_COLUMNS = ("payload", "result")


@dataclass(frozen=True)
class TaskLogLine:
    """One line that a task wrote, numbered from 1."""

    number: int
    at: datetime
    level: str
    text: str


@dataclass(frozen=True)
class TaskLogPage:
    """Lines of a task's log; `more` means that more lines exist."""

    lines: list[TaskLogLine]
    more: bool


def list_tasks() -> QuerySet[DelegateTask]:
    """Return tasks with the columns of a list, in one query."""
    return DelegateTask.objects.defer(*HIDDEN_COLUMNS).select_related(
        "scope", "offered_to", "instance__delegate"
    )


def exclude_background(tasks: QuerySet[DelegateTask]) -> QuerySet[DelegateTask]:
    """Leave out the tasks of sync and drift, and the reads of event queues."""
    return tasks.exclude(owner__in=list_background_owners())


def filter_by_delegate(tasks: QuerySet[DelegateTask], delegate_id: int) -> QuerySet[DelegateTask]:
    """Filter by the delegate that has, had or is offered the tasks."""
    return tasks.filter(Q(instance__delegate=delegate_id) | Q(offered_to=delegate_id))


def get_task_holder(task: DelegateTask) -> Delegate | None:
    """Return the current or last delegate of a task, or None."""
    return task.instance.delegate if task.instance else None


def find_only_delegate(task: DelegateTask, principal: Principal) -> Delegate | None:
    """Return the delegate that a task names by its own tag; None if it names none that is visible."""
    keys = [own[1] for tag in task.selectors if (own := OWN_TAG.fullmatch(tag))]
    return filter_visible(principal, VIEW, Delegate.objects.filter(pk__in=keys)).first() if keys else None


def get_queue_positions(tasks: Iterable[DelegateTask], now: datetime) -> dict[Any, int]:
    """Return the queue positions of the queued tasks without an offer; one query at most."""
    waiting = {task.pk for task in tasks if _is_waiting(task, now)}
    if not waiting:
        return {}
    queue = list_waiting_tasks(now).values_list("pk", flat=True)
    return {pk: place for place, pk in enumerate(queue, 1) if pk in waiting}


def is_offered(task: DelegateTask, now: datetime) -> bool:
    """Return whether a delegate may take a queued task at this moment."""
    until = task.offered_until if task.offered_to_id else None
    return task.status == DelegateTask.Status.QUEUED and until is not None and until > now


def _is_waiting(task: DelegateTask, now: datetime) -> bool:
    return task.status == DelegateTask.Status.QUEUED and not is_offered(task, now)


def get_reached_address(task: DelegateTask) -> str:
    """Return the address that a connectivity check reached, or an empty text."""
    if task.kind != DelegateTask.Kind.CHECK or task.status != DelegateTask.Status.SUCCEEDED:
        return ""
    answer = json.loads(task.result) if task.result else {}
    return str(answer.get("address") or "")


@dataclass(frozen=True)
class TaskFinding:
    """Finding of a diagnosis: `result` is ok, warning, failed or skipped."""

    check: str
    result: str
    message: str
    fix: str

    @property
    def badge(self) -> str:
        """Return the status whose badge shows the result."""
        return {"ok": "SUCCEEDED", "warning": "LATE", "failed": "FAILED"}.get(self.result, "SKIPPED")


def list_findings(task: DelegateTask) -> list[TaskFinding]:
    """Return the findings of a diagnosis in their order; none before it has succeeded."""
    if task.kind != DelegateTask.Kind.DOCTOR or task.status != DelegateTask.Status.SUCCEEDED:
        return []
    answer = json.loads(task.result) if task.result else {}
    return [
        TaskFinding(row["check"], row["result"], row["message"], row.get("fix", ""))
        for row in answer.get("findings", [])
    ]


def read_task_log(task: DelegateTask, after: int = 0, most: int = MAX_LINES) -> TaskLogPage:
    """Return the lines with higher numbers than `after`, at most so many."""
    chunks = TaskLogChunk.objects.filter(task=task, sequence__gte=_find_first_chunk(task, after))
    lines: list[TaskLogLine] = []
    for chunk in chunks.order_by("sequence").iterator(chunk_size=20):
        lines += [line for line in _read_chunks(chunk) if line.number > after]
        if len(lines) > most:
            return TaskLogPage(lines[:most], more=True)
    return TaskLogPage(lines, more=False)


def read_last_lines(task: DelegateTask, most: int = MAX_LINES) -> list[TaskLogLine]:
    """Return the newest lines, the oldest of them first."""
    return read_task_log(task, max(0, task.next_sequence - most), most).lines


def _find_first_chunk(task: DelegateTask, after: int) -> int:
    before = TaskLogChunk.objects.filter(task=task, sequence__lte=after).order_by("-sequence")
    return before.values_list("sequence", flat=True).first() or 0


def _read_chunks(chunk: TaskLogChunk) -> list[TaskLogLine]:
    return [
        TaskLogLine(
            number=number,
            at=datetime.fromtimestamp(min(line["t"], MAX_LINE_TIME) / 1000, UTC),
            level=line["level"],
            text=sanitize_text(line["text"]),
        )
        for number, line in enumerate(json.loads(chunk.lines), chunk.sequence + 1)
    ]


DECISION_PERMISSION = "core_delegate_view"
# So many decisions about one task are shown, the newest first.
MAX_DECISIONS = 50


@dataclass(frozen=True)
class RuleCell:
    """Result of one rule for one delegate; `verdict` is PASS, FAIL, or empty if not evaluated."""

    rule: str
    verdict: str = ""
    detail: str = ""
    remedy: str = ""
    seconds_left: int | None = None

    @property
    def left(self) -> str:
        """Return the remaining validity, or an empty text if it is unknown."""
        return f"{format_duration(self.seconds_left)} left" if self.seconds_left else ""


@dataclass(frozen=True)
class CandidateLine:
    """One delegate in a decision."""

    delegate: int
    name: str
    chosen: bool
    cells: tuple[RuleCell, ...]

    @property
    def faults(self) -> tuple[RuleCell, ...]:
        return tuple(cell for cell in self.cells if cell.verdict == "FAIL")

    @property
    def evaluated(self) -> tuple[RuleCell, ...]:
        return tuple(cell for cell in self.cells if cell.verdict)

    @property
    def is_eligible(self) -> bool:
        return not self.faults

    @property
    def notes(self) -> tuple[RuleCell, ...]:
        """Return the results of rules with a time limit."""
        return tuple(cell for cell in self.cells if cell.verdict == "PASS" and cell.seconds_left)


@dataclass(frozen=True)
class ExplainedDecision:
    """Routing decision for display; `live` marks a current, unsaved decision.

    `is_complete` if it has lines of all delegates, and not only of the first ones.
    """

    sentence: str
    at: datetime
    lines: tuple[CandidateLine, ...]
    number: int | None = None
    live: bool = False
    is_complete: bool = True
    rules: tuple[str, ...] = tuple(rule.value for rule in RoutingRule)


def explain_current_decision(task: DelegateTask, principal: Principal, now: datetime) -> ExplainedDecision:
    """Return the current routing decision for a queued task."""
    decision = RoutingField([task], now).decide(task)
    rows = _filter_visible_rows(serialize_decision(decision), principal)
    chosen = decision.chosen.key if decision.chosen else None
    return ExplainedDecision(
        decision.sentence,
        now,
        build_candidate_lines(rows, chosen),
        live=True,
        is_complete=is_complete_when_serialized(decision),
    )


def list_explained_decisions(
    task: DelegateTask, principal: Principal, most: int = MAX_DECISIONS
) -> list[ExplainedDecision]:
    """Return the routing decisions, newest first; unreachable delegates only for users with view access."""
    decisions = list(RoutingDecision.objects.filter(task=task).order_by("-number")[:most])
    visible = _list_visible_keys(principal, (row for decision in decisions for row in decision.rows))
    return [
        ExplainedDecision(
            decision.sentence,
            decision.at,
            build_candidate_lines(_select_rows(decision.rows, visible), decision.chosen_id),
            number=decision.number,
            is_complete=decision.is_complete,
        )
        for decision in decisions
    ]


def list_decision_rows(
    decisions: Iterable[RoutingDecision], principal: Principal
) -> list[list[dict[str, Any]]]:
    """Return the rows of decisions that are visible to a reader."""
    stored_decisions = list(decisions)
    visible = _list_visible_keys(principal, (row for decision in stored_decisions for row in decision.rows))
    return [_select_rows(decision.rows, visible) for decision in stored_decisions]


def _filter_visible_rows(rows: list[dict[str, Any]], principal: Principal) -> list[dict[str, Any]]:
    return _select_rows(rows, _list_visible_keys(principal, rows))


def _is_out_of_reach(row: Mapping[str, Any]) -> bool:
    return bool(row["rule"] == RoutingRule.SCOPE and row["verdict"] == "FAIL")


def _list_visible_keys(principal: Principal, rows: Iterable[Mapping[str, Any]]) -> set[int]:
    away = {row["delegate"] for row in rows if _is_out_of_reach(row)}
    if not away:
        return set()
    return set(
        filter_visible(principal, DECISION_PERMISSION, Delegate.objects.filter(pk__in=away)).values_list(
            "pk", flat=True
        )
    )


def _select_rows(rows: list[dict[str, Any]], visible: set[int]) -> list[dict[str, Any]]:
    return [row for row in rows if not _is_out_of_reach(row) or row["delegate"] in visible]


def build_candidate_lines(rows: Iterable[Mapping[str, Any]], chosen: int | None) -> tuple[CandidateLine, ...]:
    """Return the rows by delegate: the assigned one, then by failed rules, those out of reach last."""
    names: dict[int, str] = {}
    cells: dict[int, dict[str, RuleCell]] = {}
    for row in rows:
        names[row["delegate"]] = row["name"]
        cell = RuleCell(row["rule"], row["verdict"], row["detail"], row["remedy"], row["seconds_left"])
        cells.setdefault(row["delegate"], {})[cell.rule] = cell
    lines = [
        CandidateLine(
            key,
            names[key],
            key == chosen,
            tuple(cells_by_rule.get(rule, RuleCell(rule)) for rule in list(RoutingRule)),
        )
        for key, cells_by_rule in cells.items()
    ]
    return tuple(sorted(lines, key=_build_sort_key))


def _build_sort_key(line: CandidateLine) -> tuple[bool, int, int, str]:
    unasked = sum(not cell.verdict for cell in line.cells)
    return (not line.chosen, unasked, len(line.faults), line.name)
