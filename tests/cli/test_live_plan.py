"""The live table of an execution: rows, progress, and what fits into a terminal."""

import io
from typing import Any

import pytest
from rich.console import Console

from cli.watch.live_plan import PlanRow, build_plan, list_plan_rows, select_rows


def build_step(name: str, status: str, **values: Any) -> dict[str, Any]:
    return {
        "identifier": name.lower(),
        "name": name,
        "section": "EXECUTION",
        "status": status,
        "depth": 0,
        "started_at": None if status == "QUEUED" else "2026-01-01T10:00:00Z",
        "ended_at": None if status in ("QUEUED", "RUNNING") else "2026-01-01T10:01:05Z",
        "skipped_because": None,
        "failure": None,
        "approval": None,
        "intervention": None,
        "units": [],
        **values,
    }


def build_execution(*steps: dict[str, Any]) -> dict[str, Any]:
    stage = {
        "name": "Deploy [bold]now[/bold]\x1b[2J",
        "status": "RUNNING",
        "counts": {"running": 2, "desired": 3, "pending": 1},
        "steps": list(steps),
    }
    return {
        "pipeline": {"identifier": "shop"},
        "number": 7,
        "status": "RUNNING",
        "artifact": {"tag": "1.28"},
        "started_at": "2026-01-01T10:00:00Z",
        "ended_at": "2026-01-01T10:02:00Z",
        "stages": [stage],
    }


ACTIONS = [
    {"title": "Register", "state": "DONE", "detail": ""},
    {"title": "Wait for steady state", "state": "STARTED", "detail": "2 of 3"},
]
ROLLOUT = build_step("Rollout", "RUNNING", units=[{"actions": ACTIONS}])


def draw(execution: dict[str, Any], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, markup=False, legacy_windows=False)
    console.print(build_plan(execution, max_rows=20, width=width))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_the_table_shows_stages_steps_progress_and_the_current_action() -> None:
    execution = build_execution(build_step("Fetch", "SUCCESS"), ROLLOUT)

    title, stage, fetch, rollout = draw(execution, 140)

    assert "shop#7 1.28" in title
    assert "2m 00s" in title
    assert "Deploy [bold]now[/bold]" in stage
    assert "\x1b" not in stage
    assert "2/3 tasks running" in stage
    assert "SUCCESS" in fetch
    assert "1m 05s" in fetch
    assert "Wait for steady state – 2 of 3" in rollout


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    lines = draw(build_execution(build_step("A step with a rather long name " * 3, "FAILED"), ROLLOUT), width)

    assert len(lines) == 4
    assert max(len(line) for line in lines) <= width


def test_a_rollback_step_is_shown_once_it_begins() -> None:
    queued = build_step("Rollback", "QUEUED", section="ROLLBACK")
    begun = build_step("Rollback", "RUNNING", section="ROLLBACK")

    assert [row.name for row in list_plan_rows(build_execution(ROLLOUT, queued))][1:] == ["Rollout"]
    assert [row.name for row in list_plan_rows(build_execution(ROLLOUT, begun))][1:] == [
        "Rollout",
        "Rollback",
    ]


def test_of_too_many_rows_current_steps_stay() -> None:
    rows = [PlanRow("Stage", "RUNNING", 0), *(PlanRow(f"Step {n}", "QUEUED", 1) for n in range(20))]
    rows[15] = PlanRow("Current", "RUNNING", 1)

    kept = select_rows(rows, 5)

    assert [row.name for row in kept] == ["Stage", "Step 0", "Step 1", "Current", "and 17 more"]
