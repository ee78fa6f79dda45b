"""Command `make capacity`: what an installation needs, computed from the measured cost of each unit.

Costs are from the two cores of docs/contributing/performance.md; `docs/scale.md` shows the result.
"""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

HEARTBEAT_SECONDS, POLL_SECONDS = 60, 50
# Load of a core that leaves room for a deployment rush or the loss of one process in three.
USABLE_CORE = 0.5
SECONDS_OF_DAY = 86_400


@dataclass(frozen=True)
class Costs:
    """Measured cost of one unit: seconds of a core, bytes, or calls.

    `web`, `worker` and `database` name whose cores; the database's share includes that of the broker.
    """

    socket_bytes: int = 26_400
    poll_bytes: int = 27_500
    process_bytes: int = 150 * 1024**2
    web_heartbeat: float = 1 / 7_300
    web_connect: float = 0.0087
    web_poll: float = 0.0176
    web_page: float = 0.041
    web_line: float = 0.000_058
    web_task: float = 0.032
    web_start: float = 0.064
    worker_deployment: float = 0.267
    worker_wait_second: float = 0.000_038
    worker_route: float = 0.020
    database_heartbeat: float = 0.000_3
    database_connect: float = 0.0036
    database_poll: float = 0.0147
    database_page: float = 0.0073
    database_line: float = 0.000_022
    database_task: float = 0.0137
    database_deployment: float = 0.146
    line_bytes: int = 33
    deployment_bytes: int = 32 * 1024
    calls_with_events: int = 9
    calls_with_polling: int = 24


@dataclass(frozen=True)
class Size:
    """Size of an installation."""

    delegates: int = 100_000
    polling_share: float = 0.1
    deployments_per_hour: int = 1_000
    minutes_per_deployment: float = 5.0
    lines_per_deployment: int = 5_000
    delegated_share: float = 0.5
    pages_per_second: float = 20.0
    kept_days: int = 90
    has_events: bool = True

    @property
    def deployments_per_second(self) -> float:
        return self.deployments_per_hour / 3600

    @property
    def waiting(self) -> float:
        """Return the number of deployments that wait for AWS at the same time."""
        return self.deployments_per_second * self.minutes_per_deployment * 60

    @property
    def sockets(self) -> float:
        return self.delegates * (1 - self.polling_share)

    @property
    def lines_per_second(self) -> float:
        return self.deployments_per_second * self.lines_per_deployment


@dataclass(frozen=True)
class Capacity:
    """What a size needs."""

    size: Size
    costs: Costs = field(default_factory=Costs)
    pool_size: int = 8
    worker_concurrency: int = 2

    @property
    def calls_per_deployment(self) -> int:
        return self.costs.calls_with_events if self.size.has_events else self.costs.calls_with_polling

    @property
    def calls_per_second(self) -> float:
        return self.size.deployments_per_second * self.calls_per_deployment

    @property
    def tasks_per_second(self) -> float:
        """Return the calls that delegates make."""
        return self.calls_per_second * self.size.delegated_share

    @property
    def web_cores(self) -> dict[str, float]:
        """Return the cores of web processes by their use."""
        size, costs = self.size, self.costs
        return {
            "heartbeats": size.delegates / HEARTBEAT_SECONDS * costs.web_heartbeat,
            "long polls": size.delegates * size.polling_share / POLL_SECONDS * costs.web_poll,
            "tasks of delegates": self.tasks_per_second * costs.web_task,
            "log lines": size.lines_per_second * costs.web_line,
            "pages": size.pages_per_second * costs.web_page,
            "starts of deployments": size.deployments_per_second * costs.web_start,
        }

    @property
    def worker_cores(self) -> dict[str, float]:
        """Return the cores of workers by their use."""
        size, costs = self.size, self.costs
        return {
            "deployments": size.deployments_per_second * costs.worker_deployment,
            "waits": size.waiting * costs.worker_wait_second,
            "routing": self.tasks_per_second * costs.worker_route,
        }

    @property
    def database_cores(self) -> dict[str, float]:
        """Return the cores of PostgreSQL and Valkey by their use."""
        size, costs = self.size, self.costs
        return {
            "heartbeats": size.delegates / HEARTBEAT_SECONDS * costs.database_heartbeat,
            "long polls": size.delegates * size.polling_share / POLL_SECONDS * costs.database_poll,
            "tasks of delegates": self.tasks_per_second * costs.database_task,
            "log lines": size.lines_per_second * costs.database_line,
            "pages": size.pages_per_second * costs.database_page,
            "deployments": size.deployments_per_second * costs.database_deployment,
        }

    @property
    def web_processes(self) -> int:
        return max(math.ceil(sum(self.web_cores.values()) / USABLE_CORE), 2)

    @property
    def workers(self) -> int:
        cores = sum(self.worker_cores.values()) / USABLE_CORE
        return max(math.ceil(cores / self.worker_concurrency), 2)

    @property
    def connections(self) -> int:
        """Return `max_connections` of PostgreSQL."""
        return self.web_processes * self.pool_size + self.workers * self.worker_concurrency + 10

    @property
    def socket_memory(self) -> float:
        return self.size.sockets * self.costs.socket_bytes

    @property
    def memory_bytes(self) -> float:
        """Return the memory of web processes and workers together."""
        size, costs = self.size, self.costs
        polls = size.delegates * size.polling_share * costs.poll_bytes
        processes = self.web_processes + self.workers * (1 + self.worker_concurrency)
        return self.socket_memory + polls + processes * costs.process_bytes

    @property
    def bytes_per_day(self) -> float:
        """Return the growth of the database by deployments."""
        size, costs = self.size, self.costs
        each = costs.deployment_bytes + size.lines_per_deployment * costs.line_bytes
        return size.deployments_per_second * SECONDS_OF_DAY * each

    @property
    def reconnect_seconds(self) -> float:
        """Return the time until all sockets are back, if each web process has a core for it."""
        return self.size.sockets * self.costs.web_connect / self.web_processes

    def list_rows(self) -> Iterator[tuple[str, str]]:
        """Yield each need as name and value."""
        yield "web processes, each with a core half used", f"{self.web_processes}"
        for use, cores in self.web_cores.items():
            yield f"cores of web: {use}", f"{cores:.2f}"
        yield f"workers of {self.worker_concurrency} processes", f"{self.workers}"
        for use, cores in self.worker_cores.items():
            yield f"cores of workers: {use}", f"{cores:.2f}"
        for use, cores in self.database_cores.items():
            yield f"cores of PostgreSQL and Valkey: {use}", f"{cores:.2f}"
        yield "connections of PostgreSQL", f"{self.connections}"
        yield "memory of web processes and workers", f"{self.memory_bytes / 1024**3:.1f} GiB"
        yield "growth of the database a day", f"{self.bytes_per_day / 1024**3:.1f} GiB"
        kept = self.bytes_per_day * self.size.kept_days
        yield f"database after {self.size.kept_days} days", f"{kept / 1024**3:.0f} GiB"
        yield "deployments that wait at the same time", f"{self.size.waiting:.0f}"
        yield "calls to AWS a second", f"{self.calls_per_second:.1f}"
        yield (
            "registrations a second, of 1 in each account and region",
            f"{self.size.deployments_per_second:.2f}",
        )
        yield "all sockets back after a restart of all web processes", f"{self.reconnect_seconds:.0f} s"


def format_sizes(sizes: Mapping[str, Size]) -> Iterator[str]:
    """Yield a table in Markdown with a column for each size."""
    rows = {name: dict(Capacity(size).list_rows()) for name, size in sizes.items()}
    yield f"| Need | {' | '.join(rows)} |"
    yield f"|---|{'---|' * len(rows)}"
    for need in next(iter(rows.values())):
        yield f"| {need} | {' | '.join(row[need] for row in rows.values())} |"


def format_costs(costs: Costs) -> Iterator[str]:
    """Yield a table in Markdown of the costs by unit."""
    yield "| Unit | Web | Worker | PostgreSQL and Valkey | Memory or disk |"
    yield "|---|---|---|---|---|"
    times = {
        "heartbeat": (costs.web_heartbeat, 0, costs.database_heartbeat, ""),
        "socket that opens, then idle": (
            costs.web_connect,
            0,
            costs.database_connect,
            f"{costs.socket_bytes / 1024:.1f} KiB",
        ),
        "long poll of 50 s": (costs.web_poll, 0, costs.database_poll, f"{costs.poll_bytes / 1024:.1f} KiB"),
        "task of a delegate": (costs.web_task, costs.worker_route, costs.database_task, ""),
        "log line": (costs.web_line, 0, costs.database_line, f"{costs.line_bytes} bytes"),
        "page": (costs.web_page, 0, costs.database_page, ""),
        "deployment": (
            costs.web_start,
            costs.worker_deployment,
            costs.database_deployment,
            f"{costs.deployment_bytes / 1024:.0f} KiB",
        ),
        "second of a waiting deployment": (0, costs.worker_wait_second, 0, ""),
        "process, alone": (0, 0, 0, f"{costs.process_bytes / 1024**2:.0f} MiB"),
    }
    for unit, (web, worker, database, space) in times.items():
        yield f"| {unit} | {' | '.join(map(_format_time, (web, worker, database)))} | {space} |"


def _format_time(seconds: float) -> str:
    return f"{seconds * 1000:,.3g} ms" if seconds else ""


SIZES: Final = {
    "1,000 delegates, 50 deployments an hour": Size(1_000, deployments_per_hour=50, pages_per_second=2),
    "10,000 delegates, 200 an hour": Size(10_000, deployments_per_hour=200, pages_per_second=5),
    "100,000 delegates, 1,000 an hour": Size(),
}


def main() -> None:
    """Print the costs, and the needs of the documented sizes or of the one that the environment names."""
    sizes: Mapping[str, Size] = SIZES
    if "DELEGATES" in os.environ or "DEPLOYMENTS" in os.environ:
        delegates, hourly = (int(os.environ.get(name, "0")) for name in ("DELEGATES", "DEPLOYMENTS"))
        sizes = {f"{delegates:,} delegates, {hourly:,} an hour": Size(delegates, deployments_per_hour=hourly)}
    for line in (*format_costs(Costs()), "", *format_sizes(sizes)):
        print(line)


if __name__ == "__main__":
    main()
