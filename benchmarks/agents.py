"""Agents of a web server: memory of an idle socket, heartbeats, delays of tasks."""

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from benchmarks.copies import store
from benchmarks.goals import Figure
from benchmarks.logs import Helper
from benchmarks.servers import (
    SLIPWAY,
    Server,
    build_channel_layers,
    build_database_url,
    start_broker,
    start_server,
)
from delegates.models import Delegate, DelegateConfiguration, DelegateInstance, DelegateTag, DelegateTask
from delegates.models.tags import build_tags
from delegates.operations.tasks import submit_task
from delegates.protocol.limits import SESSION, SOCKET_PATH
from delegates.protocol.notices import notify_task
from delegates.protocol.sessions import generate_session, hash_secret
from rbac.models import Scope
from tests.fixtures.delegates import make_task, make_token
from tests.fixtures.processes import wait_until

SOCKETS = int(os.environ.get("AGENTS_SOCKETS", "1000"))
POLLING = int(os.environ.get("AGENTS_POLLING", "1000"))
TASKS = int(os.environ.get("AGENTS_TASKS", "200"))
TASKS_PER_SECOND = float(os.environ.get("AGENTS_TASKS_PER_SECOND", "10"))
ROUTED = int(os.environ.get("AGENTS_ROUTED", "20"))
# Seldom enough that none is overtaken by the next of the same agent before it is written.
BEATS_PER_SECOND = float(os.environ.get("AGENTS_BEATS_PER_SECOND", str(SOCKETS / 2)))
SECONDS = float(os.environ.get("AGENTS_SECONDS", "10"))
SETTLES_SECONDS = 15.0
# Of 10,000 delegates, one each ten seconds.
BEATS_OF_FLEET = 1000
BARE = "benchmarks.bare_sockets:application"


@dataclass(frozen=True)
class Member:
    """One agent: its session, and its delegate without other instances."""

    session: str
    instance: DelegateInstance


@dataclass(frozen=True)
class Sockets:
    """Costs of sockets in one server."""

    each_kibibytes: float
    beats: float
    cpu_share: float

    @property
    def beats_per_core(self) -> float:
        return self.beats / self.cpu_share


def report() -> Iterator[str | Figure]:
    """Measure a bare server, then Slipway, with the same sockets and heartbeats."""
    with (
        start_broker() as (broker_url, _),
        override_settings(CHANNEL_LAYERS=build_channel_layers(broker_url)),
    ):
        members = create_members(SOCKETS + POLLING)
        on_sockets, polling = members[:SOCKETS], members[SOCKETS:]
        environment = {**os.environ, "REDIS_URL": broker_url, "DATABASE_URL": build_database_url()}
        with start_server(BARE, environment) as bare, start_crowd() as crowd:
            base = _measure_sockets(bare, crowd, on_sockets)
        with start_server(SLIPWAY, environment) as server, start_crowd() as crowd:
            yield from _compare_sockets(_measure_sockets(server, crowd, on_sockets), base)
            before = server.kibibytes
            crowd.send_order(do="poll", sessions=[member.session for member in polling])
            wait_until(lambda: _count_waiting_polls() >= POLLING, "the polls to wait", seconds=120)
            # Each poll first reads the tasks that already exist.
            time.sleep(SETTLES_SECONDS)
            grown = max(server.kibibytes - before, 0) / max(POLLING, 1)
            threads = _count_threads(server)
            yield f"  {POLLING:,} long polls: {grown:.0f} KiB each, {threads} threads in the server"
            yield "  told and taken                       p50 ms    p99 ms    max ms"
            goals = [("heard", 50, "P3 socket p50"), ("heard", 99, "P3 socket"), ("taken", 99, "P3 taken")]
            yield from _measure_delivery(crowd, "by socket, offered", on_sockets, TASKS, offer_task, goals)
            goals = [("taken", 99, "P3 poll")]
            yield from _measure_delivery(crowd, "by long poll, offered", polling, TASKS, offer_task, goals)
            yield from _measure_delivery(
                crowd,
                "submitted and routed",
                on_sockets,
                ROUTED,
                submit_named_task,
                (("heard", 50, "P3 routed"),),
                per_second=1,
            )


def _measure_sockets(server: Server, crowd: Helper, members: Sequence[Member]) -> Sockets:
    # The first requests load modules; that memory is not a socket's.
    crowd.send_order(do="open", url=server.url, path=SOCKET_PATH, sessions=[members[0].session])
    crowd.send_order(do="beat", seconds=1, per_second=1)
    before = server.kibibytes
    sessions = [member.session for member in members[1:]]
    crowd.send_order(do="open", url=server.url, path=SOCKET_PATH, sessions=sessions)
    time.sleep(1)
    grown = (server.kibibytes - before) / max(len(sessions), 1)
    used, began = server.cpu_seconds, time.monotonic()
    beats = crowd.send_order(do="beat", seconds=SECONDS, per_second=BEATS_PER_SECOND)["answer"]
    share = (server.cpu_seconds - used) / (time.monotonic() - began)
    return Sockets(grown, beats * SECONDS / (time.monotonic() - began), share)


def _compare_sockets(slipway: Sockets, bare: Sockets) -> Iterator[str | Figure]:
    yield f"  {SOCKETS:,} sockets                 Slipway      bare ASGI"
    yield f"  memory of an idle socket      {slipway.each_kibibytes:7.1f} KiB  {bare.each_kibibytes:7.1f} KiB"
    yield f"  heartbeats a second           {slipway.beats:7,.0f}      {bare.beats:7,.0f}"
    yield f"  of a core                     {slipway.cpu_share:7.0%}      {bare.cpu_share:7.0%}"
    yield (
        f"  heartbeats per second of core {slipway.beats_per_core:7,.0f}      {bare.beats_per_core:7,.0f}"
        f"   ratio {slipway.beats_per_core / bare.beats_per_core:.2f}"
    )
    yield Figure("P1 heartbeats", slipway.beats_per_core, f"bare ASGI {bare.beats_per_core:,.0f}")
    yield Figure("P1 fleet", BEATS_OF_FLEET / slipway.beats_per_core * 100, "computed from the goal above")
    yield Figure("P2 socket", slipway.each_kibibytes, f"bare ASGI {bare.each_kibibytes:.0f}")


Send = Callable[[DelegateInstance], DelegateTask]


def offer_task(instance: DelegateInstance) -> DelegateTask:
    """Offer a routed task to an instance: one row and one notification."""
    # So long that no second round of routing comes between.
    delegate, soon = instance.delegate, timezone.now() + timedelta(minutes=5)
    with transaction.atomic():
        task = make_task(delegate.scope, offered_to=delegate, offered_until=soon)
        notify_task(delegate.pk, task.pk)
    return task


def submit_named_task(instance: DelegateInstance) -> DelegateTask:
    """Submit a task as deployments do, with routing over all delegates."""
    url = f"https://{instance.pk}.example.com"
    scope, name = instance.delegate.scope, instance.delegate.name
    return submit_task(scope=scope, kind="check", title="Look", payload={"url": url}, selectors=[name])


def _measure_delivery(
    crowd: Helper,
    label: str,
    members: Sequence[Member],
    count: int,
    send: Send,
    goals: Sequence[tuple[str, int, str]],
    per_second: float = TASKS_PER_SECOND,
) -> Iterator[str | Figure]:
    began: dict[str, float] = {}
    for number in range(count if members else 0):
        due = time.monotonic() + 1 / per_second
        at = time.time()
        began[str(send(members[number * 7 % len(members)].instance).pk)] = at
        time.sleep(max(due - time.monotonic(), 0))
    time.sleep(3)
    figures: Mapping[str, Mapping[str, float]] = crowd.send_order(do="figures")["answer"]
    now = time.time()
    for kind in ("heard", "taken"):
        arrived = figures[kind].keys() & began.keys()
        if not arrived and not any(measured == kind for measured, _, _ in goals):
            continue
        # What has not arrived counts with the time that it has taken so far.
        times = [(figures[kind].get(pk, now) - at) * 1000 for pk, at in began.items()]
        if len(times) > 1:
            cuts = statistics.quantiles(times, n=100, method="inclusive")
            yield _format_row(f"{label}, {kind}", times, cuts, len(arrived))
            for measured, percent, goal in goals:
                if measured == kind:
                    yield Figure(goal, cuts[percent - 1])


def _format_row(label: str, times: Sequence[float], cuts: Sequence[float], arrived: int) -> str:
    return f"  {label:<35}{cuts[49]:8.1f}  {cuts[98]:8.1f}  {max(times):8.1f}   {arrived} of {len(times)}"


def create_members(count: int) -> list[Member]:
    """Create delegates of one instance each, which have a session."""
    scope, primary = Scope.objects.account(), DelegateConfiguration.objects.get(is_primary=True)
    prefix = f"bench-{time.time_ns()}"
    token, now = make_token(scope, f"bench {time.time()}"), timezone.now()
    store(
        Delegate,
        (
            Delegate(scope=scope, name=name, tags=[name], configuration=primary)
            for name in (f"{prefix}-{number}" for number in range(count))
        ),
    )
    store(
        DelegateInstance,
        (
            DelegateInstance(
                delegate=delegate,
                key=f"host-{delegate.pk}/10.0.0.1",
                hostname=f"host-{delegate.pk}",
                connection=DelegateInstance.Connection.NONE,
                token=token,
                capacity=50,
                last_heartbeat_at=now,
                registered_at=now,
            )
            for delegate in Delegate.objects.filter(name__startswith=prefix).order_by("pk")
        ),
    )
    members = []
    for instance in (
        DelegateInstance.objects.filter(token=token).select_related("delegate__scope").order_by("pk")
    ):
        session = generate_session(instance.pk)
        instance.session_hash, instance.session_expires_at = hash_secret(session), now + SESSION
        members.append(Member(session, instance))
    instances = [member.instance for member in members]
    DelegateInstance.objects.bulk_update(instances, ["session_hash", "session_expires_at"], batch_size=500)
    store(DelegateTag, (row for instance in instances for row in build_tags(instance.delegate)))
    return members


def _count_waiting_polls() -> int:
    return DelegateInstance.objects.filter(connection="POLLING").count()


def _count_threads(server: Server) -> int:
    return len(list(Path(f"/proc/{server.pid}/task").iterdir()))


@contextlib.contextmanager
def start_crowd() -> Iterator[Helper]:
    """Run the process of the agents until the block ends."""
    helper = Helper("benchmarks.agent_crowd", {})
    try:
        yield helper
    finally:
        helper.process.terminate()
        helper.process.wait()
