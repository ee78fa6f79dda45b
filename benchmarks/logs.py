"""The log: lines a second from a container's output to a hundred sockets, beside a row for each line."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import log_pane
from benchmarks.installation import ROOT, Installation, installed
from benchmarks.log_source import printed
from deployments.log.lines import BlockEntry, encode_blocks

RATE, SECONDS = int(os.environ.get("RATE", "20000")), 15.0
VIEWERS, EXECUTIONS = 100, 10
AT_ONCE, AS_ROWS, PANE_LINES = 200_000, 20_000, 100_000
TICKS = os.sysconf("SC_CLK_TCK")


class Helper:
    """A process that answers each line with a line, both JSON."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **order: Any) -> dict[str, Any]:
        """Send an order and wait for its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return dict(json.loads(self.process.stdout.readline()))


@contextlib.contextmanager
def _helper(module: str, environment: Mapping[str, str]) -> Iterator[Helper]:
    helper = Helper(module, environment)
    try:
        yield helper
    finally:
        helper.process.terminate()
        helper.process.wait()


def report() -> Iterator[str]:
    """Measure storing alone, then a paced stream with all viewers, then the pane in a browser."""
    with installed() as at:
        chosen = {
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": "",
            "REDIS_URL": "",
            "SLIPWAY_MODE": "embedded",
            "SLIPWAY_HOME": str(at.home),
            "PORT": at.url.rsplit(":", 1)[1],
        }
        with _helper("benchmarks.log_writer", chosen) as writer:
            yield from _stored(writer)
            yield from _watched(at, writer, chosen)
            yield from _shown(at, writer)


def _stored(writer: Helper) -> Iterator[str]:
    writer.ask(do="begin", executions=1)
    base = writer.ask(do="rows", lines=AS_ROWS // 10, batch=1)
    yield "  stored, nobody watches            lines/s   lines/s of CPU   bytes/line"
    yield _row("a row and a commit for each line", base, base)
    yield _row("a row for each line, 200 a commit", writer.ask(do="rows", lines=AS_ROWS, batch=200), base)
    for batch, lines in ((1, AS_ROWS // 10), (10, AS_ROWS), (200, AT_ONCE), (2000, AT_ONCE)):
        blocks = writer.ask(do="at once", lines=lines, batch=batch)
        yield _row(f"blocks, {batch} lines a commit", blocks, base)


def _row(what: str, one: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    per_cpu = one["lines"] / one["cpu"]
    times = per_cpu / (base["lines"] / base["cpu"])
    wall = one["lines"] / one["seconds"]
    return f"  {what:<34} {wall:8,.0f} {per_cpu:12,.0f} x {times:4.1f} {one['bytes'] / one['lines']:9.1f}"


def _watched(at: Installation, writer: Helper, chosen: Mapping[str, str]) -> Iterator[str]:
    begun = writer.ask(do="begin", executions=EXECUTIONS)
    server = _listening_on(int(chosen["PORT"]))
    with _helper("benchmarks.log_viewers", {}) as viewers:
        viewers.ask(
            socket=at.url.replace("http", "ws"),
            origin=at.url,
            cookie=f"slipway={begun['session']}",
            executions=begun["executions"],
            viewers=VIEWERS,
        )
        before = _cpu_of(server)
        written = writer.ask(do="paced", rate=RATE, seconds=SECONDS)
        expected = written["lines"] * VIEWERS // EXECUTIONS
        seen = _all_seen(viewers, expected)
        served = _cpu_of(server) - before
    took, lines = written["seconds"], written["lines"]
    yield f"  {RATE:,} lines/s asked for {took:.0f} s, {EXECUTIONS} executions, {VIEWERS} sockets open"
    yield f"    stored {lines / took:,.0f} lines/s, {written['bytes'] / lines:.1f} bytes/line"
    yield f"    seen {seen['lines']:,} of {expected:,}, told as skipped {seen['skipped']:,}"
    yield f"    from line to socket: p50 {seen['p50']} ms, p99 {seen['p99']} ms, at most {seen['max']} ms"
    yield f"    CPU of a core: writer {written['cpu'] / took:.0%}, web server {served / took:.0%}"
    yield f"    largest message: {seen['largest']:,} bytes"


def _shown(at: Installation, writer: Helper) -> Iterator[str]:
    begun = writer.ask(do="begin", executions=1)
    entries = [
        BlockEntry(1_800_000_000_000_000 + number, ("run", "Run", "info", "container"), text)
        for number, text in enumerate(islice(printed(7), PANE_LINES))
    ]
    blocks = [json.loads(block.body) for block in encode_blocks(1, entries)]
    yield from log_pane.report(at.url, begun["session"], begun["executions"][0], blocks)


def _all_seen(viewers: Helper, expected: int) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while True:
        seen = viewers.ask()
        if seen["lines"] + seen["skipped"] >= expected or time.monotonic() > deadline:
            return seen
        time.sleep(0.5)


def _listening_on(port: int) -> int:
    """The process id of the web server that has this port in its command."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"uvicorn" in words and str(port).encode() in words:
                return int(folder.name)
    raise LookupError(f"no web server has the port {port} in its command")


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
