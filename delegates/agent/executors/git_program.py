"""The git program: one command at a time, with limits on time, memory, files and what it prints."""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from delegates.agent.isolation import Workspace, end
from delegates.agent.work import Held
from guards.limits import GIT_MEMORY_BYTES, GIT_OUTPUT_BYTES, GIT_TRANSFER_BYTES

_PROGRAM = "git"
_LOOK_SECONDS, _LAST_SECONDS = 0.1, 0.005
# What git and ssh add to the reason of every failure.
_NO_REASON = ("warning:", "please make sure", "and the repository exists")
# A pack is one file; what grows beyond the limit on files ends the program that writes it.
_TOO_LARGE = ("signal 25", "File too large", "invalid index-pack output")
_START = (
    f"ulimit -c 0; ulimit -f {GIT_TRANSFER_BYTES // 512}; "
    f'ulimit -v {GIT_MEMORY_BYTES // 1024} 2>/dev/null; exec "$0" "$@"'
)


class GitFailed(Exception):
    """The git program ended with an error; the text is its own last words, `said` all of them."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said


class GitStopped(Exception):
    """The git program was ended: time ran out, or nobody wants its answer any more."""


@dataclass(frozen=True)
class GitProgram:
    """Runs git in a folder, with the login of one task; all its commands end by one moment (monotonic)."""

    held: Held
    workspace: Workspace
    environment: Mapping[str, str] = field(repr=False)
    options: Sequence[str]
    until: float

    def run(self, folder: Path, *arguments: str, may_be_cut: bool = False) -> bytes:
        """What a command prints. Raises `GitFailed`, `GitStopped`, `FileNotFoundError` without the program.

        What prints more than is taken fails, or is cut where that `may_be_cut`.
        """
        command = ["/bin/sh", "-c", _START, _PROGRAM, *self.options, *arguments]
        # A list of arguments: what a person wrote follows checked options.
        with self.workspace.start(command, self.environment, cwd=folder, stderr=subprocess.PIPE) as process:
            printed, said = _Reader(process.stdout), _Reader(process.stderr)
            try:
                self._wait(process, printed, said)
            finally:
                # Its helpers would live on.
                end(process)
                # Also where it was stopped: a pipe that is closed under its reader breaks that thread.
                printed.join()
                said.join()
        if printed.is_full and not may_be_cut:
            raise GitFailed(f"git {arguments[0]}: it prints more than {GIT_OUTPUT_BYTES}")
        if not printed.is_full:
            self._refuse_failure(process.returncode, arguments[0], said.taken.decode("utf-8", "replace"))
        return printed.taken

    def refuse_late(self) -> None:
        """Raises `GitStopped` where nobody waits any more."""
        if self.held.stopped.is_set() or time.monotonic() > self.until:
            raise GitStopped

    def _wait(self, process: "subprocess.Popen[bytes]", printed: "_Reader", said: "_Reader") -> None:
        while process.poll() is None:
            self.refuse_late()
            if printed.is_full or said.is_full:
                return
            if printed.ended.wait(_LOOK_SECONDS) and said.ended.wait(_LOOK_SECONDS):
                time.sleep(_LAST_SECONDS)

    def _refuse_failure(self, code: int, command: str, said: str) -> None:
        if code == 127:
            raise FileNotFoundError(_PROGRAM)
        if code and any(one in said for one in _TOO_LARGE):
            raise GitFailed(
                f"git {command}: one commit of the repository is more than {GIT_TRANSFER_BYTES}", said
            )
        if code:
            raise GitFailed(f"git {command}: {_reason(said) or f'exit code {code}'}", said)


def _reason(said: str) -> str:
    """The lines that say why: of ssh the first, of git the last."""
    lines = [line.strip() for line in said.splitlines()]
    telling = [line for line in lines if line and not line.lower().startswith(_NO_REASON)]
    return "; ".join(dict.fromkeys([*telling[:1], *telling[-1:]]))


class _Reader:
    """Takes what a pipe holds, as far as it is wanted, so that nobody waits for the other pipe."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self.taken = b""
        self.is_full = False
        self.ended = threading.Event()
        self._number = pipe.fileno() if pipe else -1
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _read(self) -> None:
        parts, size = [], 0
        while size <= GIT_OUTPUT_BYTES and (data := os.read(self._number, 65_536)):
            parts.append(data)
            size += len(data)
        self.taken, self.is_full = b"".join(parts), size > GIT_OUTPUT_BYTES
        self.ended.set()
