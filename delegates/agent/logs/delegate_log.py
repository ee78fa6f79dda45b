"""Log of the agent: delegate.log with rotation, standard output, buffer for upload (R073-R076)."""

import contextlib
import logging
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from guards.limits import DELEGATE_LOG_BYTES, DELEGATE_LOG_DAYS, DELEGATE_LOGS_BYTES
from guards.log_lines import LineFormatter, LineStyle
from guards.text import sanitize_text, truncate_text

LOG_FILE = "delegate.log"
# A line for each task. The manager has all states of tasks, so these lines are not uploaded.
TASK_LOGGER = "slipway.delegate.tasks"
_ROTATED_FILE = re.compile(r"delegate-(\d{4}-\d{2}-\d{2})(?:\.(\d+))?\.log\Z")


def today() -> date:
    return datetime.now(UTC).date()


def configure_logging(
    home: Path, secrets: Sequence[str], *more: logging.Handler, style: LineStyle = "json"
) -> None:
    """Send log records to delegate.log and `more` as text, and to standard output in a style.

    Secrets are redacted everywhere.
    """
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    logging.getLogger("slipway.delegate").setLevel(logging.INFO)
    output = logging.StreamHandler(sys.stdout)
    output.setFormatter(LineFormatter(style, secrets, shows_thread=True))
    root.addHandler(output)
    text = LineFormatter("text", secrets, shows_thread=True)
    for handler in (DelegateLog(home), *more):
        handler.setFormatter(text)
        root.addHandler(handler)


class DelegateLog(logging.Handler):
    """Writer of delegate.log with a new file each day and at the size limit; older files carry their date."""

    def __init__(
        self,
        folder: Path,
        *,
        day: Callable[[], date] = today,
        file_bytes: int = DELEGATE_LOG_BYTES,
        all_bytes: int = DELEGATE_LOGS_BYTES,
    ) -> None:
        super().__init__()
        self._path, self._day = folder / LOG_FILE, day
        self._file_bytes, self._all_bytes = file_bytes, all_bytes
        self._written, self._of = self._read_current_file()

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n".encode("utf-8", "replace")
        try:
            self._rotate(len(line))
            with self._path.open("ab") as file:
                file.write(line)
            self._written += len(line)
        except OSError:
            # A full disk ends no delegate; standard output has the line too.
            self.handleError(record)

    def _read_current_file(self) -> tuple[int, date]:
        """Return size and day of the file of an earlier process."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return 0, self._day()
        return status.st_size, datetime.fromtimestamp(status.st_mtime, UTC).date()

    def _rotate(self, size: int) -> None:
        today = self._day()
        if today == self._of and self._written + size <= self._file_bytes:
            return
        if self._written:
            # Another program, such as logrotate, may have moved it at this moment too.
            with contextlib.suppress(FileNotFoundError):
                self._path.rename(self._find_free_name(self._of))
        self._written, self._of = 0, today
        self._remove_old(today)

    def _find_free_name(self, of: date) -> Path:
        name = self._path.with_name(f"delegate-{of.isoformat()}.log")
        number = 0
        while name.exists():
            number += 1
            name = self._path.with_name(f"delegate-{of.isoformat()}.{number}.log")
        return name

    def _remove_old(self, today: date) -> None:
        """Delete files older than ten days, and the oldest ones above the total size limit."""
        oldest, remaining_bytes = (
            (today - timedelta(days=DELEGATE_LOG_DAYS)).isoformat(),
            self._all_bytes - self._file_bytes,
        )
        for day, _, path in sorted(self._list_old_files(), reverse=True):
            size = path.stat().st_size
            if day < oldest or size > remaining_bytes:
                path.unlink()
            remaining_bytes -= size

    def _list_old_files(self) -> list[tuple[str, int, Path]]:
        matches = ((_ROTATED_FILE.match(path.name), path) for path in self._path.parent.iterdir())
        return [(match[1], int(match[2] or 0), path) for match, path in matches if match]


AT_ONCE, AT_ONCE_CHARACTERS, RETAINED = 200, 100_000, 5_000


class LogUploadBuffer(logging.Handler):
    """Buffer of formatted lines until upload; during a long outage the oldest lines are dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque()
        # What is being sent under one number stays as it is until it is `sent`.
        self._batch: list[str] = []
        self._missing = 0
        self._changing = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == TASK_LOGGER:
            return
        lines = [truncate_text(sanitize_text(line)) for line in self.format(record).splitlines()]
        with self._changing:
            self._lines.extend(lines)
            while len(self._lines) > RETAINED:
                self._lines.popleft()
                self._missing += 1

    def first(self) -> list[str]:
        """Return the oldest lines; repeated calls return the same ones until they are `sent`."""
        with self._changing:
            if not self._batch:
                self._fill_batch()
            return list(self._batch)

    def _fill_batch(self) -> None:
        if self._missing:
            self._batch.append(f"{self._missing:,} lines are missing here; delegate.log has them.")
            self._missing = 0
        size = sum(map(len, self._batch))
        while self._lines and len(self._batch) < AT_ONCE:
            size += len(self._lines[0])
            if self._batch and size > AT_ONCE_CHARACTERS:
                return
            self._batch.append(self._lines.popleft())

    def sent(self) -> None:
        """Forget the lines that `first` returned."""
        with self._changing:
            self._batch.clear()
