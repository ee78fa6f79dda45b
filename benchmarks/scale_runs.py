"""Command `python -m benchmarks.scale_runs`: loads of 1 and 2 processes on the database of DATABASE_URL."""

import os

os.environ.update(DJANGO_SETTINGS_MODULE="tests.settings", SLIPWAY_MODE="embedded", LOG_LEVEL="ERROR")

import django

django.setup()

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import redis
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from benchmarks.agents import Member, create_members, start_crowd
from benchmarks.crew import Crew, start_crew
from benchmarks.logs import Helper
from benchmarks.servers import (
    SLIPWAY,
    Server,
    build_channel_layers,
    build_database_url,
    create_admin_session,
    create_database,
    read_cpu_seconds,
    start_beat,
    start_server,
    start_worker,
)
from delegates.models import DelegateTask, TaskAttempt
from delegates.protocol.limits import SOCKET_PATH
from deployments.models import Execution
from tests.fixtures.delegates import make_task
from tests.fixtures.many_services import Fleet, make_fleet
from tests.fixtures.process_memory import family_of
from tests.fixtures.processes import wait_until

COMBINATIONS = ((1, 1), (2, 1), (1, 2), (2, 2))
SECONDS = float(os.environ.get("SCALE_SECONDS", "10"))
EXECUTIONS = int(os.environ.get("SCALE_EXECUTIONS", "40"))
SOCKETS = int(os.environ.get("SCALE_SOCKETS", "400"))
BEATS_PER_SECOND, BEAT_SECONDS = SOCKETS / 2, 10.0
CLIENTS, LINES = 8, 200
STEPS = 8
LONGEST = 600.0
WAIT_STEP = """
              - step:
                  identifier: wait_{number}
                  name: Wait {number}
                  type: Wait
                  spec: {{duration: 1s}}"""


@dataclass(frozen=True)
class Groups:
    """Process ids of each part of an installation."""

    web: Sequence[int]
    workers: Sequence[int]
    others: Mapping[str, int]

    def read_cpu(self) -> dict[str, float]:
        """Return the CPU seconds of each part so far, with their children."""
        parts = {
            "web": self.web,
            "worker": self.workers,
            **{name: [pid] for name, pid in self.others.items()},
        }
        return {name: sum(_read_family_cpu(pid) for pid in pids) for name, pids in parts.items()}


def _read_family_cpu(pid: int) -> float:
    total = 0.0
    for member in family_of(pid):
        with contextlib.suppress(OSError):
            total += read_cpu_seconds(member)
    return total


@dataclass(frozen=True)
class Load:
    """Figures of one load on one combination: units done, seconds, CPU seconds of each part."""

    units: float
    seconds: float
    cpu: Mapping[str, float]
    remark: str = ""

    @property
    def rate(self) -> float:
        return self.units / self.seconds

    @property
    def cores(self) -> float:
        """Return the cores that all parts of the installation used."""
        return sum(self.cpu.values()) / self.seconds

    def per_core(self, part: str) -> float:
        """Return the units for one CPU second of a part."""
        return self.units / self.cpu[part]

    @property
    def shared_portion(self) -> float:
        """Return the portion of the CPU time that the database and the broker took."""
        return (self.cpu["PostgreSQL"] + self.cpu["Valkey"]) / sum(self.cpu.values())


@dataclass(frozen=True)
class Site:
    """What all combinations have in common."""

    crew: Crew
    fleet: Fleet
    members: Sequence[Member]
    tasks: Sequence[DelegateTask]
    cookie: str
    paths: Sequence[str]


def main() -> None:
    """Print a table for each load."""
    create_database()
    call_command("migrate", verbosity=0)
    settings.API_REQUESTS_PER_MINUTE = 10_000_000
    results: dict[tuple[int, int], dict[str, Load]] = {}
    with start_crew() as crew, override_settings(CHANNEL_LAYERS=build_channel_layers(crew.broker_url)):
        site = _create_site(crew)
        for combination in COMBINATIONS:
            with _start_processes(crew, *combination) as (servers, groups):
                results[combination] = dict(_measure_loads(site, servers, groups))
            print(f"  measured {combination[0]} web x {combination[1]} worker", flush=True)
    for name, (part, unit, _) in LOADS.items():
        for line in _format_table(name, part, unit, {key: loads[name] for key, loads in results.items()}):
            print(line)
    print(f"  load of the machine {', '.join(f'{value:.1f}' for value in os.getloadavg())}")


def _create_site(crew: Crew) -> Site:
    """Create pipelines that wait, agents with a task each, and a session of the administrator."""
    fleet = make_fleet(EXECUTIONS, "scale")
    steps = "".join(WAIT_STEP.format(number=number) for number in range(1, STEPS + 1))
    for pipeline in fleet.pipelines:
        head, _, rest = pipeline.yaml.partition("steps:")
        pipeline.yaml = (
            f"{head}steps:{steps}\n            rollbackSteps:{rest.partition('rollbackSteps:')[2]}"
        )
        pipeline.save(update_fields=["yaml"])
    members = create_members(SOCKETS)
    tasks = [_create_started_task(member) for member in members[:CLIENTS]]
    paths = ["/deployments/", "/services/", "/delegates/", "/api/v1/executions"]
    return Site(crew, fleet, members, tasks, f"slipway={create_admin_session()}", paths)


def _create_started_task(member: Member) -> DelegateTask:
    now, instance = timezone.now(), member.instance
    task = make_task(
        instance.delegate.scope,
        status="STARTED",
        instance=instance,
        fence=1,
        attempts=1,
        started_at=now,
        deadline=now + timedelta(hours=2),
    )
    TaskAttempt.objects.create(task=task, fence=1, instance=instance, at=now)
    return task


@contextlib.contextmanager
def _start_processes(crew: Crew, webs: int, workers: int) -> Iterator[tuple[list[Server], Groups]]:
    environment = {
        **os.environ,
        "REDIS_URL": crew.broker_url,
        "DATABASE_URL": build_database_url(),
        "SLIPWAY_AWS_QUOTA_SHARE": "50",
        "LOG_LEVEL": "ERROR",
    }
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slipway-bench-")))
        servers = [stack.enter_context(start_server(SLIPWAY, environment)) for _ in range(webs)]
        worker_pids = [stack.enter_context(start_worker(environment, number)) for number in range(workers)]
        beat = stack.enter_context(start_beat(environment, folder))
        others = {
            "PostgreSQL": _find_database_pid(),
            "Valkey": _find_broker_pid(crew),
            "beat": beat,
        }
        yield servers, Groups([server.pid for server in servers], worker_pids, others)


def _find_database_pid() -> int:
    """Return the parent process of this connection's back end."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchone()
    return int(Path(f"/proc/{backend}/stat").read_text().rpartition(") ")[2].split()[1])


def _find_broker_pid(crew: Crew) -> int:
    with redis.Redis.from_url(crew.broker_url) as client:
        return int(client.info("server")["process_id"])


def _measure_loads(site: Site, servers: Sequence[Server], groups: Groups) -> Iterator[tuple[str, Load]]:
    _warm_up(site, servers, groups)
    for name, (_, _, run) in LOADS.items():
        before = groups.read_cpu()
        units, seconds, remark = run(site, servers)
        cpu = {part: value - before[part] for part, value in groups.read_cpu().items()}
        yield name, Load(units, seconds, cpu, remark)


def _warm_up(site: Site, servers: Sequence[Server], groups: Groups) -> None:
    """Let each process load its modules, which is no part of any load."""
    _load_pages(site, servers)
    pipelines = site.fleet.pipelines[: 2 * len(groups.workers)]
    _wait_for_end(Fleet(site.fleet.deployer, pipelines).start(["1.27"] * len(pipelines)))


def _run_executions(site: Site, _servers: Sequence[Server]) -> tuple[float, float, str]:
    began = time.perf_counter()
    ends = _wait_for_end(site.fleet.start(["1.27"] * EXECUTIONS))
    seconds = time.perf_counter() - began
    durations = [(ended_at - created_at).total_seconds() for created_at, ended_at in ends]
    return EXECUTIONS, seconds, f"each {statistics.median(durations):.1f} s, {STEPS} of waiting"


def _wait_for_end(executions: Sequence[Execution]) -> list[tuple[datetime, datetime]]:
    """Return when each execution was created and ended. Raises `RuntimeError` if one failed."""
    keys = [execution.pk for execution in executions]
    still = Execution.objects.filter(pk__in=keys, ended_at=None)
    wait_until(lambda: not still.exists(), "the end of the executions", LONGEST)
    if Execution.objects.filter(pk__in=keys).exclude(status="SUCCESS").exists():
        raise RuntimeError("an execution failed")
    ended = Execution.objects.filter(pk__in=keys).values_list("created_at", "ended_at")
    return [(created_at, ended_at) for created_at, ended_at in ended if ended_at]


def _upload_lines(site: Site, servers: Sequence[Server]) -> tuple[float, float, str]:
    tasks = [
        {
            "id": str(task.pk),
            "session": member.session,
            "next": DelegateTask.objects.get(pk=task.pk).next_sequence,
        }
        for task, member in zip(site.tasks, site.members, strict=False)
    ]
    answer = _order_clients(servers, do="logs", tasks=tasks, lines=LINES)
    return answer["requests"] * LINES, answer["seconds"], _format_delays(answer)


def _load_pages(site: Site, servers: Sequence[Server]) -> tuple[float, float, str]:
    answer = _order_clients(servers, do="pages", cookie=site.cookie, paths=site.paths)
    return answer["requests"], answer["seconds"], _format_delays(answer)


def _order_clients(servers: Sequence[Server], **order: object) -> dict[str, float]:
    helper = Helper("benchmarks.scale_clients", {})
    try:
        urls = [server.url for server in servers]
        return helper.send_order(urls=urls, clients=CLIENTS, seconds=SECONDS, **order)
    finally:
        helper.process.terminate()
        helper.process.wait()


def _format_delays(answer: Mapping[str, float]) -> str:
    return f"p50 {answer['p50']:.0f}, p95 {answer['p95']:.0f} ms with {CLIENTS} clients"


def _send_heartbeats(site: Site, servers: Sequence[Server]) -> tuple[float, float, str]:
    """Send heartbeats over idle sockets, at a rate that does not load a server fully."""
    with start_crowd() as crowd:
        for number, server in enumerate(servers):
            sessions = [member.session for member in site.members[number :: len(servers)]]
            crowd.send_order(do="open", url=server.url, path=SOCKET_PATH, sessions=sessions)
        began = time.perf_counter()
        rate = crowd.send_order(do="beat", seconds=BEAT_SECONDS, per_second=BEATS_PER_SECOND)["answer"]
        seconds = time.perf_counter() - began
    return rate * BEAT_SECONDS, seconds, f"{SOCKETS} sockets, {BEATS_PER_SECOND:.0f} sent a second"


def _format_table(name: str, part: str, unit: str, loads: Mapping[tuple[int, int], Load]) -> Iterator[str]:
    base, cores = loads[1, 1], os.cpu_count() or 1
    yield f"\n{name}: {unit} a second; the ratio to 1 x 1, and what {cores} cores allow"
    yield f"  web x worker  {unit:>12}/s  ratio  allows  per core of {part}  ratio  cores used  DB and broker"
    for (webs, workers), load in loads.items():
        allowed = max(1.0, cores / base.cores)
        yield (
            f"  {webs} x {workers}         {load.rate:14,.1f}  {load.rate / base.rate:5.2f}  {allowed:6.2f}"
            f"  {load.per_core(part):14,.1f}  {load.per_core(part) / base.per_core(part):5.2f}"
            f"  {load.cores:10.2f}  {load.shared_portion:13.0%}  {load.remark}"
        )


# Of each load: the part whose processes it is for, its unit, and the function that runs it.
LOADS: Final[Mapping[str, tuple[str, str, Callable[[Site, Sequence[Server]], tuple[float, float, str]]]]] = {
    f"executions of {STEPS} steps": ("worker", "executions", _run_executions),
    "log lines of delegates": ("web", "lines", _upload_lines),
    "pages": ("web", "pages", _load_pages),
    "heartbeats on sockets": ("web", "heartbeats", _send_heartbeats),
}


if __name__ == "__main__":
    main()
