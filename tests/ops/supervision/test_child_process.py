"""A program is kept running, its words are passed on, and nothing of it outlives the supervisor."""

import asyncio
import errno
import io
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ops.supervision import child_process as child_module
from ops.supervision.child_process import ChildProcess
from ops.supervision.console import Console, LineSplitter
from ops.supervision.programs import Program
from tests.fixtures.processes import ROOT, wait_until


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "INITIAL_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(child_module, "MAX_BACKOFF_SECONDS", 0.02)


def make_child(output: io.StringIO, *code: str, stop_seconds: float = 2.0) -> ChildProcess:
    program = Program("web", (sys.executable, "-c", "\n".join(code)), stop_seconds=stop_seconds)
    return ChildProcess(program, os.environ, Console(output))


async def until(output: io.StringIO, text: str, times: int = 1) -> None:
    async with asyncio.timeout(20):
        while output.getvalue().count(text) < times:
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """A zombie is dead: whoever adopted it has only not looked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_output_and_errors_come_out_behind_the_name(output: io.StringIO) -> None:
    child = make_child(output, "import sys", "print('one')", "sys.stderr.write('two')")

    assert await child.run_once() == 0
    assert sorted(output.getvalue().splitlines()) == ["web      | one", "web      | two"]


async def test_a_program_that_dies_is_started_again_with_a_visible_line(output: io.StringIO) -> None:
    child = make_child(output, "import os, signal", "print('up')", "os.kill(os.getpid(), signal.SIGKILL)")
    task = asyncio.create_task(child.keep_running())

    await until(output, "web was ended by SIGKILL; starting it again", times=3)
    await child.stop()
    await task

    assert output.getvalue().count("SIGKILL") >= 3


async def test_a_program_is_started_again_once_the_machine_has_memory_for_it(
    output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, starts = asyncio.create_subprocess_exec, itertools.count()

    async def start_or_fail(*command: str, **options: Any) -> asyncio.subprocess.Process:
        if next(starts) in (1, 2):
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_or_fail)
    child = make_child(output, "print('up')")
    task = asyncio.create_task(child.keep_running())

    await until(output, "| up", times=2)
    await child.stop()
    await task

    assert output.getvalue().count("web could not be started (Cannot allocate memory)") == 2


async def test_a_program_that_cannot_be_started_at_all_is_an_error(output: io.StringIO) -> None:
    child = ChildProcess(Program("web", ("/nowhere/program",)), os.environ, Console(output))

    with pytest.raises(FileNotFoundError):
        await child.keep_running()


async def test_a_program_that_will_not_end_is_ended(output: io.StringIO) -> None:
    child = make_child(
        output,
        "import signal, time",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "print('up', flush=True)",
        "time.sleep(60)",
        stop_seconds=0.1,
    )
    task = asyncio.create_task(child.keep_running())

    await until(output, "up")
    async with asyncio.timeout(30):
        await child.stop()
        await task


async def test_what_a_program_forked_ends_with_it(output: io.StringIO) -> None:
    child = make_child(
        output,
        "import subprocess, sys",
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)",
    )

    async with asyncio.timeout(30):
        await child.run_once()

    pid = int(output.getvalue().split("|")[1])
    wait_until(lambda: not is_alive(pid), "the end of what was forked")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children that their parent died")
def test_a_child_does_not_outlive_a_killed_supervisor() -> None:
    code = f"""
import asyncio, os, sys
sys.path.insert(0, {str(ROOT)!r})
from ops.supervision.child_process import ChildProcess
from ops.supervision.console import Console
from ops.supervision.programs import Program
sleeper = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
program = Program("sleeper", (sys.executable, "-c", sleeper))
asyncio.run(ChildProcess(program, os.environ, Console()).keep_running())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout
        pid = int(supervisor.stdout.readline().split("|")[1])
        assert is_alive(pid)
        supervisor.send_signal(signal.SIGKILL)

    wait_until(lambda: not is_alive(pid), "the end of the child", seconds=5)


class FullDisk(io.StringIO):
    """Output to a file whose disk is full for the first lines."""

    lost = 3

    def flush(self) -> None:
        if self.lost:
            self.lost -= 1
            self.seek(0)
            self.truncate()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_program_goes_on_while_the_disk_of_its_output_is_full() -> None:
    output = FullDisk()
    child = make_child(output, "for number in range(20_000): print(number)")

    async with asyncio.timeout(30):
        assert await child.run_once() == 0
    assert output.getvalue().splitlines()[-1] == "web      | 19999"


def test_a_character_that_the_output_cannot_encode_does_not_end_it() -> None:
    written = io.BytesIO()
    console = Console(io.TextIOWrapper(written, encoding="latin-1"))

    console.line("web", "token \N{BULLET}\N{BULLET}\N{BULLET}")
    console.line("web", "fin\xe9")

    assert written.getvalue().decode("latin-1").splitlines() == [
        "web      | token \\u2022\\u2022\\u2022",
        "web      | fin\xe9",
    ]


def test_lines_come_out_whole_however_they_were_cut() -> None:
    splitter = LineSplitter()

    assert splitter.feed(b"a\nb") == ["a"]
    assert splitter.feed(b"c\r\n\xff\n") == ["bc", "\N{REPLACEMENT CHARACTER}"]
    assert splitter.end() == []


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    splitter = LineSplitter()

    assert [len(line) for line in splitter.feed(b"x" * 100_000)] == [100_000]
    assert splitter.end() == []
