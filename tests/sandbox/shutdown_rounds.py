"""Starts many sandboxes and ends each at another moment; a program of its own, as it forks.

A fork has everything imported already, so that dozens of starts take seconds. Prints how each sandbox ended.
"""

import contextlib
import json
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any
from urllib.request import Request, urlopen

from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data

import sandbox.server
from sandbox.account import Account
from sandbox.server import SandboxOptions, serve
from tests.fixtures.signals import signal_under_lock
from tests.ports import free_port

AGAIN = 20
CALLERS = 2
CONNECTIONS = 20
LONGEST_LIFE = 0.5
PATIENCE = 60.0
STUCK = "stuck"
FAULTS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"kind": "hang", "seconds": 60},
    {"kind": "refuse", "seconds": 60},
)
# It tells itself.
MIDDLE = "in the middle of starting and of ending"
WAYS = ("told", "told again and again", "input closed", "told and input closed", MIDDLE)


@dataclass(frozen=True)
class Started:
    """One running sandbox."""

    way: str
    pid: int
    port: int
    stdin: int

    def end(self) -> None:
        if self.way.startswith("told"):
            os.kill(self.pid, signal.SIGTERM)
        for _ in range(AGAIN if self.way == "told again and again" else 0):
            time.sleep(random.uniform(0, 0.0005))
            os.kill(self.pid, signal.SIGTERM)
        if "input closed" in self.way:
            os.close(self.stdin)

    def result(self) -> str:
        """Return how it ended; kill one that does not end."""
        result = self._wait()
        if "input closed" not in self.way:
            os.close(self.stdin)
        return result

    def _wait(self) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return str(os.waitstatus_to_exitcode(status))
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return STUCK


def start(folder: Path, way: str) -> Started:
    port, (reading, writing) = free_port(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(reading)
        return Started(way, pid, port, writing)
    try:
        os.dup2(reading, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        # The inputs of the others, which would stay open in here.
        os.closerange(3, 64)
        if way == MIDDLE:
            signal_under_lock()
        serve(SandboxOptions(port, state=folder / str(port), ends_with_stdin=True))
    finally:
        os._exit(70)


def call(started: Started, fault: dict[str, Any] | None, stop_event: Event) -> None:
    """Keep it busy with calls, faults, and connections that say nothing: each is a new thread in there."""
    url, names = f"http://127.0.0.1:{started.port}", iter(range(10**6))
    headers = {
        "Authorization": "AWS4-HMAC-SHA256 Credential=AKIATEST/20260101/us-east-1/ecs/aws4_request",
        "X-Amz-Target": "AmazonEC2ContainerServiceV20141113.CreateCluster",
        "Content-Type": "application/x-amz-json-1.1",
    }
    # Most of a machine would be gone with asking who is not there yet, or no more.
    while not stop_event.wait(0.002):
        with contextlib.suppress(OSError, HTTPException):
            for _ in range(CONNECTIONS):
                socket.create_connection(("127.0.0.1", started.port)).close()
            send_request(Request(url, json.dumps({"clusterName": f"c{next(names)}"}).encode(), headers))
            if fault is not None:
                send_request(Request(f"{url}/sandbox/faults", json.dumps(fault).encode()))


def send_request(request: Request) -> None:
    with urlopen(request, timeout=5) as answer:
        answer.read()


def run_shutdown_round(folder: Path) -> list[tuple[str, str]]:
    """Start some sandboxes, end each in its way at a random moment, and return the results."""
    living, stop_event = [start(folder, way) for way in WAYS], Event()
    callers = [
        Thread(target=call, args=(process, random.choice(FAULTS), stop_event)) for process in living * CALLERS
    ]
    for caller in callers:
        caller.start()
    for sandbox_process in living:
        time.sleep(random.uniform(0, LONGEST_LIFE / len(WAYS)))
        sandbox_process.end()
    results = [(process.way, process.result()) for process in living]
    stop_event.set()
    for caller in callers:
        caller.join()
    return results


def main(rounds: int) -> None:
    # The first account of a process reads many files: it would take most of a short life.
    Account(None)
    BackendDict.reset()
    reset_model_data()
    sandbox.server.SAVE_SECONDS, sandbox.server.SAVE_PAUSE_FACTOR = 0.01, 1.0
    with TemporaryDirectory() as folder:
        results = [result for _ in range(rounds) for result in run_shutdown_round(Path(folder))]
    print(
        json.dumps(
            {way: Counter(result for result_way, result in results if result_way == way) for way in WAYS}
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
