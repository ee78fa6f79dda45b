"""Spool of task log lines on disk until acknowledged, rate limited by a token bucket.

Paths are strings here: `pathlib` interns each name, and the table of interned names of a delegate that runs
thousands of tasks would double, by a MiB.
"""

import contextlib
import io
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from delegates.agent.manager_client import encode_body
from guards.limits import TASK_LOG_BURST, TASK_LOG_RATE

# Shorter pauses would cost more than they save.
SHORTEST_PAUSE_SECONDS = 0.02


class TokenBucket:
    """`burst` bytes at once, then `rate` bytes a second; not to be shared by threads."""

    def __init__(
        self,
        rate: int,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._burst, self._clock, self._sleep = rate, burst, clock, sleep
        self._balance, self._counted_at = float(burst), clock()

    def spend(self, size: int) -> bool:
        """Count `size` bytes, wait above the rate limit, and return whether it waited."""
        now = self._clock()
        self._balance = min(self._burst, self._balance + (now - self._counted_at) * self._rate) - size
        self._counted_at = now
        pause = -self._balance / self._rate
        if pause < SHORTEST_PAUSE_SECONDS:
            return False
        self._sleep(pause)
        return True


SEGMENT_BYTES = 128 * 1024
_STATE, _SUFFIX = "state.json", ".jsonl"
THROTTLED_MESSAGE = (
    f"This task writes more than {TASK_LOG_RATE} per second and is throttled. No line is lost."
)
_DAMAGED = "One line was lost: damaged on the disk of the delegate."
log = logging.getLogger("slipway.delegate")


@dataclass(eq=False)
class SpoolSegment:
    """Whole lines that the manager has not acknowledged: a file, or `content` where the disk accepts none."""

    path: str
    content: bytes = b""
    lines: int = 0
    size: int = 0
    dropped: int = 0
    is_sealed: bool = False


@dataclass(frozen=True)
class LogChunk:
    """Lines of one upload: the number of the first, how many, and their JSON objects separated by commas."""

    sequence: int
    line_count: int
    lines: bytes


class SpooledTaskLog:
    """Log lines of one task: appended at the end, read from the front, numbered from the first one sent."""

    def __init__(self, spool: "LogSpool", folder: str, task_id: str, fence: int) -> None:
        self.spool, self.folder, self.task_id, self.fence = spool, folder, task_id, fence
        self.acknowledged = 0
        self.is_closed = False
        self.segments: list[SpoolSegment] = []
        self.sending: SpoolSegment | None = None
        # One upload of a task's lines at a time: a chunk starts after the acknowledged lines.
        self.uploads = threading.Lock()
        # Monotonic end of the pause that the manager requested for this task's lines.
        self.throttled_until = 0.0
        self._number = 0
        self._lost = 0
        self._pace = TokenBucket(TASK_LOG_RATE, TASK_LOG_BURST)
        self._is_slow = False

    @property
    def next_sequence(self) -> int:
        """Return the number that the next line would get."""
        with self.spool.lock:
            return self.acknowledged + sum(segment.lines for segment in self.segments)

    @property
    def is_throttled(self) -> bool:
        """Return whether the manager requests a pause."""
        return time.monotonic() < self.throttled_until

    def write(self, level: str, text: str) -> None:
        """Append a line; block writers above the rate limit.

        If the disk refuses lines, a marker for the gap follows once the disk accepts lines again.
        """
        line = _render_line(level, text)
        if self._pace.spend(len(line)) and not self._is_slow:
            self._is_slow = True
            self._add(_render_line("WARN", THROTTLED_MESSAGE))
        self._add(line)

    def _add(self, line: bytes) -> None:
        with self.spool.lock:
            lines = [self._render_lost()] if self._lost else []
            try:
                self._append([*lines, line])
                self._lost = 0
            except OSError as problem:
                self._lost += 1
                if self._lost == 1:
                    log.error("The spool in %s cannot be written: %s", self.folder, problem)

    def _append(self, lines: list[bytes]) -> None:
        segment = self.segments[-1] if self.segments else None
        if segment is None or segment.is_sealed:
            segment = self._create_segment()
        content = b"".join(lines)
        _append_whole(segment.path, segment.size, content)
        if not segment.lines:
            self._add_segment(segment)
        segment.lines += len(lines)
        segment.size += len(content)
        segment.is_sealed = segment.size >= SEGMENT_BYTES
        self.spool.grow(len(content))

    def _create_segment(self, content: bytes = b"") -> SpoolSegment:
        if not content:
            os.makedirs(self.folder, exist_ok=True, mode=0o700)
        return SpoolSegment(f"{self.folder}/{self._number + 1:06}{_SUFFIX}", content)

    def _add_segment(self, segment: SpoolSegment) -> None:
        self._number += 1
        self.segments.append(segment)

    def _render_lost(self) -> bytes:
        return _render_line("WARN", f"{_count_lines(self._lost)} lost: the disk of the delegate is full.")

    def close(self) -> None:
        """Close the log; the last acknowledgement deletes the folder."""
        with self.spool.lock:
            if self._lost:
                # No line follows that would bring the marker.
                segment = self._create_segment(self._render_lost())
                segment.lines, segment.is_sealed, self._lost = 1, True, 0
                self._add_segment(segment)
            self.is_closed = True
            self._delete_if_done()

    def first(self) -> LogChunk | None:
        """Return the oldest unacknowledged lines; they stay until `acknowledge`."""
        with self.spool.lock:
            if not self.segments:
                return None
            self.sending = self.segments[0]
            self.sending.is_sealed = True
            try:
                content = self.sending.content or _read(self.sending.path)
            except OSError as problem:
                content = _render_line(
                    "WARN", f"{_count_lines(self.sending.lines)} lost here: {problem.strerror}."
                )
            chunk = _build_chunk(self.acknowledged, content)
            self.sending.lines = chunk.line_count
            return chunk

    def acknowledge(self, next_number: int) -> None:
        """Drop the lines before `next_number`; the manager has stored them."""
        with self.spool.lock:
            self.acknowledged = next_number
            if self.sending is not None:
                segment, self.sending = self.sending, None
                # The number first: lines sent twice under one number are dropped, under two they double.
                is_noted = self._record_acknowledged(next_number, segment)
                _delete(segment.path)
                if not is_noted:
                    # A full disk has room now.
                    self._record_acknowledged(next_number, segment)
                self.segments.remove(segment)
                self.spool.grow(-segment.size)
            self._delete_if_done()

    def _record_acknowledged(self, next_number: int, segment: SpoolSegment) -> bool:
        try:
            _write_state(self.folder, next_number, os.path.basename(segment.path))
        except OSError as problem:
            log.error("The spool in %s cannot be written: %s", self.folder, problem)
            return False
        return True

    def renumber(self, next_number: int) -> None:
        """Renumber the lines from the number that the manager expects, and send them again."""
        with self.spool.lock:
            self.acknowledged = next_number

    def forget(self) -> None:
        """Drop all lines; the manager refuses them."""
        with self.spool.lock:
            self.spool.grow(-sum(segment.size for segment in self.segments))
            self.segments.clear()
            self.sending, self.is_closed = None, True
            self._delete_if_done()

    def _delete_if_done(self) -> None:
        if self.is_closed and not self.segments:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.spool.opened.pop(os.path.basename(self.folder), None)

    def drop(self, segment: SpoolSegment) -> None:
        """Replace a segment by a marker; adjacent markers are merged."""
        place = self.segments.index(segment)
        before = self.segments[place - 1] if place else None
        dropped = segment.dropped or segment.lines
        self.spool.grow(-segment.size)
        if before is not None and before.dropped and before is not self.sending:
            _delete(segment.path)
            del self.segments[place]
            self._write_marker(before, before.dropped + dropped)
        else:
            self._write_marker(segment, dropped)

    def _write_marker(self, segment: SpoolSegment, dropped: int) -> None:
        marker = _render_line("WARN", f"{dropped:,} lines are missing: the spool of the delegate was full.")
        try:
            _write(segment.path, marker)
        except OSError:
            segment.content = marker
        # Not by `grow`, which drops segments: this one has not changed yet, and would be dropped again.
        self.spool.size += len(marker) - (segment.size if segment.dropped else 0)
        segment.lines, segment.size, segment.dropped, segment.is_sealed = 1, len(marker), dropped, True

    def reopen(self) -> None:
        """Return the segments of an earlier process."""
        self.acknowledged, done = _read_state(self.folder)
        for name in sorted(name for name in os.listdir(self.folder) if name.endswith(_SUFFIX)):
            self._number = int(name.removesuffix(_SUFFIX))
            path = f"{self.folder}/{name}"
            if name <= done:
                _delete(path)
                continue
            # A process that was killed may have left half a line.
            content = _read(path)
            size = content.rfind(b"\n") + 1
            if size < len(content):
                os.truncate(path, size)
            self.segments.append(SpoolSegment(path, lines=content.count(b"\n"), size=size, is_sealed=True))
            self.spool.grow(size)
        self.close()


class LogSpool:
    """Log lines of all tasks within a size limit; the oldest are dropped first and leave a marker."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most, self.size = str(folder), most, 0
        self.lock = threading.RLock()
        self.opened: dict[str, SpooledTaskLog] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime):
            task_id, dot, fence = entry.name.rpartition(".")
            if dot and fence.isdigit() and entry.is_dir():
                lines = self.opened[entry.name] = SpooledTaskLog(self, entry.path, task_id, int(fence))
                lines.reopen()

    def open(self, task_id: str, fence: int) -> SpooledTaskLog:
        """Return the lines of a task that begins."""
        name = f"{task_id.replace('/', '_')}.{fence}"
        with self.lock:
            lines = self.opened[name] = SpooledTaskLog(self, f"{self.folder}/{name}", task_id, fence)
        return lines

    def waiting(self) -> list[SpooledTaskLog]:
        """Return the tasks that have lines to send."""
        with self.lock:
            return [lines for lines in self.opened.values() if lines.segments]

    def grow(self, size: int) -> None:
        """Count bytes, and drop segments above the limit."""
        self.size += size
        if size > 0 and self.size > self.most:
            for lines, segment in list(self._iterate_oldest()):
                if self.size <= self.most:
                    break
                lines.drop(segment)

    def _iterate_oldest(self) -> Iterator[tuple[SpooledTaskLog, SpoolSegment]]:
        """Return the next segments to drop: whole, not in upload, of the task that began first."""
        for lines in self.opened.values():
            for segment in lines.segments:
                if segment.is_sealed and not segment.dropped and segment is not lines.sending:
                    yield lines, segment


def _append_whole(path: str, size: int, content: bytes) -> None:
    """Append to a file of `size` bytes, or leave it as it was. Raises OSError."""
    try:
        with open(path, "ab") as file:
            file.write(content)
    except OSError:
        # A full disk may take half a line, to which the next one would be joined.
        with contextlib.suppress(OSError):
            os.truncate(path, size)
        raise


def _count_lines(count: int) -> str:
    return "1 line was" if count == 1 else f"{count:,} lines were"


def _render_line(level: str, text: str) -> bytes:
    return encode_body({"t": time.time_ns() // 1_000_000, "level": level, "text": text}) + b"\n"


def _build_chunk(sequence: int, content: bytes) -> LogChunk:
    """Return stored lines for an upload, with a replacement for each line that a power cut damaged.

    They are checked one by one: with the objects of all its lines, a segment took 1.8 MiB instead of 0.3, and
    a process keeps much of the most that it ever took.
    """
    lines, line_count = bytearray(), 0
    for line in io.BytesIO(content):
        if lines:
            lines += b","
        lines += (line if _is_intact(line) else _render_line("WARN", _DAMAGED)).rstrip(b"\n")
        line_count += 1
    return LogChunk(sequence, line_count, bytes(lines))


def _is_intact(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line.decode()), dict)
    except ValueError:
        return False


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _delete(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _write_state(folder: str, acknowledged: int, segment: str) -> None:
    path = f"{folder}/{_STATE}"
    _write(f"{path}.new", encode_body({"acknowledged": acknowledged, "segment": segment}))
    os.replace(f"{path}.new", path)


def _read_state(folder: str) -> tuple[int, str]:
    try:
        state = json.loads(_read(f"{folder}/{_STATE}"))
        return int(state["acknowledged"]), str(state["segment"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, ""
