"""`python -m benchmarks.page_times`: what `benchmarks.pages` measures, on the database of DATABASE_URL."""

import os

os.environ.update(DJANGO_SETTINGS_MODULE="tests.settings", SLIPWAY_MODE="embedded")

import django

django.setup()

import statistics
import time
from dataclasses import dataclass

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from psycopg import sql

from benchmarks import first_load
from benchmarks.cases import Case, cases, signed_in
from benchmarks.history import Site, analyze, settle, write
from benchmarks.remains import leave
from benchmarks.running import INSTANCES, lengthen_logs, run_everywhere
from deployments.models import StepExecution
from rbac.models import Scope
from web.http.gc_tuning import collect_garbage, configure_garbage_collection

FEW, MANY = 1_000, int(os.environ.get("BENCH_EXECUTIONS", "100000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "30"))
GOAL_MS = 60
# Only pages with one of these words in their names.
ONLY = os.environ.get("BENCH_PAGES", "").split()


@dataclass(frozen=True)
class Found:
    """What a page took: queries, its rounds in milliseconds, and how much of each this process worked."""

    queries: int
    times: tuple[float, ...]
    cpu: tuple[float, ...]

    @property
    def p50(self) -> float:
        return statistics.median(self.times)

    @property
    def p95(self) -> float:
        # Of what was measured: the other way guesses beyond the slowest of a few rounds.
        return statistics.quantiles(self.times, n=20, method="inclusive")[-1]


def measured(found: list[Case]) -> dict[str, Found]:
    """Load every page in turn, again and again: what disturbs the machine for a second disturbs all alike."""
    queries: dict[str, int] = {}
    times: dict[str, list[tuple[float, float]]] = {case.name: [] for case in found}
    for case in found:
        # Once before it counts: sessions begin, templates and content types are read.
        case.reader.get(case.path)
        with CaptureQueriesContext(connection) as context:
            status = case.reader.get(case.path).status_code
        if status != 200:
            raise RuntimeError(f"{case.name} ({case.path}) answered {status}")
        queries[case.name] = len(context)
    # As the web server does at its start, and after each answer.
    configure_garbage_collection()
    for _ in range(ROUNDS):
        for case in found:
            began, cpu = time.perf_counter(), time.thread_time()
            case.reader.get(case.path)
            collect_garbage()
            taken = time.perf_counter() - began, time.thread_time() - cpu
            times[case.name].append((taken[0] * 1000, taken[1] * 1000))
    return {name: Found(count, *zip(*times[name], strict=True)) for name, count in queries.items()}


def fill(site: Site) -> int:
    """Write all of the larger database; how many lines its logs have."""
    write(site, MANY)
    run_everywhere(site.world.service)
    leave()
    steps = StepExecution.objects.exclude(stage__execution=site.world.execution)
    longest = steps.filter(stage__execution__ended_at__isnull=False).latest("pk").stage.execution
    lines = lengthen_logs(longest)
    analyze()
    return lines


def _wanted(site: Site) -> list[Case]:
    return [one for one in cases(site) if not ONLY or any(word in one.name for word in ONLY)]


def _make_database() -> None:
    """PostgreSQL begins with none of that name."""
    wanted = settings.DATABASES["default"]
    if connection.vendor == "postgresql":
        address = {"host": wanted["HOST"], "port": wanted["PORT"], "user": wanted["USER"]}
        with psycopg.connect(**address, dbname="postgres", autocommit=True) as server:
            server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(wanted["NAME"])))


def main() -> None:
    """Print the table of one database."""
    _make_database()
    call_command("migrate", verbosity=0)
    settings.API_REQUESTS_PER_MINUTE = 10_000_000
    site = settle()
    write(site, FEW)
    few = measured(_wanted(site))
    began = time.perf_counter()
    lines = fill(site)
    written = time.perf_counter() - began
    many = measured(_wanted(site))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"\n{connection.vendor}, {MANY:,} executions, {INSTANCES:,} instances, {lines:,} lines, "
        f"written in {written:.0f} s; load of the machine {load}"
    )
    base = f"{f'{FEW:,}: best':>14}{'p50':>7}{'p95':>8}"
    print(f"{'':<42}{'queries':>9}{'best':>7}{'p50':>7}{'p95 ms':>8}{'cpu':>7}{base}")
    for name, one in sorted(many.items(), key=lambda pair: -pair[1].p95):
        print(_row(name, one, few[name]))
    shown = {"the list of executions": "/deployments/", "an execution, 5,000 lines": _path(site)}
    print("\nfirst load in a browser, median of five, nothing in its cache; again, everything in it")
    for line in first_load.report(signed_in(site.admin, Scope.objects.account()), shown):
        print(line)


def _path(site: Site) -> str:
    return reverse("execution", args=[site.world.execution.pk])


def _row(name: str, one: Found, base: Found) -> str:
    count = str(one.queries) if one.queries == base.queries else f"{base.queries} -> {one.queries}"
    return (
        f"{name:<42}{count:>9}{min(one.times):>7.1f}{one.p50:>7.1f}{one.p95:>8.1f}"
        f"{statistics.median(one.cpu):>7.1f}"
        f"{min(base.times):>14.1f}{base.p50:>7.1f}{base.p95:>8.1f}{'' if one.p95 <= GOAL_MS else '  missed'}"
    )


if __name__ == "__main__":
    main()
