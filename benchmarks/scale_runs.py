"""Command `python -m benchmarks.scale_runs`: loads of 1 and 2 processes on the database of DATABASE_URL."""

import os

os.environ.update(DJANGO_SETTINGS_MODULE="tests.settings", SLIPWAY_MODE="embedded", LOG_LEVEL="ERROR")

import django

django.setup()

import contextlib
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import redis
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from benchmarks.agents import Member, create_members, offer_task, start_crowd
from benchmarks.crew import Crew, start_crew
from benchmarks.goals import Figure
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
# All at once, so that a worker always has some that are due: one execution is due for 0.4 of its 8 seconds.
EXECUTIONS = int(os.environ.get("SCALE_EXECUTIONS", "160"))
SOCKETS = int(os.environ.get("SCALE_SOCKETS", "400"))
# Part of the names of the loads to measure; all without it.
CHOSEN = os.environ.get("SCALE_LOADS", "")
BEATS_PER_SECOND, BEAT_SECONDS = SOCKETS / 2, 10.0
TASKS = int(os.environ.get("SCALE_TASKS", "400"))
POLLING, POLLED_SECONDS = SOCKETS // 2, 100.0
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

    def send_workers(self, number: signal.Signals) -> None:
        """Send a signal to the workers, their children and the beat."""
        for pid in (*self.workers, self.others["beat"]):
            for member in family_of(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, number)


def _read_family_cpu(pid: int) -> float:
    total = 0.0
    for member in family_of(pid):
        with contextlib.suppress(OSError):
            total += read_cpu_seconds(member)
    return total


@dataclass(frozen=True)
class Load:
    """Figures of one load on one combination: units done, seconds, CPU seconds of each part.

    `slow` is the p95 of its requests in milliseconds, 0 if it has none.
    """

    units: float
    seconds: float
    cpu: Mapping[str, float]
    remark: str = ""
    slow: float = 0.0

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


class Outcome(NamedTuple):
    """What a load did: units, seconds, a remark, and the p95 of its requests in milliseconds."""

    units: float
    seconds: float
    remark: str
    slow: float = 0.0


@dataclass(frozen=True)
class Site:
    """What all combinations have in common."""

    crew: Crew
    fleet: Fleet
    members: Sequence[Member]
    polling: Sequence[Member]
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
    for name in (name for name in UNITS if name in results[1, 1]):
        part, unit = UNITS[name]
        for line in _format_table(name, part, unit, {key: loads[name] for key, loads in results.items()}):
            print(line)
    for line in _format_costs(results[1, 1]):
        print(line)
    if pages := results[1, 1].get(PAGES):
        print(Figure("P8 users", pages.slow).to_line())
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
    members = create_members(SOCKETS + POLLING)
    tasks = [_create_started_task(member) for member in members[:CLIENTS]]
    paths = ["/deployments/", "/services/", "/delegates/", "/api/v1/executions"]
    return Site(
        crew, fleet, members[:SOCKETS], members[SOCKETS:], tasks, f"slipway={create_admin_session()}", paths
    )


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
    with contextlib.ExitStack() as stack:
        crowds = [stack.enter_context(start_crowd()) for _ in servers]
        if CHOSEN in EXECUTION_LOAD:
            yield EXECUTION_LOAD, _measure_executions(site, groups)
        for name, (_, _, run) in LOADS.items():
            if CHOSEN in name:
                yield name, _measure(groups, lambda run=run: run(site, servers, crowds))  # type: ignore[misc]
        if CHOSEN in POLLS and len(servers) == len(groups.workers) == 1:
            yield POLLS, _measure(groups, lambda: _poll(site, crowds))


def _measure(groups: Groups, run: Callable[[], Outcome]) -> Load:
    before = groups.read_cpu()
    outcome = run()
    cpu = {part: value - before[part] for part, value in groups.read_cpu().items()}
    return Load(outcome.units, outcome.seconds, cpu, outcome.remark, outcome.slow)


def _warm_up(site: Site, servers: Sequence[Server], groups: Groups) -> None:
    """Let each process load its modules, which is no part of any load."""
    _load_pages(site, servers)
    pipelines = site.fleet.pipelines[: 2 * len(groups.workers)]
    _wait_for_end(Fleet(site.fleet.deployer, pipelines).start(["1.27"] * len(pipelines)))


def _measure_executions(site: Site, groups: Groups) -> Load:
    """Run executions that are all due when the measurement begins, so that their start is no part of it."""
    groups.send_workers(signal.SIGSTOP)
    try:
        executions = site.fleet.start(["1.27"] * EXECUTIONS)
    finally:
        groups.send_workers(signal.SIGCONT)
    return _measure(groups, lambda: _finish_executions(executions))


def _finish_executions(executions: Sequence[Execution]) -> Outcome:
    began = time.perf_counter()
    ends = _wait_for_end(executions)
    seconds = time.perf_counter() - began
    durations = [(ended_at - created_at).total_seconds() for created_at, ended_at in ends]
    return Outcome(len(ends), seconds, f"{len(ends)} at once, each {statistics.median(durations):.1f} s")


def _wait_for_end(executions: Sequence[Execution]) -> list[tuple[datetime, datetime]]:
    """Return when each execution was created and ended. Raises `RuntimeError` if one failed."""
    keys = [execution.pk for execution in executions]
    still = Execution.objects.filter(pk__in=keys, ended_at=None)
    wait_until(lambda: not still.exists(), "the end of the executions", LONGEST)
    if Execution.objects.filter(pk__in=keys).exclude(status="SUCCESS").exists():
        raise RuntimeError("an execution failed")
    ended = Execution.objects.filter(pk__in=keys).values_list("created_at", "ended_at")
    return [(created_at, ended_at) for created_at, ended_at in ended if ended_at]


def _upload_lines(site: Site, servers: Sequence[Server], _crowds: Sequence[Helper]) -> Outcome:
    tasks = [
        {
            "id": str(task.pk),
            "session": member.session,
            "next": DelegateTask.objects.get(pk=task.pk).next_sequence,
        }
        for task, member in zip(site.tasks, site.members, strict=False)
    ]
    answer = _order_clients(servers, do="logs", tasks=tasks, lines=LINES)
    return Outcome(answer["requests"] * LINES, answer["seconds"], _format_delays(answer))


def _load_pages(site: Site, servers: Sequence[Server], _crowds: Sequence[Helper] = ()) -> Outcome:
    answer = _order_clients(servers, do="pages", cookie=site.cookie, paths=site.paths)
    return Outcome(answer["requests"], answer["seconds"], _format_delays(answer), answer["p95"])


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


def _open_sockets(site: Site, servers: Sequence[Server], crowds: Sequence[Helper]) -> Outcome:
    began = time.perf_counter()
    orders = [
        {"do": "open", "url": server.url, "path": SOCKET_PATH, "sessions": _list_sessions(site.members, part)}
        for server, part in zip(servers, _split(len(crowds)), strict=True)
    ]
    _order_crowds(crowds, orders)
    return Outcome(SOCKETS, time.perf_counter() - began, "50 at a time for each server")


def _split(count: int) -> list[slice]:
    return [slice(number, None, count) for number in range(count)]


def _list_sessions(members: Sequence[Member], part: slice) -> list[str]:
    return [member.session for member in members[part]]


def _order_crowds(crowds: Sequence[Helper], orders: Sequence[Mapping[str, object]]) -> list[float]:
    """Give each crowd its order, side by side, and return the answers."""
    with ThreadPoolExecutor(len(crowds)) as pool:
        answers = [
            pool.submit(crowd.send_order, **order) for crowd, order in zip(crowds, orders, strict=True)
        ]
        return [answer.result()["answer"] for answer in answers]


def _send_heartbeats(_site: Site, _servers: Sequence[Server], crowds: Sequence[Helper]) -> Outcome:
    """Send heartbeats over idle sockets, at a rate that does not load a server fully."""
    began = time.perf_counter()
    order = {"do": "beat", "seconds": BEAT_SECONDS, "per_second": BEATS_PER_SECOND / len(crowds)}
    rate = sum(_order_crowds(crowds, [order] * len(crowds)))
    seconds = time.perf_counter() - began
    return Outcome(rate * BEAT_SECONDS, seconds, f"{SOCKETS} sockets, {BEATS_PER_SECOND:.0f} sent a second")


def _run_tasks(site: Site, _servers: Sequence[Server], _crowds: Sequence[Helper]) -> Outcome:
    """Offer tasks to agents on sockets, as fast as this process can, until all are done."""
    began = time.perf_counter()
    tasks = [offer_task(site.members[number % SOCKETS].instance) for number in range(TASKS)]
    offered = time.perf_counter() - began
    still = DelegateTask.objects.filter(pk__in=[task.pk for task in tasks]).exclude(status="SUCCEEDED")
    wait_until(lambda: not still.exists(), "the end of the tasks", LONGEST)
    return Outcome(TASKS, time.perf_counter() - began, f"offered within {offered:.1f} s")


def _poll(site: Site, crowds: Sequence[Helper]) -> Outcome:
    """Let agents poll for some of their waiting times."""
    began = time.perf_counter()
    _order_crowds(crowds, [{"do": "poll", "sessions": _list_sessions(site.polling, slice(None))}])
    time.sleep(POLLED_SECONDS)
    polls = sum(_order_crowds(crowds, [{"do": "count polls"}]))
    return Outcome(polls, time.perf_counter() - began, f"{POLLING} agents")


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


def _format_costs(loads: Mapping[str, Load]) -> Iterator[str]:
    """Yield the processor time of each part for one unit of each load, with one process of each kind."""
    parts = list(next(iter(loads.values())).cpu)
    yield "\nmilliseconds of a core for one unit, 1 x 1"
    yield f"  {'':<26}" + "".join(f"{part:>12}" for part in parts)
    for name, load in loads.items():
        cells = "".join(f"{load.cpu[part] / load.units * 1000:12.3f}" for part in parts)
        yield f"  {name:<26}{cells}   of {load.units:,.0f}, {load.remark}"


EXECUTION_LOAD: Final = f"executions of {STEPS} steps"
PAGES: Final = "pages"
POLLS: Final = "long polls of delegates"
Run = Callable[[Site, Sequence[Server], Sequence[Helper]], Outcome]
# Of each load: the part whose processes it is for, its unit, and the function that runs it.
LOADS: Final[Mapping[str, tuple[str, str, Run]]] = {
    "log lines of delegates": ("web", "lines", _upload_lines),
    PAGES: ("web", "pages", _load_pages),
    "sockets that open": ("web", "sockets", _open_sockets),
    "heartbeats on sockets": ("web", "heartbeats", _send_heartbeats),
    "tasks of delegates": ("web", "tasks", _run_tasks),
}
UNITS: Final = {EXECUTION_LOAD: ("worker", "executions")} | {
    name: (part, unit) for name, (part, unit, _) in LOADS.items()
}


if __name__ == "__main__":
    main()
