"""Failure strategies as rows of a form: which errors, what is done, and what if that comes to nothing."""

import re
from collections.abc import Mapping
from typing import Any

from guards.limits import RETRIES
from pipelines.definition.failure_schema import TIME_PATTERN
from pipelines.editor.cells import read_cell, shown_cell
from pipelines.editor.tables import CellErrors, Cells
from steps.failure_strategies import AFTER_RETRIES, ENDS, ERRORS, REACTIONS
from steps.kinds.columns import Column

RETRY, ASK = "Retry", "ManualIntervention"
_TIME = "Write a time such as 90s, 30m, 2h or 1d."
_TIMES = "Write times such as 10s, 1m: before the first retry, the second, and so on."


class FailureRows:
    """Entries of `failureStrategies`; cells about retries and about asking count where those are meant."""

    style = "failures"
    columns = (
        Column("errors", "checks", choices=ERRORS, is_needed=True),
        Column("action", "choice", "What is done about them.", choices=REACTIONS, is_needed=True),
        Column("retryCount", "number", f"How often, {int(RETRIES)} at most.", is_needed=True),
        Column("retryIntervals", "text", _TIMES, is_needed=True),
        Column(
            "afterRetries", "choice", "If no retry helps.", choices=AFTER_RETRIES, default="StageRollback"
        ),
        Column("timeout", "text", "How long somebody is waited for, such as 1h.", is_needed=True),
        Column("onTimeout", "choice", "If nobody decides.", choices=ENDS, default="StageRollback"),
    )

    def cells_of(self, entry: Any) -> dict[str, str] | None:
        """None for what does not keep to the schema, or says more than the cells can."""
        try:
            reaction = entry["onFailure"]
            cells = {"errors": list(reaction["errors"]), **_of_action(reaction["action"])}
            shown = {one.name: shown_cell(one, cells.get(one.name)) for one in self.columns}
            found = {name: text for name, text in shown.items() if text is not None}
            is_whole = len(found) == len(shown) and _without_empty(entry) == self.entry_of(found)
        except (KeyError, TypeError, AttributeError, CellErrors):
            return None
        return found if is_whole else None

    def entry_of(self, cells: Cells) -> dict[str, Any]:
        """Raises `CellErrors`."""
        errors: dict[str, str] = {}
        of = _Reader(cells, errors)
        named, type_ = of.read("errors"), of.read("action")
        action: dict[str, Any] = {"type": type_}
        if type_ == RETRY:
            action["spec"] = _retry(of)
        elif type_ == ASK:
            action["spec"] = _asking(of)
        if errors:
            raise CellErrors(errors)
        return {"onFailure": {"errors": named, "action": action}}


class _Reader:
    """Reads cells by their names and notes what is wrong with each."""

    def __init__(self, cells: Cells, errors: dict[str, str]) -> None:
        self.cells, self.errors = cells, errors
        self.columns = {one.name: one for one in FailureRows.columns}

    def read(self, name: str) -> Any:
        try:
            return read_cell(self.columns[name], self.cells.get(name, ""))
        except ValueError as bad:
            self.errors[name] = str(bad)
            return None

    def time(self, name: str) -> Any:
        found = self.read(name)
        if found is not None and not re.search(TIME_PATTERN, found):
            self.errors[name] = _TIME
        return found

    def times(self, name: str) -> list[str]:
        found = [one.strip() for one in str(self.read(name) or "").split(",") if one.strip()]
        if name not in self.errors and not all(re.search(TIME_PATTERN, one) for one in found):
            self.errors[name] = _TIMES
        return found

    def count(self, name: str) -> Any:
        found = self.read(name)
        if found is not None and not (isinstance(found, int) and 1 <= found <= RETRIES):
            self.errors[name] = f"Enter a whole number from 1 to {int(RETRIES)}."
        return found


def _retry(of: _Reader) -> dict[str, Any]:
    spec = {"retryCount": of.count("retryCount"), "retryIntervals": of.times("retryIntervals")}
    if after := of.read("afterRetries"):
        action = {"type": after, **({"spec": _asking(of)} if after == ASK else {})}
        spec["onRetryFailure"] = {"action": action}
    return spec


def _asking(of: _Reader) -> dict[str, Any]:
    spec = {"timeout": of.time("timeout")}
    if end := of.read("onTimeout"):
        spec["onTimeout"] = {"action": {"type": end}}
    return spec


def _of_action(action: Mapping[str, Any]) -> dict[str, Any]:
    spec = action.get("spec") or {}
    cells: dict[str, Any] = {"action": action["type"]}
    if action["type"] == RETRY:
        after = spec.get("onRetryFailure", {}).get("action", {})
        cells |= {"retryCount": spec["retryCount"], "retryIntervals": ", ".join(spec["retryIntervals"])}
        cells["afterRetries"] = after.get("type")
        spec = after.get("spec") or {}
    return cells | {
        "timeout": spec.get("timeout"),
        "onTimeout": spec.get("onTimeout", {}).get("action", {}).get("type"),
    }


def _without_empty(value: Any) -> Any:
    """Without specs that say nothing, which the schema allows beside an action that has none."""
    if not isinstance(value, Mapping):
        return value
    return {key: _without_empty(one) for key, one in value.items() if not (key == "spec" and one == {})}
