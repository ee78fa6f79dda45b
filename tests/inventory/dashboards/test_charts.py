"""The charts of CPU and memory: their axes, what is missing in them, and the table that says the same."""

from datetime import UTC, datetime, timedelta

import pytest

from inventory.dashboards.charts import (
    HEIGHT,
    WIDTH,
    build_gap_boxes,
    build_line_path,
    build_percent_axis,
    compute_percent_maximum,
)
from inventory.dashboards.usage import UsageMeasure, get_usage
from inventory.models.instances import EcsServiceRecord
from inventory.sync.upserts.usage import compute_usage_window


@pytest.mark.parametrize(
    ("largest", "top"),
    [
        (None, 100),
        (0.0, 100),
        (31.2, 100),
        (100.0, 100),
        (100.1, 150),
        (150.0, 150),
        (420.0, 450),
        (1234.5, 1500),
    ],
)
def test_the_axis_goes_to_a_hundred_or_to_what_holds_the_largest(largest: float | None, top: float) -> None:
    values = [None, largest]
    assert compute_percent_maximum(values) == top
    marks = build_percent_axis(values)
    assert [one.label for one in marks] == [f"{top:g} %", f"{top / 2:g} %", "0 %"]
    assert marks[0].y < marks[1].y < marks[2].y


def test_a_line_meets_the_marks_of_its_axis() -> None:
    values = [0.0, 50.0, 100.0]
    heights = [
        float(part.split("H")[0].split()[1])
        for part in build_line_path(values, maximum=100).replace("L", "M").split("M")[1:]
    ]
    assert heights[::-1] == [one.y for one in build_percent_axis(values)]


def test_what_is_missing_leaves_a_gap_in_the_line_and_a_box_behind_it() -> None:
    values = [None, 1.0, None, None, 2.0, None]
    assert build_line_path(values, maximum=100).count("M") == 2
    sixth = WIDTH / 6
    assert [(box.x, box.width, box.height) for box in build_gap_boxes(values)] == [
        (0, sixth, HEIGHT),
        (2 * sixth, 2 * sixth, HEIGHT),
        (5 * sixth, sixth, HEIGHT),
    ]
    assert build_gap_boxes([1.0]) == ()


def test_a_measure_without_values_says_so_and_has_an_axis() -> None:
    empty = UsageMeasure("CPU", (None, None))
    assert (empty.current, empty.lowest, empty.highest, empty.path) == (None, None, None, "")
    assert len(empty.ticks) == 3
    assert len(empty.gaps) == 1


def test_the_table_names_the_gaps_between_the_first_value_and_the_last() -> None:
    now = datetime(2026, 1, 1, 12, 3, tzinfo=UTC)
    since, _ = compute_usage_window(now)
    at = [(since + timedelta(minutes=5 * number)).isoformat() for number in (2, 5)]
    seen = EcsServiceRecord(usage={"cpu": dict.fromkeys(at, 7.0), "memory": {at[0]: 9.0}}, usage_read_at=now)
    found = get_usage(seen)
    assert found is not None
    assert [(one.cpu, one.memory, one.is_known) for one in found.table_rows] == [
        (7.0, None, True),
        (None, None, False),
        (None, None, False),
        (7.0, 9.0, True),
    ]
    assert [one.isoformat() for one in found.hours][::3] == [
        since.isoformat(),
        compute_usage_window(now)[1].isoformat(),
    ]
