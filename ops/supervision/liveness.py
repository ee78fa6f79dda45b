"""Liveness checks that restart an unresponsive web server."""

import asyncio
import logging.config
import os
import signal
import sys
from enum import Enum
from typing import Final

from django.conf import settings

from ops.supervision.child_process import ChildProcess
from ops.supervision.console import Console, PlainConsole
from ops.supervision.programs import Program

CHECK_INTERVAL_SECONDS: Final = 5.0
INITIAL_DELAY_SECONDS: Final = 0.5
RESPONSE_TIMEOUT_SECONDS: Final = 10.0
FAILURE_THRESHOLD: Final = 3


class ServerCheck(Enum):
    """Result of a check: answered, connected without an answer, or not even connected."""

    ANSWERED = "answered"
    SILENT = "silent"
    REFUSED = "refused"


async def restart_when_unresponsive(
    child: ChildProcess,
    port: int,
    console: Console,
    *,
    pause: float = CHECK_INTERVAL_SECONDS,
    timeout_seconds: float = RESPONSE_TIMEOUT_SECONDS,
) -> None:
    """End the web server of `child` whenever it misses `FAILURE_THRESHOLD` checks in a row, until cancelled.

    Times are seconds. A process that has not listened yet is still starting and is left alone.
    """
    watched, has_answered, misses = 0, False, 0
    while True:
        # Soon after its start, so that one that hangs after its first answers is noticed too.
        await asyncio.sleep(pause if has_answered else min(pause, INITIAL_DELAY_SECONDS))
        if (pid := child.pid) != watched:
            watched, has_answered, misses = pid, False, 0
        check = await _check_server(port, timeout_seconds)
        if check is ServerCheck.ANSWERED:
            has_answered, misses = True, 0
        elif pid and pid == child.pid and (has_answered or check is ServerCheck.SILENT):
            misses += 1
        if misses == FAILURE_THRESHOLD:
            console.note(
                f"{child.program.name} runs but did not answer /healthz {FAILURE_THRESHOLD} times"
                f" within {timeout_seconds:g} s; it is started again",
            )
            child.write_traceback()
            await child.end()
            has_answered, misses = False, 0


async def _check_server(port: int, within: float) -> ServerCheck:
    """Request /healthz; an answer with any status counts."""
    is_connected = False
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            is_connected = True
            try:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if await reader.read(1):
                    return ServerCheck.ANSWERED
            finally:
                writer.close()
    except OSError:
        pass
    return ServerCheck.SILENT if is_connected else ServerCheck.REFUSED


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


def configure_logging() -> None:
    """Log in the format of the web server, without its filters, which would load Django."""
    configuration = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": settings.LOG_LINES},
        "handlers": {
            "stdout": {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stdout"},
        },
        "root": {"handlers": ["stdout"]},
    }
    logging.config.dictConfig(configuration)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    configure_logging()
    sys.exit(asyncio.run(run_web_server(int(sys.argv[1]), tuple(sys.argv[2:]))))
