"""Log lines of tasks: nothing is lost without a marker, whatever ends the agent."""

import json
import resource
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegates.agent.logs import spool as module
from delegates.agent.logs.spool import LogChunk, LogSpool, SpooledTaskLog
from tests.lanes import examples

MIB = 1024 * 1024


def read_texts(chunk: LogChunk | None) -> list[str]:
    """Return the texts of the lines of an upload."""
    assert chunk is not None
    texts = [line["text"] for line in json.loads(b"[%s]" % chunk.lines)]
    assert len(texts) == chunk.line_count
    return texts


def take_texts(lines: SpooledTaskLog) -> list[str]:
    """Take all waiting lines as an upload does, and return their texts."""
    line_texts: list[str] = []
    while chunk := lines.first():
        assert chunk.sequence == len(line_texts)
        line_texts += read_texts(chunk)
        lines.acknowledge(len(line_texts))
    return line_texts


def test_lines_come_out_in_order_and_are_gone_once_acknowledged(tmp_path: Path) -> None:
    spool = LogSpool(tmp_path, MIB)
    lines = spool.open("t1", 3)
    for number in range(5):
        lines.write("INFO", f"line {number}")
    lines.close()
    assert lines.next_sequence == 5
    assert take_texts(lines) == [f"line {number}" for number in range(5)]
    assert list(tmp_path.iterdir()) == []
    assert spool.size == 0


def test_lines_not_acknowledged_are_sent_again_under_the_same_number(tmp_path: Path) -> None:
    lines = LogSpool(tmp_path, MIB).open("t1", 1)
    lines.write("INFO", "one")
    first = lines.first()
    lines.write("INFO", "two")
    assert lines.first() == first


def test_lines_survive_a_restart_with_their_numbers(tmp_path: Path) -> None:
    lines = LogSpool(tmp_path, MIB).open("t1", 7)
    lines.write("INFO", "sent")
    assert read_texts(lines.first()) == ["sent"]
    lines.acknowledge(1)
    lines.write("INFO", "not sent")

    (task_log,) = LogSpool(tmp_path, MIB).waiting()
    assert (task_log.task_id, task_log.fence) == ("t1", 7)
    chunk = task_log.first()
    assert (chunk and chunk.sequence, read_texts(chunk)) == (1, ["not sent"])


def test_half_a_line_of_a_killed_agent_is_left_out(tmp_path: Path) -> None:
    LogSpool(tmp_path, MIB).open("t1", 7).write("INFO", "whole")
    (segment,) = tmp_path.glob("*/*.jsonl")
    segment.write_text(segment.read_text() + '{"t": 1, "lev')
    (task_log,) = LogSpool(tmp_path, MIB).waiting()
    assert take_texts(task_log) == ["whole"]


def test_a_full_spool_drops_the_oldest_lines_and_says_so(tmp_path: Path) -> None:
    spool = LogSpool(tmp_path, 3 * module.SEGMENT_BYTES)
    lines = spool.open("t1", 1)
    for number in range(1000):
        lines.write("INFO", f"{number:06}" + "x" * 1000)
    assert spool.size <= spool.most
    marker, *remaining_texts = take_texts(lines)
    dropped_count = int(marker.split()[0])
    assert "lines are missing" in marker
    assert [int(text[:6]) for text in remaining_texts] == list(range(dropped_count, 1000))


def test_a_full_spool_drops_the_short_logs_of_an_earlier_process_once(tmp_path: Path) -> None:
    most = 2 * module.SEGMENT_BYTES
    for number in range(3):
        LogSpool(tmp_path, most).open(f"t{number}", 1).write("INFO", "one")
    spool = LogSpool(tmp_path, most)
    lines = spool.open("t9", 1)
    for _ in range(200):
        lines.write("INFO", "x" * 2000)
    assert spool.size == sum(path.stat().st_size for path in tmp_path.glob("*/*.jsonl"))
    short_logs = [take_texts(task_log) for task_log in spool.waiting() if task_log is not lines]
    assert short_logs == [["1 lines are missing: the spool of the delegate was full."]] * 3


def test_lines_on_their_way_are_not_dropped(tmp_path: Path) -> None:
    spool = LogSpool(tmp_path, 2 * module.SEGMENT_BYTES)
    lines = spool.open("t1", 1)
    lines.write("INFO", "on its way")
    lines.first()
    for _ in range(500):
        lines.write("INFO", "x" * 1000)
    assert read_texts(lines.first())[0] == "on its way"


def test_texts_of_all_kinds_arrive_as_they_were(tmp_path: Path) -> None:
    lines = LogSpool(tmp_path, MIB).open("t1", 1)
    texts = ["naïve 🚢", "a\nb\r\x85c\u2028d", '"\\', "", "half a pair \ud83d"]
    for text in texts:
        lines.write("INFO", text)
    assert take_texts(lines) == texts


def test_an_upload_takes_little_more_memory_than_its_lines(tmp_path: Path) -> None:
    lines = LogSpool(tmp_path, MIB).open("t1", 1)
    while not lines.segments or not lines.segments[0].is_sealed:
        lines.write("INFO", "a short line")
    tracemalloc.start()
    chunk = lines.first()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert chunk is not None
    assert chunk.line_count > 1000
    assert peak < 4 * module.SEGMENT_BYTES


def test_a_disk_that_takes_nothing_leaves_a_marker_later(tmp_path: Path) -> None:
    lines = LogSpool(tmp_path, MIB).open("t1", 1)
    Path(lines.folder).write_text("a file where the folder should be")
    lines.write("INFO", "lost")
    lines.write("INFO", "lost too")
    Path(lines.folder).unlink()
    lines.write("INFO", "kept")
    assert take_texts(lines) == ["2 lines were lost: the disk of the delegate is full.", "kept"]


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Limit the size of each file: like a full disk, the kernel writes what has room and refuses the rest."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_lines_lost_at_the_end_of_a_task_leave_a_marker(
    tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    spool = LogSpool(tmp_path, MIB)
    lines = spool.open("t1", 1)
    lines.write("INFO", "kept")
    full_disk(0)
    lines.write("INFO", "lost")
    lines.write("INFO", "the last one, lost too")
    lines.close()
    full_disk(resource.RLIM_INFINITY)
    assert lines.next_sequence == 2
    assert take_texts(lines) == ["kept", "2 lines were lost: the disk of the delegate is full."]
    assert (spool.waiting(), spool.size, list(tmp_path.iterdir())) == ([], 0, [])


def test_a_task_on_a_full_disk_sends_its_marker(tmp_path: Path, full_disk: Callable[[int], None]) -> None:
    lines = LogSpool(tmp_path, MIB).open("t1", 1)
    full_disk(0)
    lines.write("INFO", "lost")
    assert lines.first() is None
    lines.close()
    assert take_texts(lines) == ["1 line was lost: the disk of the delegate is full."]


def test_half_a_line_on_a_full_disk_spoils_no_line(tmp_path: Path, full_disk: Callable[[int], None]) -> None:
    lines = LogSpool(tmp_path, MIB).open("t1", 1)
    lines.write("INFO", "kept")
    (segment,) = tmp_path.glob("*/*.jsonl")
    full_disk(segment.stat().st_size + 20)
    lines.write("INFO", "lost in its middle")
    full_disk(resource.RLIM_INFINITY)
    lines.write("INFO", "kept too")
    assert take_texts(lines) == ["kept", "1 line was lost: the disk of the delegate is full.", "kept too"]


def test_a_full_spool_on_a_full_disk_keeps_its_marker(
    tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    spool = LogSpool(tmp_path, 3 * module.SEGMENT_BYTES)
    lines = spool.open("t1", 1)
    for number in range(300):
        lines.write("INFO", f"{number:06}" + "x" * 1000)
    full_disk(0)
    spool.most = module.SEGMENT_BYTES
    spool.grow(1)
    marker, *remaining_texts = take_texts(lines)
    assert "lines are missing: the spool of the delegate was full" in marker
    assert [int(text[:6]) for text in remaining_texts] == list(range(int(marker.split()[0]), 300))


def test_a_damaged_line_is_marked_and_the_others_are_sent(tmp_path: Path) -> None:
    lines = LogSpool(tmp_path, MIB).open("t1", 1)
    for text in ("one", "two", "three"):
        lines.write("INFO", text)
    (segment,) = tmp_path.glob("*/*.jsonl")
    first, _, last_line = segment.read_bytes().splitlines()
    segment.write_bytes(b"\n".join([first, b"\0\0\xff[1]", last_line]) + b"\n")
    (task_log,) = LogSpool(tmp_path, MIB).waiting()
    assert take_texts(task_log) == ["one", "One line was lost: damaged on the disk of the delegate.", "three"]


def test_lines_go_also_where_their_number_cannot_be_noted(tmp_path: Path) -> None:
    lines = LogSpool(tmp_path, MIB).open("t1", 1)
    lines.write("INFO", "one")
    Path(lines.folder, "state.json.new").mkdir()
    assert take_texts(lines) == ["one"]


def test_lines_that_the_manager_does_not_want_go(tmp_path: Path) -> None:
    spool = LogSpool(tmp_path, MIB)
    lines = spool.open("t1", 1)
    lines.write("INFO", "of an old fence")
    lines.forget()
    assert (spool.waiting(), spool.size, list(tmp_path.iterdir())) == ([], 0, [])


class LogUpload:
    """An agent that writes, sends and restarts, and a manager that takes each number once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.line_count = folder, 0
        self.has_restarted = False
        self.manager: list[str] = []
        self.lines = LogSpool(folder, 10 * MIB).open("t", 1)

    def write(self, count: int) -> None:
        # A task does not go on in another process.
        for _ in range(0 if self.has_restarted else count):
            self.lines.write("INFO", str(self.line_count))
            self.line_count += 1

    def send(self, *, is_acknowledged: bool) -> None:
        if chunk := self.lines.first():
            assert chunk.sequence <= len(self.manager), "there is a gap"
            self.manager += read_texts(chunk)[len(self.manager) - chunk.sequence :]
            if is_acknowledged:
                self.lines.acknowledge(len(self.manager))

    def restart(self) -> None:
        self.has_restarted = True
        if task_logs := LogSpool(self.folder, 10 * MIB).waiting():
            (self.lines,) = task_logs


@settings(max_examples=examples(60))
@given(
    steps=st.lists(st.one_of(st.integers(1, 40), st.sampled_from(["send", "lose", "restart"])), max_size=25)
)
def test_every_line_arrives_once_in_order(
    steps: list[int | str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever order lines, uploads, lost answers and restarts come in."""
    upload = LogUpload(tmp_path_factory.mktemp("spool"))
    for step in steps:
        if isinstance(step, int):
            upload.write(step)
        elif step == "restart":
            upload.restart()
        else:
            upload.send(is_acknowledged=step == "send")
    while upload.lines.segments:
        upload.send(is_acknowledged=True)
    assert upload.manager == [str(number) for number in range(upload.line_count)]
