"""Server process of the sandbox: HTTP server, clock thread and save thread."""

import contextlib
import os
import shlex
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import make_server

from sandbox.account import Account
from sandbox.clock import CLOCK
from sandbox.control_api import ControlApi
from sandbox.gateway import Gateway
from sandbox.programs import CONTAINER_PROCESSES, get_default_command

HOST = "127.0.0.1"
TICK_SECONDS = 0.1
# A machine that slept for a night does not catch up on it.
MAX_TICK_SECONDS = 5.0
# Interval of checks for a shutdown or a closed port.
PROCESS_POLL_SECONDS = 0.05
SAVE_SECONDS = 1.0
SAVE_PAUSE_FACTOR = 20.0
MAX_SAVE_PAUSE_SECONDS = 10.0


@dataclass(frozen=True)
class SandboxOptions:
    """Options of a sandbox."""

    port: int
    state: Path | None = None
    speed: float = 1.0
    paused: bool = False
    ends_with_stdin: bool = False
    delegate_command: tuple[str, ...] = ()


class QuietHandler(MotoRequestHandler):
    """Request handler without request logs: the journal has all requests."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        return


class SandboxServer:
    """One sandbox process."""

    def __init__(self, options: SandboxOptions) -> None:
        self.options = options
        # Requested, perhaps by a signal; `end_event` is set once the main thread has noticed.
        self.end_requested = False
        self.end_event = Event()
        self.listening = Event()
        self.closed_for = 0.0
        CLOCK.speed, CLOCK.paused = options.speed, options.paused
        self.account = Account(options.state)
        self.gateway = Gateway(self.account, ControlApi(self.account, self._close_for))

    def run(self) -> None:
        """Serve until a signal, then save."""
        signal.signal(signal.SIGTERM, self._request_end)
        signal.signal(signal.SIGINT, self._request_end)
        for beat in (
            self._pass_time,
            self._save_often,
            *([self._watch_stdin] * self.options.ends_with_stdin),
        ):
            Thread(target=beat, daemon=True).start()
        self._serve()
        self.end_event.set()
        self.account.faults.clear()
        self.account.save()
        with self.account.lock:
            CONTAINER_PROCESSES.close()

    def _serve(self) -> None:
        port = self.options.port
        while not self.end_requested:
            port = self._listen(port)
            pause, self.closed_for = self.closed_for, 0.0
            closed_until = time.monotonic() + pause
            while not self.end_requested and time.monotonic() < closed_until:
                time.sleep(PROCESS_POLL_SECONDS)

    def _listen(self, port: int) -> int:
        """Serve until the shutdown or until a fault closes the port, and return the port."""
        with make_server(HOST, port, self.gateway, threaded=True, request_handler=QuietHandler) as listener:
            if not self.listening.is_set():
                self._open(listener.server_port)
                print(f"sandbox: listening on http://{HOST}:{listener.server_port}", flush=True)  # noqa: T201
            listener.timeout = PROCESS_POLL_SECONDS
            while not self.end_requested and not self.closed_for:
                listener.handle_request()
            return listener.server_port

    def _open(self, port: int) -> None:
        """Start the clock and the containers, once the sandbox's address is known."""
        state = self.options.state
        CONTAINER_PROCESSES.open(
            f"http://{HOST}:{port}",
            self.options.delegate_command or get_default_command(),
            state / "containers" if state else None,
        )
        self.account.resume_programs()
        self.listening.set()

    def _close_for(self, seconds: float) -> None:
        self.closed_for = seconds

    def _request_end(self, *_: Any) -> None:
        # A signal interrupts the main thread anywhere, even in another signal's handler, while any lock may
        # be taken, also that of an Event. So this only sets a flag for that thread.
        self.end_requested = True

    def _pass_time(self) -> None:
        self.listening.wait()
        last = time.monotonic()
        while not self.end_event.wait(TICK_SECONDS):
            now = time.monotonic()
            self.account.watch_programs()
            with self.account.lock:
                if not CLOCK.paused:
                    self.account.advance(min(now - last, MAX_TICK_SECONDS) * CLOCK.speed, by_hand=False)
            last = now

    def _save_often(self) -> None:
        pause = SAVE_SECONDS
        while not self.end_event.wait(pause):
            began = time.monotonic()
            try:
                self.account.save()
            except OSError as exc:
                print(f"sandbox: not saved, the next save tries again: {exc}", file=sys.stderr)  # noqa: T201
            self.account.forget_instances()
            # Requests wait meanwhile: a large account is saved less often, and still loses seconds at most.
            pause = min(
                max(SAVE_SECONDS, SAVE_PAUSE_FACTOR * (time.monotonic() - began)), MAX_SAVE_PAUSE_SECONDS
            )

    def _watch_stdin(self) -> None:
        # Not sys.stdin: its lock in this thread would abort the interpreter at exit.
        while os.read(0, 1024):
            pass
        self._request_end()


def serve(options: SandboxOptions) -> None:
    """Run a sandbox until a signal arrives, then exit."""
    SandboxServer(options).run()
    # The state is saved; unloading moto's modules would only cost a second. A closed output must not prevent
    # the exit.
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(0)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--state", type=Path, help="folder in which the account is kept between runs")
    parser.add_argument("--speed", type=float, default=1.0, help="sandbox seconds per real second")
    parser.add_argument("--paused", action="store_true", help="let time stand until it is moved by hand")
    parser.add_argument("--ends-with-stdin", action="store_true", help="end when standard input is closed")
    parser.add_argument(
        "--delegate-command",
        default="",
        help="what a container of the delegate's image runs; by default the agent of this checkout",
    )


def build_options(arguments: Namespace) -> SandboxOptions:
    return SandboxOptions(
        port=arguments.port,
        state=arguments.state,
        speed=arguments.speed,
        paused=arguments.paused,
        ends_with_stdin=arguments.ends_with_stdin,
        delegate_command=tuple(shlex.split(arguments.delegate_command)),
    )
