"""The lines of delegate.log that the manager does not have yet."""

import logging
import threading
from collections import deque

from guards.text import clean, cut

AT_ONCE, KEPT = 200, 5_000


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
            return [self._lines[place] for place in range(min(AT_ONCE, len(self._lines)))]

    def sent(self, lines: list[str]) -> None:
        with self._changing:
            for line in lines:
                if self._lines and self._lines[0] == line:
                    self._lines.popleft()
