"""Command `python -m benchmarks.fleet_runs`: many agents on the database of DATABASE_URL."""

import os

os.environ.update(DJANGO_SETTINGS_MODULE="tests.settings", SLIPWAY_MODE="embedded", LOG_LEVEL="ERROR")

import django

django.setup()

import contextlib
import itertools
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.management import call_command
from django.test import override_settings

from benchmarks.agents import Member, create_members, offer_task, start_crowd, submit_named_task
from benchmarks.goals import Figure
from benchmarks.history import analyze
from benchmarks.logs import Helper
from benchmarks.servers import (
    SLIPWAY,
    Server,
    build_channel_layers,
    build_database_url,
    create_database,
    start_broker,
    start_server,
)
from delegates.models import DelegateInstance, DelegateTask
from delegates.protocol.limits import SOCKET_PATH
from tests.fixtures.processes import wait_until
from tests.ports import free_port

SOCKETS = int(os.environ.get("FLEET_SOCKETS", "8000"))
POLLING = int(os.environ.get("FLEET_POLLING", "2000"))
TASKS_PER_SECOND = float(os.environ.get("FLEET_TASKS_PER_SECOND", "100"))
SECONDS = float(os.environ.get("FLEET_SECONDS", "20"))
WEBS = 2
HEARTBEAT_SECONDS = 60
# Submitters beside each other, as the processes of workers are.
SUBMITTERS = 4
# A machine that cannot keep the rate submits no more after so many times the seconds.
LATEST = 3
SETTLES_SECONDS, DELIVERED_SECONDS, RECONNECT_SECONDS = 15.0, 5.0, 120.0


class Site:
    """Web servers with a crowd of agents each, all of which can be started again."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.ports = [str(free_port()) for _ in range(WEBS)]
        self.stack = contextlib.ExitStack()
        self.servers: list[Server] = []
        # A server ends with the thread that started it.
        self.starters = ThreadPoolExecutor(WEBS)

    def start_servers(self) -> None:
        """Start the web servers side by side."""
        starting = [
            self.starters.submit(self.stack.enter_context, start_server(SLIPWAY, self.environment, port))
            for port in self.ports
        ]
        self.servers = [start.result() for start in starting]

    def stop_servers(self) -> None:
        """End all web servers."""
        self.stack.close()
        self.stack = contextlib.ExitStack()


def main() -> None:
    """Print the figures, and those with a goal as lines of their own."""
    create_database()
    call_command("migrate", verbosity=0)
    members = create_members(SOCKETS + POLLING)
    analyze()
    on_sockets, polling = members[:SOCKETS], members[SOCKETS:]
    with (
        start_broker() as (broker_url, _),
        override_settings(CHANNEL_LAYERS=build_channel_layers(broker_url)),
        contextlib.ExitStack() as stack,
    ):
        environment = {**os.environ, "REDIS_URL": broker_url, "DATABASE_URL": build_database_url()}
        site = Site(environment)
        site.start_servers()
        stack.callback(site.stop_servers)
        crowds = [stack.enter_context(start_crowd()) for _ in range(WEBS)]
        for line in _measure_fleet(site, crowds, on_sockets, polling):
            print(line.to_line() if isinstance(line, Figure) else line, flush=True)


def _measure_fleet(
    site: Site, crowds: Sequence[Helper], on_sockets: Sequence[Member], polling: Sequence[Member]
) -> Iterator[str | Figure]:
    idle = [server.kibibytes for server in site.servers]
    began = time.monotonic()
    _order_all(crowds, site, on_sockets, "open", path=SOCKET_PATH)
    took = time.monotonic() - began
    each = (sum(server.kibibytes for server in site.servers) - sum(idle)) / SOCKETS
    yield f"  {SOCKETS:,} sockets open after {took:.0f} s, {each:.1f} KiB each"
    yield Figure("P2 fleet", each)
    yield Figure("P2 process", (max(idle) + 10_000 * each) / 1024, f"computed from {SOCKETS:,}")
    before = [server.kibibytes for server in site.servers]
    _order_all(crowds, site, polling, "poll")
    polls = DelegateInstance.objects.filter(connection=DelegateInstance.Connection.POLLING)
    wait_until(lambda: polls.count() >= POLLING, "the polls to wait", seconds=300)
    time.sleep(SETTLES_SECONDS)
    grown = sum(server.kibibytes for server in site.servers) - sum(before)
    yield f"  {POLLING:,} long polls, {grown / POLLING:.1f} KiB each"
    per_second = SOCKETS / HEARTBEAT_SECONDS
    yield f"  with {per_second:,.0f} heartbeats a second          p50 ms    p99 ms    max ms"
    with _send_heartbeats(crowds, per_second):
        yield from _measure_dispatch(crowds, "by socket, offered", on_sockets, offer_task, "P3 fleet offered")
        yield from _measure_dispatch(
            crowds, "by socket, submitted and routed", on_sockets, submit_named_task, "P3 fleet routed"
        )
        yield from _measure_dispatch(crowds, "by long poll, offered", polling, offer_task, "")
    yield from _measure_restart(site, crowds, on_sockets)


def _order_all(
    crowds: Sequence[Helper], site: Site, members: Sequence[Member], order: str, **more: Any
) -> list[Any]:
    """Give each crowd its part of the agents, side by side, and return the answers."""
    with ThreadPoolExecutor(len(crowds)) as pool:
        answers = [
            pool.submit(
                crowd.send_order,
                do=order,
                url=server.url,
                sessions=[member.session for member in members[number::WEBS]],
                **more,
            )
            for number, (crowd, server) in enumerate(zip(crowds, site.servers, strict=True))
        ]
        return [answer.result()["answer"] for answer in answers]


@contextlib.contextmanager
def _send_heartbeats(crowds: Sequence[Helper], per_second: float) -> Iterator[None]:
    """Send the heartbeats of all sockets while the block lasts."""
    for crowd in crowds:
        crowd.send_order(do="keep beating", per_second=per_second / len(crowds))
    yield
    for crowd in crowds:
        crowd.send_order(do="keep beating", per_second=0)


def _measure_dispatch(
    crowds: Sequence[Helper], label: str, members: Sequence[Member], send: Any, goal: str
) -> Iterator[str | Figure]:
    """Submit tasks at the rate, each for another delegate; yield the delays until notice and assignment."""
    began: dict[str, float] = {}
    chosen = itertools.cycle(members[:: max(len(members) // 1999, 1)])
    lock, count = threading.Lock(), int(TASKS_PER_SECOND * SECONDS)
    start = time.monotonic()

    def submit(number: int) -> None:
        time.sleep(max(start + number / TASKS_PER_SECOND - time.monotonic(), 0))
        if time.monotonic() - start > LATEST * SECONDS:
            return
        with lock:
            member = next(chosen)
        at = time.time()
        key = str(send(member.instance).pk)
        began[key] = at

    with ThreadPoolExecutor(SUBMITTERS) as pool:
        list(pool.map(submit, range(count)))
    rate = len(began) / (time.monotonic() - start)
    time.sleep(DELIVERED_SECONDS)
    seen: dict[str, dict[str, float]] = {"heard": {}, "taken": {}}
    for crowd in crowds:
        for kind, times in crowd.send_order(do="figures")["answer"].items():
            seen[kind] |= times
    now = time.time()
    for kind, times in seen.items():
        arrived = times.keys() & began.keys()
        # What has not arrived counts with the time that it has taken so far; a long poll hears no notice.
        delays = [(times.get(key, now) - at) * 1000 for key, at in began.items()]
        if len(delays) > 1 and (arrived or kind == "taken"):
            cuts = statistics.quantiles(delays, n=100, method="inclusive")
            yield (
                f"  {label + ', ' + kind:<42}{cuts[49]:8.1f}  {cuts[98]:8.1f}  {max(delays):8.1f}"
                f"   {len(arrived)} of {count}, {rate:.0f} a second"
            )
            if kind == "taken" and goal:
                yield Figure(goal, cuts[98])


def _measure_restart(
    site: Site, crowds: Sequence[Helper], members: Sequence[Member]
) -> Iterator[str | Figure]:
    """End both servers, start them again while the agents try, and count what the agents get afterwards."""
    site.stop_servers()
    began = time.monotonic()
    with ThreadPoolExecutor(len(crowds)) as pool:
        waiting = [
            pool.submit(crowd.send_order, do="reconnect", seconds=RECONNECT_SECONDS) for crowd in crowds
        ]
        site.start_servers()
        ready = time.monotonic() - began
        answers = [answer.result()["answer"] for answer in waiting]
    took = max(answers) if min(answers) >= 0 else RECONNECT_SECONDS
    yield f"  both servers restarted: ready after {ready:.1f} s, {SOCKETS:,} sockets back after {took:.1f} s"
    yield Figure("P4 reconnect", took)
    tasks = [offer_task(member.instance) for member in members[:: max(len(members) // 100, 1)]]
    still = DelegateTask.objects.filter(pk__in=[task.pk for task in tasks]).exclude(status="SUCCEEDED")
    wait_until(lambda: not still.exists(), "the tasks after the restart", seconds=60)
    yield f"  {len(tasks)} tasks after the restart: all done"


if __name__ == "__main__":
    main()
