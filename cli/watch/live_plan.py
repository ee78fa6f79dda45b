"""Live display: the plan as a table at the bottom of the terminal, the log above it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.console import RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cli.console import STATUS_STYLES, get_console, print_text
from cli.errors import ExitCode
from cli.text import clean_line
from cli.watch.displays import LEVEL_STYLES, describe_wait, format_line, print_result
from cli.watch.results import format_duration, get_duration, get_label

_MARKS: Final = {
    "SUCCESS": "✓",
    "FAILED": "✗",
    "EXPIRED": "✗",
    "ABORTED": "✗",
    "APPROVAL_REJECTED": "✗",
    "IGNORE_FAILED": "!",
    "SKIPPED": "-",
    "QUEUED": "·",
    "ROLLING_BACK": "↶",
    "ROLLED_BACK": "↶",
}
_ENDED_ACTIONS: Final = ("DONE", "SKIPPED", "FAILED", "UNDONE", "NOT_RESTORED")
_ACTIVE: Final = (
    "RUNNING",
    "ASYNC_WAITING",
    "APPROVAL_WAITING",
    "INTERVENTION_WAITING",
    "INPUT_WAITING",
    "ROLLING_BACK",
)
_BAR_WIDTH, _DURATION_WIDTH = 12, 7
# Lines below the log that the table may take, of a terminal's height.
_SHARE_OF_HEIGHT: Final = 0.5


@dataclass(frozen=True)
class PlanRow:
    """Row of the table: a stage, a step, or a line about the row above it."""

    name: str
    status: str
    depth: int
    seconds: float = 0.0
    share: float | None = None
    """Share of finished actions, or None."""
    note: str = ""


class LiveDisplay:
    """Table of stages and steps with their progress, below the log."""

    def __init__(self) -> None:
        self._execution: dict[str, Any] | None = None
        self._live: Live | None = None

    def show_execution(self, execution: dict[str, Any]) -> None:
        self._execution = execution
        if self._live is None:
            self._live = Live(
                console=get_console(), get_renderable=self._render, refresh_per_second=4, transient=True
            )
            self._live.start()

    def show_lines(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            print_text(format_line(line), style=LEVEL_STYLES.get(line["level"], ""))

    def show_notice(self, text: str) -> None:
        print_text(text, style="yellow")

    def show_result(self, execution: dict[str, Any], code: ExitCode, url: str) -> None:
        self.suspend()
        get_console().print(build_plan(execution, max_rows=1000, width=get_console().width))
        print_result(execution, url)

    def suspend(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _render(self) -> RenderableType:
        if self._execution is None:
            return Text("")
        console = get_console()
        return build_plan(
            self._execution, max_rows=int(console.height * _SHARE_OF_HEIGHT), width=console.width
        )


def build_plan(execution: Mapping[str, Any], *, max_rows: int, width: int) -> Table:
    """Return the table of an execution; without enough rows only current steps are listed."""
    title = PlanRow(
        f"{get_label(execution)} {clean_line((execution['artifact'] or {}).get('tag') or '')}",
        execution["status"],
        0,
        seconds=get_duration(execution),
    )
    rows = [title, *select_rows(list(list_plan_rows(execution)), max_rows)]
    names = [Text("  " * row.depth + row.name, style="" if row is not title else "bold") for row in rows]
    widths = [
        1,
        min(max(len(name) for name in names), width // 3),
        max(len(row.status) for row in rows),
        _BAR_WIDTH,
        _DURATION_WIDTH,
    ]
    # The notes have the rest of the line; the columns are separated by two cells.
    widths.append(max(0, width - sum(widths) - 2 * len(widths)))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for column_width in widths:
        table.add_column(width=column_width, no_wrap=True, overflow="ellipsis")
    for row, name in zip(rows, names, strict=True):
        _add_row(table, row, name)
    return table


def list_plan_rows(execution: Mapping[str, Any]) -> Iterator[PlanRow]:
    """Yield the stages and steps of an execution; rollback steps only if they began."""
    for stage in execution["stages"]:
        steps = [step for step in stage["steps"] if step["section"] != "ROLLBACK" or step["started_at"]]
        yield PlanRow(
            clean_line(stage["name"]),
            stage["status"],
            0,
            seconds=max((get_duration(step) for step in steps), default=0.0) if len(steps) == 1 else 0.0,
            note=_describe_counts(stage),
        )
        for step in steps:
            yield _build_step_row(execution, step)


def select_rows(rows: list[PlanRow], most: int) -> list[PlanRow]:
    """Return at most `most` rows: of too many, stages and current steps before ended and queued steps."""
    if len(rows) <= most:
        return rows
    order = sorted(range(len(rows)), key=lambda index: (_get_rank(rows[index]), index))
    kept = sorted(order[: max(1, most - 1)])
    hidden = len(rows) - len(kept)
    return [*(rows[index] for index in kept), PlanRow(f"and {hidden} more", "", 0)]


def _get_rank(row: PlanRow) -> int:
    if row.status in _ACTIVE:
        return 0
    return 1 if row.status in ("FAILED", "EXPIRED") else 2 if row.depth == 0 else 3


def _build_step_row(execution: Mapping[str, Any], step: Mapping[str, Any]) -> PlanRow:
    actions = [action for unit in step["units"] for action in unit["actions"]]
    ended = sum(action["state"] in _ENDED_ACTIONS for action in actions)
    return PlanRow(
        clean_line(step["name"]),
        step["status"],
        1 + step["depth"],
        seconds=get_duration(step),
        share=ended / len(actions) if actions and step["started_at"] else None,
        note=clean_line(_describe_step(execution, step, actions)),
    )


def _describe_step(
    execution: Mapping[str, Any], step: Mapping[str, Any], actions: list[dict[str, Any]]
) -> str:
    if step["status"] in ("APPROVAL_WAITING", "INTERVENTION_WAITING"):
        return describe_wait(execution, step)
    if step["status"] in _ACTIVE:
        current = next((action for action in actions if action["state"] in ("STARTED", "UNDOING")), None)
        return " – ".join(filter(None, (current["title"], current["detail"]))) if current else ""
    if step["skipped_because"]:
        return str(step["skipped_because"])
    return str(step["failure"]["message"]) if step["failure"] else ""


def _describe_counts(stage: Mapping[str, Any]) -> str:
    counts = stage["counts"] or {}
    if "running" not in counts or stage["status"] not in _ACTIVE:
        return ""
    return f"{counts['running']}/{counts.get('desired', '?')} tasks running"


def _add_row(table: Table, row: PlanRow, name: Text) -> None:
    style = STATUS_STYLES.get(row.status, "")
    bar = ProgressBar(total=1.0, completed=row.share, width=_BAR_WIDTH) if row.share is not None else ""
    table.add_row(
        Text(_MARKS.get(row.status, "▶" if row.status in _ACTIVE else ""), style=style),
        name,
        Text(row.status, style=style),
        bar,
        Text(format_duration(row.seconds) if row.seconds else "", justify="right"),
        Text(row.note, style="dim"),
    )
