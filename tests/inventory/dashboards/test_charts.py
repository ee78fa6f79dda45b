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
    assert [tick_mark.label for tick_mark in marks] == [f"{top:g} %", f"{top / 2:g} %", "0 %"]
    assert marks[0].y < marks[1].y < marks[2].y


def test_a_line_meets_the_marks_of_its_axis() -> None:
    values = [0.0, 50.0, 100.0]
    heights = [
        float(part.split("H")[0].split()[1])
        for part in build_line_path(values, maximum=100).replace("L", "M").split("M")[1:]
    ]
    assert heights[::-1] == [tick_mark.y for tick_mark in build_percent_axis(values)]


def test_what_is_missing_leaves_a_gap_in_the_line_and_a_box_behind_it() -> None:
    values = [None, 1.0, None, None, 2.0, None]
    assert build_line_path(values, maximum=100).count("M") == 2
    segment_width = WIDTH / 6
    assert [(gap_box.x, gap_box.width, gap_box.height) for gap_box in build_gap_boxes(values)] == [
        (0, segment_width, HEIGHT),
        (2 * segment_width, 2 * segment_width, HEIGHT),
        (5 * segment_width, segment_width, HEIGHT),
    ]
    assert build_gap_boxes([1.0]) == ()


def test_a_measure_without_values_says_so_and_has_an_axis() -> None:
    empty_measure = UsageMeasure("CPU", (None, None))
    assert (empty_measure.current, empty_measure.lowest, empty_measure.highest, empty_measure.path) == (
        None,
        None,
        None,
        "",
    )
    assert len(empty_measure.ticks) == 3
    assert len(empty_measure.gaps) == 1


def test_the_table_names_the_gaps_between_the_first_value_and_the_last() -> None:
    now = datetime(2026, 1, 1, 12, 3, tzinfo=UTC)
    window_start, _ = compute_usage_window(now)
    timestamps = [(window_start + timedelta(minutes=5 * number)).isoformat() for number in (2, 5)]
    record = EcsServiceRecord(
        usage={"cpu": dict.fromkeys(timestamps, 7.0), "memory": {timestamps[0]: 9.0}}, usage_read_at=now
    )
    usage = get_usage(record)
    assert usage is not None
    assert [(table_row.cpu, table_row.memory, table_row.is_known) for table_row in usage.table_rows] == [
        (7.0, None, True),
        (None, None, False),
        (None, None, False),
        (7.0, 9.0, True),
    ]
    assert [hour.isoformat() for hour in usage.hours][::3] == [
        window_start.isoformat(),
        compute_usage_window(now)[1].isoformat(),
    ]
