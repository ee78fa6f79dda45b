"""Why this delegate: what routing decided about a task, rule by rule, and what it would decide now (N07)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from delegates.candidates import field_for, wanted_by
from delegates.models import Delegate, DelegateTask, RoutingDecision
from delegates.offers import rows_of
from delegates.routing import route
from delegates.routing_rules import Rule
from rbac.policy import Principal, visible_to
from web.templatetags.slipway import spell

VIEW = "core_delegate_view"
# So many decisions about one task are shown, the newest first.
DECISIONS = 50


@dataclass(frozen=True)
class Cell:
    """What one rule said of one delegate; `verdict` is PASS or FAIL, and empty where it was not asked."""

    rule: str
    verdict: str = ""
    detail: str = ""
    remedy: str = ""
    seconds_left: int | None = None

    @property
    def left(self) -> str:
        """For how long it holds; empty where nobody knows."""
        return f"{spell(self.seconds_left)} left" if self.seconds_left else ""


@dataclass(frozen=True)
class Line:
    """One delegate in a decision."""

    delegate: int
    name: str
    chosen: bool
    cells: tuple[Cell, ...]

    @property
    def faults(self) -> tuple[Cell, ...]:
        return tuple(one for one in self.cells if one.verdict == "FAIL")

    @property
    def notes(self) -> tuple[Cell, ...]:
        """Rules that hold for a time only."""
        return tuple(one for one in self.cells if one.verdict == "PASS" and one.seconds_left)


@dataclass(frozen=True)
class Why:
    """A decision as people read it; `live` is one that would be made now and is not kept."""

    sentence: str
    at: datetime
    lines: tuple[Line, ...]
    number: int | None = None
    live: bool = False
    rules: tuple[str, ...] = tuple(rule.value for rule in Rule)


def why_now(task: DelegateTask, principal: Principal, now: datetime) -> Why:
    """What would be decided about a queued task at this moment."""
    decision = route(wanted_by(task), field_for([task], now).for_task(task))
    rows = _seen(rows_of(decision), principal)
    chosen = decision.chosen.key if decision.chosen else None
    return Why(decision.sentence, now, _lines(rows, chosen), live=True)


def decisions_of(task: DelegateTask, principal: Principal, most: int = DECISIONS) -> list[Why]:
    """What was decided, the newest first; delegates out of the task's reach only for who may see them."""
    found = list(RoutingDecision.objects.filter(task=task).order_by("-number")[:most])
    seen = _visible(principal, (row for one in found for row in one.rows))
    return [
        Why(
            one.sentence,
            one.at,
            _lines(_only(one.rows, seen), one.chosen_id),
            number=one.number,
        )
        for one in found
    ]


def decision_rows(decisions: Iterable[RoutingDecision], principal: Principal) -> list[list[dict[str, Any]]]:
    """The rows of decisions that a reader may see."""
    found = list(decisions)
    seen = _visible(principal, (row for one in found for row in one.rows))
    return [_only(one.rows, seen) for one in found]


def _seen(rows: list[dict[str, Any]], principal: Principal) -> list[dict[str, Any]]:
    return _only(rows, _visible(principal, rows))


def _is_out_of_reach(row: Mapping[str, Any]) -> bool:
    return bool(row["rule"] == Rule.SCOPE and row["verdict"] == "FAIL")


def _visible(principal: Principal, rows: Iterable[Mapping[str, Any]]) -> set[int]:
    away = {row["delegate"] for row in rows if _is_out_of_reach(row)}
    if not away:
        return set()
    return set(visible_to(principal, VIEW, Delegate.objects.filter(pk__in=away)).values_list("pk", flat=True))


def _only(rows: list[dict[str, Any]], seen: set[int]) -> list[dict[str, Any]]:
    return [row for row in rows if not _is_out_of_reach(row) or row["delegate"] in seen]


def _lines(rows: Iterable[Mapping[str, Any]], chosen: int | None) -> tuple[Line, ...]:
    """The rows by delegate: who got it first, then who fails the fewest rules, those out of reach last."""
    names: dict[int, str] = {}
    cells: dict[int, dict[str, Cell]] = {}
    for row in rows:
        names[row["delegate"]] = row["name"]
        cell = Cell(row["rule"], row["verdict"], row["detail"], row["remedy"], row["seconds_left"])
        cells.setdefault(row["delegate"], {})[cell.rule] = cell
    lines = [
        Line(key, names[key], key == chosen, tuple(found.get(rule, Cell(rule)) for rule in list(Rule)))
        for key, found in cells.items()
    ]
    return tuple(sorted(lines, key=_nearest))


def _nearest(line: Line) -> tuple[bool, int, int, str]:
    unasked = sum(not one.verdict for one in line.cells)
    return (not line.chosen, unasked, len(line.faults), line.name)
