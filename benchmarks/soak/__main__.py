"""Command of `make soak`: runs an installation with deployments and faults, and checks its whole history."""

import os

os.environ.update(
    DJANGO_SETTINGS_MODULE="tests.settings", DATABASE_URL="", SLIPWAY_MODE="embedded", LOG_LEVEL="ERROR"
)

import django

django.setup()

import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from benchmarks.goals import Figure, format_goals
from benchmarks.kept_figures import KeptFigures, UnreadableFigures
from benchmarks.soak.crowds import Crowds
from benchmarks.soak.faults import FaultInjector, list_faults
from benchmarks.soak.history import Breach, History, Limits, check_history, count_history
from benchmarks.soak.idle_workers import WorkerMonitor
from benchmarks.soak.memory import MemoryRecorder, Slope
from benchmarks.soak.records import HistoryReader, format_history
from benchmarks.soak.site import Site, list_early_ends, start_site
from benchmarks.soak.workload import BAD_TAG, NUMBERED_LINES, PAIRS, SCRIPT, Deployments, create_targets

MINUTES: Final = float(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SOAK_MINUTES", "240"))
INTERVAL: Final = float(os.environ.get("SOAK_FAULT_SECONDS", "20"))
CHECK_SECONDS, SAMPLE_SECONDS = 240.0, 10.0
# Ctrl-C arrives from the terminal and from programs in between.
SAME_SIGNAL_SECONDS: Final = 3.0
# After the last fault, nothing may take longer than this.
DRAIN_SECONDS: Final = 600.0
WARM_UP_SHARE, LONGEST_WARM_UP = 0.25, 1800.0
SLOPE_LIMIT, MINUTES_OF_SLOPE = 1.0, 120.0
LIMITS: Final = Limits(open=1800, overdue=300, bad_tags=frozenset({BAD_TAG}))
# After the end of all faults, nothing may be open.
FINAL_LIMITS: Final = Limits(open=0, overdue=0, bad_tags=LIMITS.bad_tags)


class Soak:
    """One run: what goes on in it, and what its checks found."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.deployments = Deployments(site, create_targets(site))
        self.crowds = Crowds(site)
        self.faults = FaultInjector(site, INTERVAL)
        self.reader = HistoryReader(
            site, numbered_lines=NUMBERED_LINES, scripts=frozenset({SCRIPT}), pairs=PAIRS
        )
        self.memory = MemoryRecorder()
        self.workers = WorkerMonitor()
        self.breaches: dict[str, Breach] = {}
        self.early_ends: list[str] = []
        self.minutes = 0.0
        self.stopped_at = 0.0

    def stop(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Go on with the drain and the report; another signal seconds later ends the program."""
        if self.stopped_at and time.monotonic() - self.stopped_at > SAME_SIGNAL_SECONDS:
            sys.exit("The soak was ended without a report.")
        self.stopped_at = self.stopped_at or time.monotonic()

    def run(self) -> History:
        """Deploy and inject faults for the given time, then let everything end, and return the history."""
        self.deployments.start()
        self.crowds.start()
        self.faults.start()
        began = time.monotonic()
        end = began + MINUTES * 60
        check_due = time.monotonic() + CHECK_SECONDS
        while time.monotonic() < end and not self.stopped_at:
            self.sample_memory()
            self.look_at_workers()
            self.reader.collect_writes()
            if time.monotonic() >= check_due:
                self.check(self.reader.read(), LIMITS)
                check_due = time.monotonic() + CHECK_SECONDS
            time.sleep(SAMPLE_SECONDS)
        self.minutes = (time.monotonic() - began) / 60
        self.faults.stop()
        self.crowds.stop()
        self.deployments.stop()
        try:
            self.drain()
            history = self.reader.read(self.deployments.list_services())
            self.check(history, FINAL_LIMITS)
        except (AssertionError, OSError) as exc:
            # The part that does not answer is the finding, and the rest of the report is still of use.
            self.deployments.errors.append(f"the history could not be read: {exc}")
            history = History([], [], [])
        self.early_ends = list_early_ends(self.site)
        return history

    def sample_memory(self) -> None:
        """Record the memory of all processes of Slipway, and of those beside it."""
        installation = self.site.installation
        others = {
            installation.broker.name: installation.broker.pid,
            "sandbox": installation.sandbox.process.pid,
        }
        self.memory.record({part.name: part.pid for part in self.site.parts if part.is_alive} | others)

    def look_at_workers(self) -> None:
        """See which workers do anything."""
        workers = {part.name: part.pid for part in self.site.installation.workers if part.is_alive}
        self.workers.record(workers, time.monotonic())

    def check(self, history: History, limits: Limits) -> None:
        """Check the history, and print what was not known to be broken."""
        for breach in check_history(history, limits):
            if str(breach) not in self.breaches:
                self.breaches[str(breach)] = breach
                print(f"BROKEN {breach}", flush=True)
        counts = f"{len(history.executions)} executions, {sum(self.faults.counts.values())} faults"
        print(f"{time.strftime('%X')} {counts}, {len(self.breaches)} broken promises", flush=True)

    def drain(self) -> None:
        """Wait until every execution has ended, or the time for it has passed."""
        open_ones = "SELECT 1 FROM deployments_execution WHERE ended_at IS NULL OR due_at IS NOT NULL"
        deadline = time.monotonic() + DRAIN_SECONDS
        while self.site.query(open_ones) and time.monotonic() < deadline:
            time.sleep(1)


def main() -> int:
    """Run the soak, print its report, and return 1 if a promise is broken."""
    path = Path(name) if (name := os.environ.get("BENCH_FIGURES")) else None
    try:
        KeptFigures.load(path)
    except UnreadableFigures as error:
        sys.exit(str(error))
    with tempfile.TemporaryDirectory(prefix="slipway-soak-", ignore_cleanup_errors=True) as name:
        print(f"Soak of {MINUTES:g} minutes with a fault each {INTERVAL:g} s at most", flush=True)
        with start_site(Path(name)) as site:
            soak = Soak(site)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, soak.stop)
            history = soak.run()
            figures = list(_list_figures(soak))
            for line in (*_format_report(soak, history), *format_goals(figures, is_whole=False)):
                print(line, flush=True)
            if is_broken := _is_broken(soak):
                _keep_evidence(history, Path(name))
    # Other measurements may have been kept meanwhile. Last, as the file may be unreadable by now.
    KeptFigures.load(path).keep("soak", figures)
    return int(is_broken)


def _list_broken(soak: Soak) -> list[str]:
    return [*soak.early_ends, *soak.workers.list_idle(), *map(str, soak.breaches.values())]


def _list_errors(soak: Soak) -> list[str]:
    return [*soak.deployments.errors, *soak.crowds.errors]


def _list_slopes(soak: Soak) -> list[Slope]:
    return soak.memory.list_slopes(min(MINUTES * 60 * WARM_UP_SHARE, LONGEST_WARM_UP))


def _is_broken(soak: Soak) -> bool:
    findings = (*_list_broken(soak), *_list_errors(soak), *_list_growing(soak))
    return bool(findings) or not soak.faults.has_injected


def _list_growing(soak: Soak) -> list[Slope]:
    """Return the processes that grow faster than the limit, where they lived long enough to tell."""
    return [slope for slope in _list_long_lived(soak) if (slope.percent_per_hour or 0) > SLOPE_LIMIT]


def _list_long_lived(soak: Soak) -> list[Slope]:
    return [
        slope for slope in _list_slopes(soak) if slope.name != "sandbox" and slope.minutes >= MINUTES_OF_SLOPE
    ]


def _list_figures(soak: Soak) -> Iterator[Figure]:
    """Yield the figures of the goals; what could not be read or deployed counts as a broken promise."""
    yield Figure("R1 faults", soak.faults.counts.total())
    yield Figure("R1 broken", len(_list_broken(soak)) + len(_list_errors(soak)))
    yield Figure("R12 hours", soak.minutes / 60)
    for slope in _list_long_lived(soak):
        yield Figure("R12 memory", slope.percent_per_hour or 0.0, slope.name)


def _format_report(soak: Soak, history: History) -> Iterator[str]:
    yield f"\nSoak of {soak.minutes:.1f} minutes, load of the machine {os.getloadavg()[2]:.1f}"
    for name, count in count_history(history).items():
        yield f"  {count:>7,}  {name}"
    for name, count in sorted((soak.deployments.answers + soak.crowds.answers).items()):
        yield f"  {count:>7,}  requests: {name}"
    yield f"\n{sum(soak.faults.counts.values())} faults"
    yield from list_faults(soak.faults.counts)
    yield "\nMemory of the longest-lived process of each name, after its warm-up"
    for slope in _list_slopes(soak):
        growth = "too short" if slope.percent_per_hour is None else f"{slope.percent_per_hour:+.2f} %/h"
        yield f"  {slope.name:<16} {slope.mebibytes:7.1f} MiB  {growth:>12} in {slope.minutes:.0f} min"
    yield "\nLongest time without work, in seconds"
    for name, pause in sorted(soak.workers.longest_pauses.items()):
        yield f"  {name:<16} {pause:7.0f}"
    for error in (*soak.faults.errors, *_list_errors(soak)):
        yield f"ERROR {error}"
    for slope in _list_growing(soak):
        yield f"BROKEN memory of {slope.name} grows by {slope.percent_per_hour:.2f} %/h"
    for broken in (broken_promises := _list_broken(soak)):
        yield f"BROKEN {broken}"
    yield f"{len(broken_promises)} broken promises"


def _keep_evidence(history: History, folder: Path) -> None:
    """Keep the history and the logs of all processes, which the end of the run would delete."""
    evidence = Path(tempfile.mkdtemp(prefix="slipway-soak-evidence-"))
    (evidence / "history.json").write_text(format_history(history))
    for log in folder.rglob("*.log"):
        (evidence / log.name).write_bytes(log.read_bytes())
    print(f"Evidence is in {evidence}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
