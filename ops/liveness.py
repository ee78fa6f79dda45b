"""Liveness checks that restart an unresponsive web server."""

import asyncio
import os
import signal
import sys
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from ops.child_process import ChildProcess
from ops.console import Console, PlainConsole
from ops.programs import Program

CHECK_INTERVAL_SECONDS: Final = 5.0
INITIAL_DELAY_SECONDS: Final = 0.5
RESPONSE_TIMEOUT_SECONDS: Final = 10.0
FAILURE_THRESHOLD: Final = 3


async def restart_when_unresponsive(
    child: ChildProcess,
    port: int,
    console: Console,
    *,
    pause: float = CHECK_INTERVAL_SECONDS,
    answer_within: float = RESPONSE_TIMEOUT_SECONDS,
) -> None:
    """End the web server of `child` whenever it misses `FAILURE_THRESHOLD` checks in a row, until cancelled.

    Times are seconds. A process that has never answered is still starting and is left alone.
    """
    answered, misses = 0, 0
    while True:
        # Soon after its start, so that one that hangs after its first answers is noticed too.
        await asyncio.sleep(pause if answered else min(pause, INITIAL_DELAY_SECONDS))
        pid = child.pid
        if await _is_responding(port, answer_within):
            answered, misses = pid, 0
        elif pid and pid == answered == child.pid:
            misses += 1
        if misses == FAILURE_THRESHOLD:
            console.line(
                "slipway",
                f"{child.program.name} runs but did not answer /healthz {FAILURE_THRESHOLD} times"
                f" within {answer_within:g} s; it is started again",
            )
            child.write_traceback()
            await child.end()
            answered, misses = 0, 0


async def _is_responding(port: int, within: float) -> bool:
    """Return whether the server responds, with any status."""
    # Any other name would be refused, and the refusal written to the log.
    host = urlsplit(settings.PUBLIC_URL).netloc
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                return bool(await reader.read(1))
            finally:
                writer.close()
    except OSError:
        return False


async def run_web_server(port: int, command: tuple[str, ...]) -> int:
    """Run a responsive web server until a signal arrives; return the exit status."""
    console = PlainConsole()
    child = ChildProcess(Program("web", command, stop_seconds=12.0), os.environ, console)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    jobs = [
        asyncio.create_task(child.keep_running()),
        asyncio.create_task(restart_when_unresponsive(child, port, console)),
        asyncio.create_task(ended.wait()),
    ]
    done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
    await child.stop()
    for job in jobs:
        job.cancel()
    for job in done:
        # Raises the error that prevented the start.
        job.result()
    return 0


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.exit(asyncio.run(run_web_server(int(sys.argv[1]), tuple(sys.argv[2:]))))
