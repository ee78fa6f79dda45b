"""Memory of a delegate: idle, and with 500 concurrent AWS calls (P14: at most 256 MiB)."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

from benchmarks.goals import Figure, parse_lines
from tests.ports import free_port

TASKS, HELD_SECONDS = 500, 6.0
STARTS_SECONDS, IDLE_SECONDS = 10.0, 60.0


def report() -> Iterator[str | Figure]:
    """Measure the idle program, then the executors under load."""
    yield from _measure_idle()
    with _slow_aws() as url:
        busy = subprocess.run(
            [sys.executable, "-m", "benchmarks.delegate", url], stdout=subprocess.PIPE, text=True, check=True
        )
    yield from parse_lines(busy.stdout.splitlines())


def _measure_idle() -> Iterator[str | Figure]:
    # Not for the process of the calls, whose memory is measured.
    from benchmarks.servers import read_cpu_seconds

    port = free_port()
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "PATH": os.environ["PATH"],
            "HARNESS_ACCOUNT_ID": "a",
            "HARNESS_TOKEN": "t",
            "HARNESS_URL": f"http://127.0.0.1:{free_port()}",
            "SLIPWAY_DELEGATE_HOME": home,
            "SLIPWAY_DELEGATE_PORT": str(port),
        }
        program = subprocess.Popen(
            [sys.executable, "-m", "delegates.agent"], env=environment, stdout=subprocess.DEVNULL
        )
        try:
            time.sleep(STARTS_SECONDS)
            used = read_cpu_seconds(program.pid)
            time.sleep(IDLE_SECONDS)
            percent = (read_cpu_seconds(program.pid) - used) / IDLE_SECONDS * 100
            with urlopen(f"http://127.0.0.1:{port}/api/metrics", timeout=5) as answer:
                memory = next(
                    float(line.split()[1])
                    for line in answer.read().decode().splitlines()
                    if line.startswith("slipway_delegate_memory_bytes")
                )
        finally:
            program.kill()
            program.wait()
    mebibytes = memory / 1024 / 1024
    yield Figure("P14 idle", mebibytes)
    yield Figure("P14 processor", percent)
    yield f"idle: {mebibytes:.0f} MiB, {percent:.2f} % of a core"


class _Slow(BaseHTTPRequestHandler):
    """An endpoint with slow answers, so that all calls run at once."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(HELD_SECONDS)
        body = b'{"services": [{"serviceName": "web"}]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Suppress the access log."""


class _Server(ThreadingHTTPServer):
    request_queue_size = TASKS
    daemon_threads = True


@contextmanager
def _slow_aws() -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def _measure_busy(url: str) -> None:
    """Run the load and print its costs; the main function of a separate process."""
    from delegates.agent.executors import ExecutorContext as Surroundings
    from delegates.agent.executors import TaskResult as Answer
    from delegates.agent.executors import execute_task as execute
    from delegates.agent.logs.spool import LogSpool as Spool
    from delegates.agent.tasks import AgentTask as Task
    from delegates.agent.tasks import HeldTasks as Work

    work = Work(TASKS)
    most = 0
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(TASKS) as pool:
        spool = Spool(Path(home), 64 * 1024 * 1024)

        def run(number: int) -> str:
            key = {"kind": "access_key", "access_key_id": "AKIAEXAMPLE", "secret_access_key": "x"}
            call = {"service": "ecs", "operation": "DescribeServices", "params": {"services": ["web"]}}
            params = {**call, "region": "us-east-1", "endpoint_url": url, "credentials": key}
            task = work.add(Task(str(number), "aws", 1, params, time.monotonic()))
            return execute(task, Surroundings(spool.open(task.task.id, 1))).status

        began = time.monotonic()
        futures = [pool.submit(run, number) for number in range(TASKS)]
        while not all(future.done() for future in futures):
            most = max(most, sum(1 for _ in Path("/proc/self/fd").iterdir()))
            time.sleep(0.1)
        good = sum(future.result() == Answer.SUCCEEDED for future in futures)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    spent = time.process_time()
    print(
        f"{TASKS} calls at once: {good} answered in {time.monotonic() - began:.1f} s (each held for "
        f"{HELD_SECONDS:.0f} s), {peak:.0f} MiB at most, {most} open files, {spent:.1f} s of processor"
    )
    print(Figure("P14 waits", peak).to_line())


if __name__ == "__main__":
    _measure_busy(sys.argv[1])
