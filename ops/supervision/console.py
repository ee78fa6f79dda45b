"""Console output of the supervisor: each line is prefixed with the process name."""

import logging
import os
import sys
from typing import TextIO

logger = logging.getLogger(__name__)

_COLORS = ("36", "33", "32", "35", "34", "96", "93", "92")
_WIDTH = 8
# A program that never ends its line must not fill the memory.
_MAX_LINE_BYTES = 64 * 1024


class Console:
    """Console with a prefix for each line, in color on a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._colorful = self._stream.isatty() and not os.environ.get("NO_COLOR")
        self._colors_by_name: dict[str, str] = {}

    def line(self, name: str, text: str) -> None:
        """Write one line of the process `name`."""
        prefix = f"{name:<{_WIDTH}} |"
        if self._colorful:
            color = self._colors_by_name.setdefault(name, _COLORS[len(self._colors_by_name) % len(_COLORS)])
            prefix = f"\x1b[{color}m{prefix}\x1b[0m"
        self.block(f"{prefix} {text}")

    def note(self, text: str) -> None:
        """Write one line of the supervisor itself."""
        self.line("slipway", text)

    def block(self, text: str) -> None:
        """Write a text unchanged, but for characters that the output cannot encode."""
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            # The output is closed; the programs continue.
            self._stream = open(os.devnull, "w")  # noqa: SIM115, PTH123
        except OSError:
            # Its disk is full: this line is lost, a later one may find space again. An error would end the
            # reader of the program's output, and the program would wait for one once its pipe is full.
            return


class PlainConsole(Console):
    """Console without prefixes, for a single program; lines of the supervisor go to the process log."""

    def line(self, name: str, text: str) -> None:
        """Write one line of the program unchanged."""
        self.block(text)

    def note(self, text: str) -> None:
        """Log a line of the supervisor in the same format as the lines of the program."""
        logger.warning(text)


class LineSplitter:
    """Splitter of a byte stream into lines."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that this chunk completes."""
        *whole, self._buffer = (self._buffer + chunk).split(b"\n")
        if len(self._buffer) > _MAX_LINE_BYTES:
            whole, self._buffer = [*whole, self._buffer], b""
        return [line.decode(errors="replace").rstrip("\r") for line in whole]

    def end(self) -> list[str]:
        """Return the unfinished last line, if any."""
        tail, self._buffer = self._buffer, b""
        return [tail.decode(errors="replace")] if tail else []
