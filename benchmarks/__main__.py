"""Command of `make bench`: runs all or the named measurements, each on a separate database."""

import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path

# A throwaway SQLite, whatever the environment of the developer says; servers would log between the figures.
os.environ.update(
    DJANGO_SETTINGS_MODULE="tests.settings", DATABASE_URL="", SLIPWAY_MODE="embedded", LOG_LEVEL="ERROR"
)

import django

django.setup()

from django.core.management import call_command

from benchmarks import (
    agents,
    batches,
    clients,
    crowd,
    delegate,
    events,
    fleet,
    in_flight,
    lines,
    logs,
    outage,
    pages,
    parsers,
    policy,
    routing,
    scale,
    start,
)
from benchmarks.goals import Figure, format_goals
from benchmarks.kept_figures import KeptFigures, UnreadableFigures

logger = logging.getLogger(__name__)
MEASUREMENTS = {
    "agents": agents,
    "batches": batches,
    "policy": policy,
    "lines": lines,
    "clients": clients,
    "crowd": crowd,
    "delegate": delegate,
    "events": events,
    "fleet": fleet,
    "in_flight": in_flight,
    "logs": logs,
    "outage": outage,
    "pages": pages,
    "parsers": parsers,
    "routing": routing,
    "scale": scale,
    "start": start,
}


def main() -> None:
    """Print the reports of all measurements, or of those that the command line names, then the goals."""
    names = sys.argv[1:] or list(MEASUREMENTS)
    if unknown := [name for name in names if name not in MEASUREMENTS]:
        sys.exit(f"No measurement {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}.")
    try:
        kept = KeptFigures.load(Path(path) if (path := os.environ.get("BENCH_FIGURES")) else None)
    except UnreadableFigures as error:
        sys.exit(str(error))
    # The product's own log would stand between the figures.
    logging.disable(logging.INFO)
    call_command("migrate", verbosity=0)
    _print_others(kept)
    failed = []
    for name in names:
        print(f"\n{(MEASUREMENTS[name].__doc__ or '').strip()}", flush=True)
        if name in kept.measurements:
            print(f"  {kept.measurements[name]}", flush=True)
            continue
        try:
            kept.keep(name, _print_report(MEASUREMENTS[name].report()))
        except Exception:
            # The others may take an hour, and do not need this one.
            logger.exception("The measurement %s failed", name)
            failed.append(name)
    print()
    for text in format_goals(kept.list_figures(), is_whole=not sys.argv[1:]):
        print(text)
    if failed:
        sys.exit(f"{', '.join(failed)} failed.")


def _print_others(kept: KeptFigures) -> None:
    """Print the time and commit of kept measurements that are none of these, such as that of a soak."""
    for name, measurement in kept.measurements.items():
        if name not in MEASUREMENTS:
            print(f"\n{name}\n  {measurement}", flush=True)


def _print_report(report: Iterable[str | Figure]) -> list[Figure]:
    """Print the lines of a report, and return its figures."""
    figures = []
    for line in report:
        if isinstance(line, Figure):
            figures.append(line)
        else:
            print(line, flush=True)
    return figures


if __name__ == "__main__":
    main()
