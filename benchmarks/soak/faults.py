"""Faults of a soak: F1 to F16 of the fault list as far as one machine can inject them."""

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.soak.clocks import ClocksUnavailable
from benchmarks.soak.machine_faults import (
    change_tables,
    choose_seconds,
    fill_disk_of_database,
    fill_disk_of_delegate,
    open_slow_browsers,
    shift_clock,
    upgrade_release,
)
from benchmarks.soak.site import Site
from tests.faults.killable_process import Part
from tests.fixtures.processes import wait_until

WRITES: Final = ("RegisterTaskDefinition", "CreateService", "UpdateService", "RunTask", "DeleteService")
# Pattern of the names of the faults to inject; all without it.
CHOSEN: Final = re.compile(os.environ.get("SOAK_FAULTS", ""))
# Longest times in seconds that a part is away or frozen, many faults being much shorter.
LONGEST_FREEZE, LONGEST_CUT, LONGEST_OUTAGE = 60.0, 30.0, 30.0
LONGEST_START: Final = 60.0
# Intervals before the first fault.
FIRST_INTERVALS: Final = 6
# An upgrade, while other processes take the machine.
LONGEST_FAULT: Final = 600.0
# Share of faults that may fail to take place, such as a column for which there is no moment without a lock.
FAILED_INJECTIONS: Final = 0.05
NOT_INJECTED: Final = {
    "F5": "the database is away for at most 30 s, so that faults follow each other fast enough",
    "F7": "connections are cut; delay, drip and half-open connections need a network of their own",
    "F8": "all delegates reconnect at once, but there are two, not 10,000",
    "F10": "expired credentials and clock skew: the sandbox checks no credentials",
    "F11": "stale reads only: the installation polls, and has no event queue",
    "F14": "slow browsers are there; what they cost others is measured by make bench-logs",
    "F15": "one upgrade in each soak; delegates keep their release",
    "F16": "busy tables are changed online; a million rows are migrated by tests/database",
}


# Of each pair only the first is killed. The other one lives for as long as the soak, which shows its memory.
def _kill_web(site: Site) -> None:
    site.installation.webs[0].die_and_come_back()


def _kill_worker(site: Site) -> None:
    site.installation.workers[0].die_and_come_back()


def _kill_worker_child(site: Site) -> None:
    worker = site.installation.workers[0]
    # Celery ends when a child does so while it starts, and its supervisor starts it again.
    wait_until(
        lambda: time.monotonic() - worker.started_at > LONGEST_START,
        "a worker that has started",
        LONGEST_FAULT,
    )
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    if children:
        os.kill(int(random.choice(children)), signal.SIGKILL)


def _kill_beat(site: Site) -> None:
    site.installation.beat.die_and_come_back()


def _kill_delegate(site: Site) -> None:
    site.agents[0].die_and_come_back()


def _freeze_delegate(site: Site) -> None:
    _freeze(random.choice(site.agents))


def _freeze_worker(site: Site) -> None:
    _freeze(random.choice(site.installation.workers))


def _freeze(part: Part) -> None:
    pid = part.pid
    os.killpg(pid, signal.SIGSTOP)
    try:
        time.sleep(choose_seconds(LONGEST_FREEZE))
    finally:
        os.killpg(pid, signal.SIGCONT)


def _restart_database(site: Site) -> None:
    site.installation.database.stop(signal.SIGQUIT)
    site.installation.database.start()


def _take_database_away(site: Site) -> None:
    site.installation.database.stop(signal.SIGQUIT)
    try:
        time.sleep(choose_seconds(LONGEST_OUTAGE))
    finally:
        site.installation.database.start()


def _flush_broker(site: Site) -> None:
    site.installation.flush_broker()


def _kill_broker(site: Site) -> None:
    site.installation.broker.die_and_come_back()


def _cut_network(site: Site) -> None:
    network = random.choice(site.networks)
    network.cut()
    time.sleep(choose_seconds(LONGEST_CUT))
    network.mend()


def _cut_all_networks(site: Site) -> None:
    for network in site.networks:
        network.cut()
    for network in site.networks:
        network.mend()


def _lose_answer(site: Site) -> None:
    way = random.choice(("cut", "error500"))
    choices: dict[str, object] = {"operation": random.choice(WRITES), "count": 1, "as": way}
    site.installation.sandbox.fault("lost_answer", service="ecs", **choices)


def _throttle(site: Site) -> None:
    site.installation.sandbox.fault("throttle", count=random.randint(1, 10))


def _fail_calls(site: Site) -> None:
    site.installation.sandbox.fault("error500", count=random.randint(1, 5))


def _hang(site: Site) -> None:
    site.installation.sandbox.fault("hang", count=random.randint(1, 3), seconds=random.uniform(2, 30))


def _refuse(site: Site) -> None:
    seconds = random.uniform(1, 10)
    site.installation.sandbox.fault("refuse", seconds=seconds)
    # Its control API does not answer either, which the next fault may need.
    time.sleep(seconds + 1)


def _read_stale(site: Site) -> None:
    # Seconds of the sandbox's clock, which is fast.
    site.installation.sandbox.fault("stale_reads", service="ecs", seconds=random.uniform(10, 60))


@dataclass(frozen=True)
class Fault:
    """A fault by the numbers of the fault list, with its weight among the others.

    A single one comes once and first, as it starts every process again.
    """

    name: str
    weight: int
    inject: Callable[[Site], None]
    is_single: bool = False


FAULTS: Final = (
    Fault("F1 kill -9 of a web server", 2, _kill_web),
    Fault("F1 kill -9 of a worker", 3, _kill_worker),
    Fault("F1 kill -9 of a worker's child", 3, _kill_worker_child),
    Fault("F1 kill -9 of the beat", 1, _kill_beat),
    Fault("F2 kill -9 of a delegate", 3, _kill_delegate),
    Fault("F3 SIGSTOP and SIGCONT of a delegate", 1, _freeze_delegate),
    Fault("F3 SIGSTOP and SIGCONT of a worker", 1, _freeze_worker),
    Fault("F4 immediate restart of PostgreSQL", 2, _restart_database),
    Fault("F5 PostgreSQL away", 1, _take_database_away),
    Fault("F6 kill -9 of a flushed Valkey", 2, _flush_broker),
    Fault("F6 kill -9 of Valkey", 1, _kill_broker),
    Fault("F7 cut between delegate and web server", 2, _cut_network),
    Fault("F8 all delegates reconnect", 1, _cut_all_networks),
    Fault("F9 lost answer of a write", 5, _lose_answer),
    Fault("F10 throttling", 3, _throttle),
    Fault("F10 errors of AWS", 3, _fail_calls),
    Fault("F10 hanging calls", 1, _hang),
    Fault("F10 refused connections", 1, _refuse),
    Fault("F11 stale reads", 1, _read_stale),
    Fault("F12 full disk of a delegate", 2, fill_disk_of_delegate),
    Fault("F12 full disk of PostgreSQL", 1, fill_disk_of_database),
    Fault("F13 clock jumps by an hour and back", 2, shift_clock),
    Fault("F14 browsers that do not read", 1, open_slow_browsers),
    Fault("F15 rolling upgrade to the next release", 1, upgrade_release, is_single=True),
    Fault("F16 changes of busy tables", 1, change_tables),
)


@dataclass
class FaultInjector:
    """Thread that injects one fault after the other, each kind in turn by its weight."""

    site: Site
    interval: float
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _finished: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        """Finish the fault that goes on, and end those of the sandbox."""
        self._stopping.set()
        self._finished.wait(LONGEST_FAULT)
        self.site.installation.sandbox.clear_faults()

    @property
    def has_injected(self) -> bool:
        """Return whether nearly all faults took place, each kind once at least: the rest was not shown."""
        injected = self.counts.total()
        is_enough = injected > 0 and self.failures.total() <= injected * FAILED_INJECTIONS
        return is_enough and all(self.counts[name] for name in self.failures)

    def _run(self) -> None:
        deck: list[Fault] = []
        # The first one starts every process again: deployments run by then.
        due = time.monotonic() + FIRST_INTERVALS * self.interval
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            if not deck:
                chosen = [fault for fault in FAULTS if CHOSEN.search(fault.name) and self._is_left(fault)]
                deck = [fault for fault in chosen for _ in range(fault.weight)]
                random.shuffle(deck)
                deck.sort(key=lambda fault: fault.is_single)
            if deck:
                self._inject(deck.pop())
            due = max(due + self.interval, time.monotonic())
        self._finished.set()
        # The kernel ends a child with the thread that started it: this one lives as long as the soak.
        threading.Event().wait()

    def _is_left(self, fault: Fault) -> bool:
        return not (fault.is_single and self.counts[fault.name])

    def _inject(self, fault: Fault) -> None:
        try:
            fault.inject(self.site)
            self.counts[fault.name] += 1
        except ClocksUnavailable as exc:
            self.errors.append(f"{fault.name}: {exc!r}")
        except (Exception, SystemExit) as exc:  # noqa: BLE001
            # The thread lives on: without it, the rest of the soak would have no faults.
            self.errors.append(f"{fault.name}: {exc!r}")
            self.failures[fault.name] += 1


def list_faults(counts: Mapping[str, int]) -> list[str]:
    """Return the injected faults by kind, then those that are not injected, with their reason."""
    injected = [f"  {counts.get(fault.name, 0):>5}  {fault.name}" for fault in FAULTS]
    return [*injected, *(f"      -  {number}: {reason}" for number, reason in NOT_INJECTED.items())]
