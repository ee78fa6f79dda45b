"""Log lines a second from a container to a hundred sockets, compared with a row for each line."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import log_pane
from benchmarks.goals import Figure
from benchmarks.installation import ROOT, Installation, start_installation
from benchmarks.log_source import generate_lines
from deployments.log.lines import BlockEntry, encode_blocks

# A little more than the goal of 20,000: the last lines are stored after the time in which all are sent.
RATE, SECONDS = int(os.environ.get("RATE", "20500")), 15.0
VIEWERS, EXECUTIONS = 100, 10
VIEWERS_OF_ONE = 500
AT_ONCE, AS_ROWS, PANE_LINES = 200_000, 20_000, 100_000
TICKS = os.sysconf("SC_CLK_TCK")


class Helper:
    """A process that answers each JSON line with a JSON line."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send_order(self, **order: Any) -> dict[str, Any]:
        """Send an order and wait for its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return dict(json.loads(self.process.stdout.readline()))


@contextlib.contextmanager
def _start_helper(module: str, environment: Mapping[str, str]) -> Iterator[Helper]:
    helper = Helper(module, environment)
    try:
        yield helper
    finally:
        helper.process.terminate()
        helper.process.wait()


def report() -> Iterator[str | Figure]:
    """Measure storing alone, then a paced stream with all viewers, then the pane in a browser."""
    with start_installation() as at:
        variables = {
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": "",
            "REDIS_URL": "",
            "SLIPWAY_MODE": "embedded",
            "SLIPWAY_HOME": str(at.home),
            "PORT": at.url.rsplit(":", 1)[1],
        }
        with _start_helper("benchmarks.log_writer", variables) as writer:
            yield from _measure_storage(writer)
            yield from _measure_viewers(at, writer, variables)
            yield from _measure_pane(at, writer)


def _measure_storage(writer: Helper) -> Iterator[str]:
    writer.send_order(do="begin", executions=1)
    base = writer.send_order(do="rows", lines=AS_ROWS // 10, batch=1)
    yield "  stored, nobody watches            lines/s   lines/s of CPU   bytes/line"
    yield _format_row("a row and a commit for each line", base, base)
    yield _format_row(
        "a row for each line, 200 a commit", writer.send_order(do="rows", lines=AS_ROWS, batch=200), base
    )
    for batch, lines in ((1, AS_ROWS // 10), (10, AS_ROWS), (200, AT_ONCE), (2000, AT_ONCE)):
        blocks = writer.send_order(do="at once", lines=lines, batch=batch)
        yield _format_row(f"blocks, {batch} lines a commit", blocks, base)


def _format_row(label: str, stats: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    per_cpu = stats["lines"] / stats["cpu"]
    times = per_cpu / (base["lines"] / base["cpu"])
    wall = stats["lines"] / stats["seconds"]
    line_bytes = stats["bytes"] / stats["lines"]
    return f"  {label:<34} {wall:8,.0f} {per_cpu:12,.0f} x {times:4.1f} {line_bytes:9.1f}"


@dataclass(frozen=True)
class Delivery:
    """Lines stored by a paced writer and received by sockets, with the processor time of the web server."""

    storage: Mapping[str, Any]
    received: Mapping[str, Any]
    expected: int
    served_seconds: float

    def format_lines(self) -> Iterator[str]:
        """Yield the figures as lines of the report."""
        received, took, lines = self.received, self.storage["seconds"], self.storage["lines"]
        yield f"    stored {lines / took:,.0f} lines/s, {self.storage['bytes'] / lines:.1f} bytes/line"
        yield f"    seen {received['lines']:,} of {self.expected:,}, told as skipped {received['skipped']:,}"
        delays = f"p50 {received['p50']} ms, p99 {received['p99']} ms, at most {received['max']} ms"
        yield f"    from line to socket: {delays}"
        yield (
            f"    CPU of a core: writer {self.storage['cpu'] / took:.0%}, "
            f"web server {self.served_seconds / took:.0%}"
        )
        yield f"    largest message: {received['largest']:,} bytes"


def _measure_delivery(
    at: Installation, writer: Helper, variables: Mapping[str, str], viewers: int, watched: int
) -> Delivery:
    """Write at the rate into all executions while sockets watch the first `watched` of them."""
    reply = writer.send_order(do="begin", executions=EXECUTIONS)
    server = _listening_on(int(variables["PORT"]))
    with _start_helper("benchmarks.log_viewers", {}) as sockets:
        sockets.send_order(
            socket=at.url.replace("http", "ws"),
            origin=at.url,
            cookie=f"slipway={reply['session']}",
            executions=reply["executions"][:watched],
            viewers=viewers,
        )
        before = _cpu_of(server)
        storage = writer.send_order(do="paced", rate=RATE, seconds=SECONDS)
        expected = storage["lines"] * viewers // EXECUTIONS
        return Delivery(storage, _wait_for_delivery(sockets, expected), expected, _cpu_of(server) - before)


def _measure_viewers(
    at: Installation, writer: Helper, variables: Mapping[str, str]
) -> Iterator[str | Figure]:
    spread = _measure_delivery(at, writer, variables, VIEWERS, EXECUTIONS)
    yield f"  {RATE:,} lines/s asked for {SECONDS:.0f} s, {EXECUTIONS} executions, {VIEWERS} sockets open"
    yield from spread.format_lines()
    took, lines = spread.storage["seconds"], spread.storage["lines"]
    yield Figure("P5 lines", lines / took, f"{RATE:,} sent")
    yield Figure("P5 cores", (spread.storage["cpu"] + spread.served_seconds) / took)
    yield Figure("P5 lost", spread.expected - spread.received["lines"], f"{spread.expected:,} sent")
    yield Figure("P6 p50", spread.received["p50"])
    yield Figure("P6 p99", spread.received["p99"])
    yield Figure("P15 bytes", spread.storage["bytes"] / lines)
    crowded = _measure_delivery(at, writer, variables, VIEWERS_OF_ONE, 1)
    yield f"  the same, {VIEWERS_OF_ONE} sockets at one of the executions"
    yield from crowded.format_lines()
    yield Figure("P6 viewers", crowded.received["p99"], f"{RATE // EXECUTIONS:,} lines/s of the step")


def _measure_pane(at: Installation, writer: Helper) -> Iterator[str | Figure]:
    reply = writer.send_order(do="begin", executions=1)
    entries = [
        BlockEntry(1_800_000_000_000_000 + number, ("run", "Run", "info", "container"), text)
        for number, text in enumerate(islice(generate_lines(7), PANE_LINES))
    ]
    blocks = [json.loads(block.body) for block in encode_blocks(1, entries)]
    yield from log_pane.report(at.url, reply["session"], reply["executions"][0], blocks)


def _wait_for_delivery(viewers: Helper, expected: int) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while True:
        stats = viewers.send_order()
        if stats["lines"] + stats["skipped"] >= expected or time.monotonic() > deadline:
            return stats
        time.sleep(0.5)


def _listening_on(port: int) -> int:
    """Return the process id of the web server on this port."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"uvicorn" in words and str(port).encode() in words:
                return int(folder.name)
    raise LookupError(f"no web server has the port {port} in its command")


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
