"""The lines of delegate.log that the manager does not have yet."""

import logging
import threading
from collections import deque
from itertools import islice

from guards.text import clean, cut

AT_ONCE, AT_ONCE_CHARACTERS, KEPT = 200, 100_000, 5_000


class Outgoing(logging.Handler):
    """Keeps formatted lines until they are sent; a manager that is away for long costs the oldest."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque()
        self._missing = 0
        self._changing = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        lines = [cut(clean(line)) for line in self.format(record).splitlines()]
        with self._changing:
            self._lines.extend(lines)
            while len(self._lines) > KEPT:
                self._lines.popleft()
                self._missing += 1

    def first(self) -> list[str]:
        """The oldest lines; the next ask gives the same ones until they are `sent`."""
        with self._changing:
            if self._missing:
                self._lines.appendleft(f"{self._missing:,} lines are missing here; delegate.log has them.")
                self._missing = 0
            found: list[str] = []
            for line in islice(self._lines, AT_ONCE):
                if found and sum(map(len, found)) + len(line) > AT_ONCE_CHARACTERS:
                    break
                found.append(line)
            return found

    def sent(self, lines: list[str]) -> None:
        with self._changing:
            for line in lines:
                if self._lines and self._lines[0] == line:
                    self._lines.popleft()
