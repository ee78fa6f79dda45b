"""delegate.log: a file a day, none too large, ten days and a gigabyte at most (R073-R076)."""

import logging
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegates.agent.logs.delegate_log import RETAINED, TASK_LOGGER, DelegateLog, LogUploadBuffer
from guards.log_lines import LineFormatter
from tests.lanes import examples


def build_record(text: str) -> logging.LogRecord:
    return logging.LogRecord("slipway.delegate", logging.INFO, __file__, 1, text, None, None)


class DailyLog:
    """A delegate.log whose day is set by hand."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.folder, self.limits = folder, limits
        self.day = datetime.now(UTC).date()
        self.open()

    def open(self) -> None:
        self.log = DelegateLog(self.folder, day=lambda: self.day, **self.limits)

    def write(self, text: str) -> None:
        self.log.emit(build_record(text))

    def list_names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def format_old_name(self, days: int) -> str:
        return f"delegate-{(self.day - timedelta(days=days)).isoformat()}.log"


def test_each_day_has_a_file_of_its_own_named_for_it(tmp_path: Path) -> None:
    day_log = DailyLog(tmp_path)
    day_log.write("yesterday")
    day_log.day += timedelta(days=1)
    day_log.write("today")
    assert day_log.list_names() == [day_log.format_old_name(1), "delegate.log"]
    assert (tmp_path / day_log.format_old_name(1)).read_text() == "yesterday\n"
    assert (tmp_path / "delegate.log").read_text() == "today\n"


def test_a_file_that_another_program_took_at_midnight_is_begun_again(tmp_path: Path) -> None:
    day_log = DailyLog(tmp_path)
    day_log.write("yesterday")
    (tmp_path / "delegate.log").unlink()
    day_log.day += timedelta(days=1)
    day_log.write("today")
    assert (tmp_path / "delegate.log").read_text() == "today\n"


def test_a_full_file_is_named_for_its_day_and_a_new_one_begins(tmp_path: Path) -> None:
    day_log = DailyLog(tmp_path, file_bytes=20)
    for text in ("a" * 15, "b" * 15, "c" * 15):
        day_log.write(text)
    day = day_log.day.isoformat()
    assert day_log.list_names() == [f"delegate-{day}.1.log", f"delegate-{day}.log", "delegate.log"]
    assert (tmp_path / f"delegate-{day}.log").read_text() == "a" * 15 + "\n"


def test_today_and_ten_days_before_are_kept(tmp_path: Path) -> None:
    day_log = DailyLog(tmp_path)
    for _ in range(14):
        day_log.write("x")
        day_log.day += timedelta(days=1)
    day_log.write("x")
    assert day_log.list_names() == sorted(
        [*(day_log.format_old_name(days) for days in range(1, 11)), "delegate.log"]
    )


def test_the_file_of_an_earlier_process_is_gone_on_with(tmp_path: Path) -> None:
    day_log = DailyLog(tmp_path)
    day_log.write("before")
    day_log.open()
    day_log.write("after")
    assert (tmp_path / "delegate.log").read_text() == "before\nafter\n"


def test_the_file_of_an_earlier_day_is_put_away_by_the_next_process(tmp_path: Path) -> None:
    day_log = DailyLog(tmp_path)
    day_log.write("before")
    day_log.day += timedelta(days=1)
    day_log.open()
    day_log.write("after")
    assert day_log.list_names() == [day_log.format_old_name(1), "delegate.log"]


def test_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "delegate-notes.log").write_text("mine")
    day_log = DailyLog(tmp_path)
    day_log.write("x")
    day_log.day += timedelta(days=30)
    day_log.write("x")
    assert day_log.list_names() == ["delegate-notes.log", "delegate.log"]


@settings(max_examples=examples(50))
@given(steps=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 3)), max_size=60))
def test_limits_hold_whatever_is_written_when(
    steps: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Files of 100 bytes, 500 in all; each step writes a line some days later."""
    folder = tmp_path_factory.mktemp("log")
    day_log = DailyLog(folder, file_bytes=100, all_bytes=500)
    written_lines: list[str] = []
    for size, days in steps:
        day_log.day += timedelta(days=days)
        written_lines.append("x" * size)
        day_log.write(written_lines[-1])
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        assert max(sizes.values()) <= 100
        assert sum(sizes.values()) <= 500
        assert all(
            _parse_day(name) >= day_log.day - timedelta(days=10) for name in sizes if name != "delegate.log"
        )
        assert (folder / "delegate.log").read_text().endswith(f"{written_lines[-1]}\n")


def _parse_day(name: str) -> date:
    match = re.search(r"\d{4}-\d{2}-\d{2}", name)
    assert match
    return date.fromisoformat(match[0])


def test_a_line_has_its_moment_in_utc_and_hides_the_token() -> None:
    form = LineFormatter("text", ["slp_dlt_secret"], shows_thread=True)
    line = form.format(build_record("refused slp_dlt_secret"))
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z INFO \[\w+\] refused •••$", line)


def test_lines_of_single_tasks_are_not_uploaded() -> None:
    lines = LogUploadBuffer()
    record = build_record("Task ended")
    record.name = TASK_LOGGER
    lines.emit(record)
    assert lines.first() == []


@pytest.fixture
def create_buffer() -> Callable[[int], LogUploadBuffer]:
    def fill_buffer(count: int) -> LogUploadBuffer:
        buffer = LogUploadBuffer()
        for number in range(count):
            buffer.emit(build_record(f"line {number}"))
        return buffer

    return fill_buffer


def test_lines_wait_until_they_are_sent(create_buffer: Callable[[int], LogUploadBuffer]) -> None:
    lines = create_buffer(3)
    assert lines.first() == lines.first() == ["line 0", "line 1", "line 2"]
    lines.emit(build_record("line 3"))
    assert lines.first() == ["line 0", "line 1", "line 2"], "what is under way keeps its number and its lines"
    lines.sent()
    assert lines.first() == ["line 3"]


def test_lines_that_are_lost_while_some_are_under_way_are_counted_after_these(
    create_buffer: Callable[[int], LogUploadBuffer],
) -> None:
    lines = create_buffer(RETAINED + 7)
    under_way = lines.first()
    for number in range(RETAINED):
        lines.emit(build_record(f"later {number}"))
        assert lines.first() == under_way
    lines.sent()
    missing = RETAINED + 7 - 7 - (len(under_way) - 1)
    assert lines.first()[:2] == [
        f"{missing:,} lines are missing here; delegate.log has them.",
        "later 0",
    ]


def test_lines_that_waited_too_long_are_counted(create_buffer: Callable[[int], LogUploadBuffer]) -> None:
    lines = create_buffer(RETAINED + 7)
    assert lines.first()[:2] == ["7 lines are missing here; delegate.log has them.", "line 7"]


def test_long_lines_go_in_several_messages() -> None:
    lines = LogUploadBuffer()
    for _ in range(20):
        lines.emit(build_record("x" * 16_000))
    assert sum(map(len, lines.first())) <= 100_000
    assert len(lines.first()) == 6
