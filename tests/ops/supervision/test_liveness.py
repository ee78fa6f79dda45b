"""A web server that runs and no longer answers is started again; one that is only starting is left alone."""

import asyncio
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ops.supervision.child_process import ChildProcess
from ops.supervision.console import Console
from ops.supervision.liveness import restart_when_unresponsive
from ops.supervision.programs import Program
from tests.fixtures.processes import ROOT
from tests.ports import free_port

# Answers until it is asked for /block, and then holds the interpreter for good.
SERVER = """
import faulthandler, http.server, signal, sys, time
faulthandler.register(signal.SIGUSR1)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/block":
            print("blocked", flush=True)
            keep_the_interpreter()
        self.send_response(200)
        self.end_headers()
        print("answered", flush=True)
    def log_message(self, *_): pass
def keep_the_interpreter():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    while True: pass
print("starting", flush=True)
time.sleep(float(sys.argv[2]))
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@asynccontextmanager
async def run_supervised(
    port: int, output: io.StringIO, *, start_seconds: float = 0
) -> AsyncIterator[ChildProcess]:
    command = (sys.executable, "-c", SERVER, str(port), str(start_seconds))
    console = Console(output)
    child = ChildProcess(Program("web", command, stop_seconds=0.2), os.environ, console)
    jobs = [
        asyncio.create_task(child.keep_running()),
        asyncio.create_task(restart_when_unresponsive(child, port, console, pause=0.05, timeout_seconds=0.3)),
    ]
    try:
        yield child
    finally:
        jobs[1].cancel()
        await child.stop()
        await asyncio.gather(*jobs, return_exceptions=True)


async def until(output: io.StringIO, text: str, times: int = 1) -> None:
    async with asyncio.timeout(60):
        while output.getvalue().count(text) < times:
            await asyncio.sleep(0.01)


async def test_a_server_that_is_stuck_says_where_and_is_started_again() -> None:
    port, output = free_port(), io.StringIO()
    async with run_supervised(port, output) as child:
        await until(output, "answered")
        first = child.pid
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /block HTTP/1.0\r\n\r\n")
        await until(output, "starting", times=2)
        answers = output.getvalue().count("answered")
        await until(output, "answered", times=answers + 1)
        assert child.pid != first
        writer.close()
    assert (
        "web runs but did not answer /healthz 3 times within 0.3 s; it is started again" in output.getvalue()
    )
    assert "in keep_the_interpreter" in output.getvalue()


async def test_a_server_that_is_stuck_before_its_first_answer_is_started_again() -> None:
    port, output = free_port(), io.StringIO()
    with socket.socket() as listener:
        # It listens, and never answers.
        listener.bind(("127.0.0.1", port))
        listener.listen()
        async with run_supervised(port, output, start_seconds=600):
            await until(output, "starting", times=2)
    assert "it is started again" in output.getvalue()


async def test_a_server_that_takes_long_to_start_is_left_alone() -> None:
    port, output = free_port(), io.StringIO()
    async with run_supervised(port, output, start_seconds=2):
        await until(output, "answered")
    assert output.getvalue().count("starting") == 1


def test_a_server_kept_by_itself_ends_with_its_keeper() -> None:
    port = free_port()
    server = (sys.executable, "-c", SERVER, str(port), "0")
    command = (sys.executable, "-m", "ops.supervision.liveness", str(port), *server)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        assert [keeper.stdout.readline() for _ in range(2)] == ["starting\n", "answered\n"]
        child = int(Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text())
        os.kill(child, signal.SIGKILL)
        assert "web was ended by SIGKILL; starting it again" in keeper.stdout.readline()
        assert keeper.stdout.readline() == "starting\n"
        keeper.terminate()
        assert keeper.wait(30) == 0
    with socket.socket() as probe:
        # Connections that are over keep the port for a minute, a listener keeps it from this too.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
