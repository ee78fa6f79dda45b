"""Failure strategies as form rows: errors, action, retries and timeout."""

import re
from collections.abc import Mapping
from typing import Any

from guards.limits import RETRIES
from pipelines.definition.schema import DURATION_PATTERN
from pipelines.editor.cells import parse_cell, render_cell
from pipelines.editor.form_rows import CellErrors, CellTexts
from steps.failure_strategies import ERROR_TYPES, FINAL_REACTIONS, REACTIONS, REACTIONS_AFTER_RETRIES
from steps.kinds.registry import SpecColumn

RETRY, MANUAL_INTERVENTION = "Retry", "ManualIntervention"
_DURATION_ADVICE = "Enter a duration such as 90s, 30m, 2h or 1d, at most 9999h or 999d."
_INTERVALS_ADVICE = "Wait before the first retry, the second and so on, such as 10s, 1m."


class FailureRows:
    """Rows of `failureStrategies`; cells of retries and interventions apply only to those actions."""

    style = "failures"
    columns = (
        SpecColumn("errors", "checks", choices=ERROR_TYPES, is_needed=True),
        SpecColumn("action", "choice", "Action for these errors.", choices=REACTIONS, is_needed=True),
        SpecColumn("retryCount", "number", f"Number of retries, at most {int(RETRIES)}.", is_needed=True),
        SpecColumn("retryIntervals", "text", _INTERVALS_ADVICE, is_needed=True),
        SpecColumn(
            "afterRetries",
            "choice",
            "Action if all retries fail.",
            choices=REACTIONS_AFTER_RETRIES,
            default="StageRollback",
        ),
        SpecColumn("timeout", "text", "Time to wait for a decision, such as 1h.", is_needed=True),
        SpecColumn(
            "onTimeout",
            "choice",
            "Action after the timeout.",
            choices=FINAL_REACTIONS,
            default="StageRollback",
        ),
    )

    def render_cells(self, entry: Any) -> dict[str, str] | None:
        """Return the cells of an entry; None if it violates the schema, or cells cannot show it."""
        try:
            reaction = entry["onFailure"]
            cells = {"errors": list(reaction["errors"]), **_build_action_cells(reaction["action"])}
            texts = {column.name: render_cell(column, cells.get(column.name)) for column in self.columns}
            cell_texts = {name: text for name, text in texts.items() if text is not None}
            is_whole = len(cell_texts) == len(texts) and _remove_empty_specs(entry) == self.parse_cells(
                cell_texts
            )
        except (KeyError, TypeError, AttributeError, CellErrors):
            return None
        return cell_texts if is_whole else None

    def parse_cells(self, cells: CellTexts) -> dict[str, Any]:
        """Parse the cells of an entry. Raises `CellErrors`."""
        errors: dict[str, str] = {}
        reader = _CellReader(cells, errors)
        named, type_ = reader.read("errors"), reader.read("action")
        action: dict[str, Any] = {"type": type_}
        if type_ == RETRY:
            action["spec"] = _build_retry(reader)
        elif type_ == MANUAL_INTERVENTION:
            action["spec"] = _build_manual_intervention(reader)
        if errors:
            raise CellErrors(errors)
        return {"onFailure": {"errors": named, "action": action}}


class _CellReader:
    """Reader of cells by name that collects errors."""

    def __init__(self, cells: CellTexts, errors: dict[str, str]) -> None:
        self.cells, self.errors = cells, errors
        self.columns = {column.name: column for column in FailureRows.columns}

    def read(self, name: str) -> Any:
        try:
            return parse_cell(self.columns[name], self.cells.get(name, ""))
        except ValueError as bad:
            self.errors[name] = str(bad)
            return None

    def read_duration(self, name: str) -> Any:
        duration = self.read(name)
        if duration is not None and not re.search(DURATION_PATTERN, duration):
            self.errors[name] = _DURATION_ADVICE
        return duration

    def read_durations(self, name: str) -> list[str]:
        durations = [part.strip() for part in str(self.read(name) or "").split(",") if part.strip()]
        if name not in self.errors and not all(
            re.search(DURATION_PATTERN, duration) for duration in durations
        ):
            self.errors[name] = _INTERVALS_ADVICE
        return durations

    def read_count(self, name: str) -> Any:
        count = self.read(name)
        if count is not None and not (isinstance(count, int) and 1 <= count <= RETRIES):
            self.errors[name] = f"Enter a whole number from 1 to {int(RETRIES)}."
        return count


def _build_retry(reader: _CellReader) -> dict[str, Any]:
    spec = {
        "retryCount": reader.read_count("retryCount"),
        "retryIntervals": reader.read_durations("retryIntervals"),
    }
    if after := reader.read("afterRetries"):
        action = {
            "type": after,
            **({"spec": _build_manual_intervention(reader)} if after == MANUAL_INTERVENTION else {}),
        }
        spec["onRetryFailure"] = {"action": action}
    return spec


def _build_manual_intervention(reader: _CellReader) -> dict[str, Any]:
    spec = {"timeout": reader.read_duration("timeout")}
    if end := reader.read("onTimeout"):
        spec["onTimeout"] = {"action": {"type": end}}
    return spec


def _build_action_cells(action: Mapping[str, Any]) -> dict[str, Any]:
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


def _remove_empty_specs(value: Any) -> Any:
    """Remove empty specs, which the schema allows for actions without parameters."""
    if not isinstance(value, Mapping):
        return value
    return {
        key: _remove_empty_specs(item) for key, item in value.items() if not (key == "spec" and item == {})
    }
