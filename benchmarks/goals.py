"""Goals of performance, each beside the figure that a measurement found, and the cause of each known miss."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

_FIGURE_PREFIX: Final = "@figure "
NOT_MEASURED: Final = "not measured"


@dataclass(frozen=True)
class Goal:
    """Goal of a metric: at most `limit`, or at least where `is_least`; `cause` of a miss that is known.

    `proof` names the tests that hold a goal of which no measurement has a figure, or says why there is none.
    """

    metric: str
    limit: float = 0
    unit: str = ""
    is_least: bool = False
    cause: str = ""
    proof: str = ""

    def is_met(self, value: float) -> bool:
        """Return whether a figure meets the goal."""
        return value >= self.limit if self.is_least else value <= self.limit

    def is_worse(self, value: float, than: float) -> bool:
        """Return whether one figure is worse than another."""
        return value < than if self.is_least else value > than

    def __str__(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {self.limit:,g} {self.unit}" if self.unit else ""


@dataclass(frozen=True)
class Figure:
    """Figure of a measurement for a goal, with what a prototype or another program reached beside it."""

    goal: str
    value: float
    baseline: str = ""

    def to_line(self) -> str:
        """Return the figure as a line of a child process."""
        return _FIGURE_PREFIX + json.dumps(asdict(self))


def parse_lines(lines: Iterable[str]) -> Iterator[str | Figure]:
    """Yield the lines of a child process, and the figures among them."""
    for line in lines:
        if line.startswith(_FIGURE_PREFIX):
            yield Figure(**json.loads(line.removeprefix(_FIGURE_PREFIX)))
        else:
            yield line.rstrip("\n")


GOALS: Final[Mapping[str, Goal]] = {
    "P1 heartbeats": Goal(
        "heartbeats for a second of one core, each written",
        12_000,
        "/s",
        is_least=True,
        cause="parsing each message and building each answer; bare ASGI in the same run is the bound",
    ),
    "P1 fleet": Goal("heartbeats of 10,000 delegates, one each 10 s", 25, "% of a core"),
    "P2 socket": Goal(
        "memory of an idle socket of a delegate",
        32,
        "KiB",
        cause="20 KiB are those of a socket without any program; beside others, two servers need 26",
    ),
    "P2 fleet": Goal("the same of 8,000 on two web servers", 32, "KiB"),
    "P2 process": Goal("a web process with 10,000 of them", 450, "MiB"),
    "P3 socket p50": Goal("task offered to notice by socket, p50", 10, "ms"),
    "P3 socket": Goal("task offered to notice by socket, p99", 100, "ms"),
    "P3 taken": Goal("task offered to task taken by socket, p99", 100, "ms"),
    "P3 poll": Goal(
        "task offered to task taken by long poll, p99",
        100,
        "ms",
        cause="polls that begin in the same second each read the offers once",
    ),
    "P3 routed": Goal("task submitted, routed and noticed, p50", 100, "ms"),
    "P3 fleet offered": Goal(
        "100 tasks a second to 10,000 delegates, offered to taken, p99",
        100,
        "ms",
        cause="a task takes 46 ms of web server and database, so 100 a second need five cores",
    ),
    "P3 fleet routed": Goal(
        "the same with submission and routing, p99",
        100,
        "ms",
        cause="as for those that are offered, and 20 ms of a worker for each decision",
    ),
    "P3 fleet more": Goal(
        "300 tasks a second, p99 ≤ 250 ms", proof="not tried: 100 a second use more than two cores"
    ),
    "P4 reconnect": Goal(
        "8,000 sockets back after a restart of both web servers",
        20,
        "s",
        cause="a socket takes 10 ms of web server, database and its agent, which share two cores",
    ),
    "P3 routing": Goal(
        "routing decision among 10,000 delegates, p99 of the slowest sort",
        20,
        "ms",
        cause="a decision of its own compiles 13 queries, 1 ms each; in a batch it takes 4 to 7 ms",
    ),
    "P5 lines": Goal("log lines stored while 100 sockets watch", 20_000, "/s", is_least=True),
    "P5 cores": Goal("processor for these, writer and web server", 1, "core"),
    "P5 lost": Goal("lines that a socket did not get, of all", 0, "lines"),
    "P5 acknowledged": Goal(
        "lines of an agent acknowledged within 500 ms", proof="tests/delegates/protocol/test_tasks.py"
    ),
    "P6 p50": Goal("from a line to the socket, p50", 120, "ms"),
    "P6 p99": Goal("from a line to the socket, p99", 300, "ms"),
    "P6 viewers": Goal("the same with 500 sockets at one step, p99", 500, "ms"),
    "P7 paint": Goal(
        "100,000 log lines, from data to painted rows",
        150,
        "ms",
        cause="the speed of the machine: a node for each line takes 27 to 33 times as long",
    ),
    "P7 nodes": Goal("elements of the pane then", 1_500, "nodes"),
    "P7 search": Goal("search through these", 50, "ms"),
    "P7 frames": Goal("frames while it scrolls", 50, "/s", is_least=True),
    "P7 million": Goal("the same with 1,000,000 lines", 45, "/s", is_least=True),
    "P8 pages": Goal(
        "slowest page of all, p95",
        60,
        "ms",
        cause="the change of a strategy waits for AWS, the slowest others count 50,000 tasks on SQLite",
    ),
    "P8 users": Goal(
        "page of one web server that 8 clients load without a pause, p95",
        250,
        "ms",
        cause="a page takes 40 to 60 ms of a web server, so that each of 8 waits for 7 others",
    ),
    "P8 log": Goal(
        "end and middle of a long log, p95",
        25,
        "ms",
        cause="on PostgreSQL, 19 ms of a core, 5 ms of waits, and the rest of those that are slow by chance",
    ),
    "P8 queries": Goal(
        "queries of the page that makes most",
        12,
        "queries",
        cause="forms and plans read rights and settings of many scopes; no count grows with the rows",
    ),
    "P8 depth": Goal("queries constant with rows and depth", proof="tests/web/test_query_counts.py"),
    "P9 alone": Goal("calls of a rolling deployment of 63 s alone", 24, "calls"),
    "P9 many": Goal(
        "calls of each of many begun 1.1 s apart",
        8,
        "calls",
        cause="polls that do not fall into one batch, and those of the watch after completion",
    ),
    "P9 events": Goal("calls of a rollout with events, without those of the queue", 8, "calls"),
    "P10 p50": Goal(
        "reported after ECS completed, p50",
        2.5,
        "s",
        cause="polling every five seconds is 2.5 s late on average, and the pass comes on top",
    ),
    "P10 p95": Goal("the same, p95", 5.5, "s"),
    "P10 events": Goal("the same with events, p95", 2, "s"),
    "P10 takeover": Goal("queue of events stops, until each rollout is polled", 30, "s"),
    "P10 silent": Goal(
        "rule of events falls silent, reported after ECS completed",
        30,
        "s",
        cause="a rule is known to be silent once a check has found a change without an event",
    ),
    "P11 click": Goal("click to UpdateService while many start, p95", 1.5, "s"),
    "P11 batch": Goal("first click to last UpdateService, 200 in one account", 220, "s"),
    "P12 sync": Goal(
        "calls of a sync of 3 clusters, 200 services, 1,000 tasks", proof="tests/inventory/sync"
    ),
    "P12 events": Goal(
        "sync of 500 services with events ≤ 0.2 calls/s",
        proof="tests/inventory/sync/test_announced_changes.py",
    ),
    "P13 memory": Goal(
        "largest process with 2,000 waiting executions",
        150,
        "MiB",
        cause="what a worker imports takes 150 MiB, among it clients of Vault and of chat services",
    ),
    "P13 cores": Goal("processor for these", 0.2, "core"),
    "P14 waits": Goal("memory of an agent with 500 calls at once", 256, "MiB"),
    "P14 idle": Goal("memory of an idle agent", 60, "MiB"),
    "P14 processor": Goal("processor of an idle agent", 0.5, "% of a core"),
    "P15 bytes": Goal("stored bytes of a log line", 45, "bytes"),
    "P16 start": Goal(
        "start of a web process to its first answer",
        3,
        "s",
        cause="it imports 2,600 modules, 3 s of a core on a machine of this speed",
    ),
    "P16 image": Goal("container image ≤ 250 MB", proof="docker image ls, where there is Docker"),
    "R1 faults": Goal(
        "faults in the soak",
        500,
        "faults",
        is_least=True,
        proof="make soak, tests/survival",
        cause="started for less, or stopped early",
    ),
    "R1 broken": Goal(
        "broken promises: lost, duplicated, hung, wrong status", 0, "promises", proof="make soak"
    ),
    "R2 lost": Goal("loss of a delegate noticed ≤ 45 s", proof="tests/stories/delegates"),
    "R2 task": Goal("its task with another delegate ≤ 60 s", proof="tests/stories/delegates"),
    "R3 worker": Goal(
        "death of a worker, then on within 60 s", proof="tests/faults/test_killed_processes.py"
    ),
    "R4 broker": Goal("broker lost: no data lost, live within 5 s", proof="tests/faults/test_broker.py"),
    "R5 lost": Goal("lines lost while PostgreSQL is away for 60 s", 0, "lines"),
    "R5 caught up": Goal("PostgreSQL back until all lines stored, script ended", 60, "s"),
    "R6 upgrade": Goal("rolling upgrade without failures", proof="tests/faults/test_rolling_upgrade.py"),
    "R7 API": Goal("generated requests: no 5xx, no mismatch", proof="tests/invalid_input, tests/fuzz"),
    "R8 tenants": Goal("each route for each tenant", proof="tests/matrix, tests/api"),
    "R9 inputs": Goal(
        "mutated inputs for each of five parsers", 5, "million", is_least=True, cause="PARSER_INPUTS was less"
    ),
    "R9 failures": Goal("crashes, slow or wrong results", 0, "failures"),
    "R10 secrets": Goal("no secret in what is stored or shown", proof="tests/secret_watch"),
    "R11 token": Goal("token revoked, sockets closed ≤ 2 s", proof="tests/accounts/test_open_connections.py"),
    "R12 hours": Goal(
        "length of the soak",
        4,
        "h",
        is_least=True,
        proof="make soak",
        cause="started for less, or stopped early",
    ),
    "R12 memory": Goal(
        "growth of the fastest growing process of the soak",
        1,
        "%/h",
        proof="make soak",
        cause="a process of 55 or 85 MiB may grow by less than one, and keeps most of its highest level",
    ),
    "U1 axe": Goal("axe finds nothing on any page", proof="tests/browser/test_accessibility.py"),
    "U2 clicks": Goal("first delegate in 6 clicks", proof="tests/browser/test_new_delegate.py"),
}


def format_goals(figures: Iterable[Figure], *, is_whole: bool) -> Iterator[str]:
    """Yield the table of all goals, or of those with a figure, and below it each miss with its cause."""
    values = _select_worst(figures)
    if not values and not is_whole:
        return
    yield f"{'goal':<60}{'limit':>16}{'figure':>12}  {'':<8}baseline"
    missed = []
    for key, goal in GOALS.items():
        label = f"{key.partition(' ')[0]:<4}{goal.metric}"
        if key not in values:
            if is_whole:
                yield f"{label:<60}{goal!s:>16}{'':>12}  {goal.proof or NOT_MEASURED}"
            continue
        figure = values[key]
        is_met = goal.is_met(figure.value)
        verdict = "met" if is_met else "MISSED"
        yield f"{label:<60}{goal!s:>16}{_format_value(figure.value):>12}  {verdict:<8}{figure.baseline}"
        if not is_met:
            missed.append(f"  {key}: {goal.cause or 'a cause is not known yet'}")
    if missed:
        yield "\nmissed, with the cause"
        yield from missed


def _select_worst(figures: Iterable[Figure]) -> dict[str, Figure]:
    """Return the worst figure of each goal."""
    worst: dict[str, Figure] = {}
    for figure in figures:
        other = worst.get(figure.goal)
        if other is None or GOALS[figure.goal].is_worse(figure.value, other.value):
            worst[figure.goal] = figure
    return worst


def _format_value(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
