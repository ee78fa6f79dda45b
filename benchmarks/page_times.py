"""Command `python -m benchmarks.page_times`: page times on the database of DATABASE_URL."""

import os

os.environ.update(DJANGO_SETTINGS_MODULE="tests.settings", SLIPWAY_MODE="embedded")

import django

django.setup()

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchmarks import first_load
from benchmarks.cases import Case, cases, signed_in
from benchmarks.goals import GOALS, Figure
from benchmarks.history import Site, analyze, create_site, write
from benchmarks.remains import create_other_rows
from benchmarks.running import INSTANCES, create_inventory, lengthen_logs
from benchmarks.servers import create_database
from deployments.models import StepExecution
from rbac.models import Scope
from web.http.gc_tuning import collect_garbage, configure_garbage_collection

FEW, MANY = 1_000, int(os.environ.get("BENCH_EXECUTIONS", "100000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "30"))
GOAL_MS = GOALS["P8 pages"].limit
LOG_ENDS = ("log", "log, late", "blocks", "blocks, late")
# Only pages with one of these words in their names.
ONLY = os.environ.get("BENCH_PAGES", "").split()


@dataclass(frozen=True)
class PageTimes:
    """Costs of a page: queries, rounds in milliseconds, and CPU time of each."""

    queries: int
    times: tuple[float, ...]
    cpu: tuple[float, ...]

    @property
    def p50(self) -> float:
        return statistics.median(self.times)

    @property
    def p95(self) -> float:
        # Inclusive: the exclusive method extrapolates beyond the slowest of a few rounds.
        return statistics.quantiles(self.times, n=20, method="inclusive")[-1]


def measure_cases(page_cases: list[Case]) -> dict[str, PageTimes]:
    """Load all pages in turn, many rounds, so that a disturbance affects all alike."""
    queries: dict[str, int] = {}
    times: dict[str, list[tuple[float, float]]] = {case.name: [] for case in page_cases}
    for case in page_cases:
        # The first load is not counted: it starts sessions and reads templates and content types.
        case.reader.get(case.path)
        with CaptureQueriesContext(connection) as context:
            status = case.reader.get(case.path).status_code
        if status != 200:
            raise RuntimeError(f"{case.name} ({case.path}) answered {status}")
        queries[case.name] = len(context)
    # As the web server does at its start, and after each answer.
    configure_garbage_collection()
    for _ in range(ROUNDS):
        for case in page_cases:
            began, cpu = time.perf_counter(), time.thread_time()
            case.reader.get(case.path)
            collect_garbage()
            durations = time.perf_counter() - began, time.thread_time() - cpu
            times[case.name].append((durations[0] * 1000, durations[1] * 1000))
    return {name: PageTimes(count, *zip(*times[name], strict=True)) for name, count in queries.items()}


def fill(site: Site) -> int:
    """Fill the larger database, and return the number of its log lines."""
    write(site, MANY)
    create_inventory(site.world.service)
    create_other_rows()
    steps = StepExecution.objects.exclude(stage__execution=site.world.execution)
    longest = steps.filter(stage__execution__ended_at__isnull=False).latest("pk").stage.execution
    lines = lengthen_logs(longest)
    analyze()
    return lines


def _select_cases(site: Site) -> list[Case]:
    return [case for case in cases(site) if not ONLY or any(word in case.name for word in ONLY)]


def main() -> None:
    """Print the table of one database."""
    create_database()
    call_command("migrate", verbosity=0)
    settings.API_REQUESTS_PER_MINUTE = 10_000_000
    site = create_site()
    write(site, FEW)
    few = measure_cases(_select_cases(site))
    began = time.perf_counter()
    lines = fill(site)
    fill_seconds = time.perf_counter() - began
    many = measure_cases(_select_cases(site))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"\n{connection.vendor}, {MANY:,} executions, {INSTANCES:,} instances, {lines:,} lines, "
        f"written in {fill_seconds:.0f} s; load of the machine {load}"
    )
    base = f"{f'{FEW:,}: best':>14}{'p50':>7}{'p95':>8}"
    print(f"{'':<42}{'queries':>9}{'best':>7}{'p50':>7}{'p95 ms':>8}{'cpu':>7}{base}")
    for name, result in sorted(many.items(), key=lambda pair: -pair[1].p95):
        print(_format_row(name, result, few[name]))
    if not ONLY:
        for figure in _compute_figures(many):
            print(figure.to_line())
    pages = {"the list of executions": "/deployments/", "an execution, 5,000 lines": _path(site)}
    print("\nfirst load in a browser, median of five, nothing in its cache; again, everything in it")
    for line in first_load.report(signed_in(site.admin, Scope.objects.account()), pages):
        print(line)


def _compute_figures(many: Mapping[str, PageTimes]) -> Iterator[Figure]:
    vendor = connection.vendor
    yield Figure("P8 pages", max(times.p95 for times in many.values()), vendor)
    yield Figure("P8 log", max(many[f"long log: {name}"].p95 for name in LOG_ENDS), vendor)
    queries, name = max((times.queries, name) for name, times in many.items())
    few = sum(times.queries <= GOALS["P8 queries"].limit for times in many.values())
    yield Figure("P8 queries", queries, f"{name}; {few} of {len(many)} pages meet it")


def _path(site: Site) -> str:
    return reverse("execution", args=[site.world.execution.pk])


def _format_row(name: str, result: PageTimes, base: PageTimes) -> str:
    count = str(result.queries) if result.queries == base.queries else f"{base.queries} -> {result.queries}"
    verdict = "" if result.p95 <= GOAL_MS else "  missed"
    return (
        f"{name:<42}{count:>9}{min(result.times):>7.1f}{result.p50:>7.1f}{result.p95:>8.1f}"
        f"{statistics.median(result.cpu):>7.1f}"
        f"{min(base.times):>14.1f}{base.p50:>7.1f}{base.p95:>8.1f}{verdict}"
    )


if __name__ == "__main__":
    main()
