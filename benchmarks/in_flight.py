"""Rollouts in flight with one worker of one process: calls, delays, memory and CPU.

The baseline is a loop of boto3 calls, every five seconds or as often as Slipway's, that stores nothing.
"""

import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from benchmarks import bare
from benchmarks.callers import count_by_caller
from benchmarks.crew import Crew, start_crew
from benchmarks.goals import Figure
from delegates.access.aws_access import DelegateAwsAccess, open_aws_access
from deployments.engine.service_waits import EARLY, EARLY_WAIT, NOT_OBSERVED
from deployments.models import Execution
from ops.demo.seed import ACCESS_KEY_ID
from tests.fixtures.execution_copies import park_copies
from tests.fixtures.many_services import Fleet, described, make_fleet, worst_window
from tests.fixtures.process_memory import Used, family_of, resident_mib, watch
from tests.fixtures.processes import running, wait_until

STAGGERED = int(os.environ.get("STAGGERED", "40"))
CLUSTER = "demo"
IN_FLIGHT = int(os.environ.get("IN_FLIGHT", "200"))
PARKED = int(os.environ.get("PARKED", "2000"))
ROLLOUT_SECONDS = 63.0
# What a rollout of one task without a load balancer takes in the sandbox, in its own seconds.
NATURAL_SECONDS = 71.0
NAIVE = f"{int(ROLLOUT_SECONDS) + 3}, a look each second"
QUICK = 60.0
APART = 1.1
START_SECONDS = 3.0
LONGEST = 900.0
WATCHED_SECONDS, AWHILE = 60.0, 20.0
# All start within a minute, which the quota of a young account does not allow.
RAISED_QUOTA, QUARTER = 50.0, 0.25
ONE_IN = 5
# Within these sync and drift have followed the end of a rollout; their calls count too.
FOLLOW_SECONDS = 12.0


def report() -> Iterator[str | Figure]:
    """Measure one rollout, staggered ones, many at once, and very many that wait."""
    with start_crew() as crew:
        with crew.worker(RAISED_QUOTA) as worker:
            # Before the cluster has more services: a sync that follows a rollout describes each ten of them.
            yield from _measure_one(crew, _deploy_fleet(crew, 2, "alone"))
            yield from _measure_staggered(crew, _deploy_fleet(crew, STAGGERED, "staggered"))
            yield from _measure_concurrent(crew, worker.pid)
        with crew.worker(QUARTER) as worker:
            yield from _measure_waiting(crew, worker.pid)


def _deploy_fleet(crew: Crew, count: int, name: str) -> Fleet:
    """Deploy services with a first version, then set the sandbox to the measured speed."""
    fleet = make_fleet(count, name, is_checked=True)
    crew.speed(QUICK)
    _wait_for_end(fleet.start(["first"] * count))
    # The syncs of the first versions are over before anything is counted.
    time.sleep(FOLLOW_SECONDS)
    crew.speed(NATURAL_SECONDS / ROLLOUT_SECONDS)
    return fleet


def _wait_for_end(executions: Sequence[Execution], *, well: bool = True) -> None:
    still = Execution.objects.filter(pk__in=[execution.pk for execution in executions], ended_at=None)
    wait_until(lambda: not still.exists(), "the end of the rollouts", LONGEST)
    bad = Execution.objects.filter(pk__in=[execution.pk for execution in executions]).exclude(
        status="SUCCESS"
    )
    assert not (well and bad.exists()), [execution.failure for execution in bad]


def _format_row(label: str, measured: str, comparison: str) -> str:
    return f"  {label:<52} {measured:<34} {comparison}"


def _format_spread(seconds: Sequence[float]) -> str:
    """Return the median and the 95th percentile as text."""
    return f"p50 {statistics.median(seconds):5.2f} s  p95 {_get_p95(seconds):5.2f} s"


def _get_p95(seconds: Sequence[float]) -> float:
    ordered = sorted(seconds)
    return ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]


def _measure_one(crew: Crew, fleet: Fleet) -> Iterator[str | Figure]:
    mark, click = crew.mark(), time.time()
    _wait_for_end(Fleet(fleet.deployer, fleet.pipelines[:1]).start(["alone"]))
    time.sleep(FOLLOW_SECONDS)
    journal = [entry for entry in crew.sandbox.journal(mark) if entry["key"] == ACCESS_KEY_ID]
    calls = Counter(entry["operation"] for entry in journal)
    update = next(entry for entry in journal if entry["operation"] == "UpdateService")
    (by_hand,) = bare.time_updates(crew.sandbox.url, CLUSTER, [fleet.pipelines[-1].identifier])
    yield f"one rollout of {ROLLOUT_SECONDS:g} s alone"
    yield _format_row("calls to AWS (goal 24)", f"{calls.total()}: {count_by_caller(journal)}", NAIVE)
    yield _format_row(
        "click to UpdateService (goal 1.5)", f"{_get_call_time(update) - click:.2f} s", f"{by_hand:.2f} s"
    )
    yield "    " + ", ".join(f"{times} {name}" for name, times in calls.items())
    yield Figure("P9 alone", calls.total(), NAIVE)


def _measure_staggered(crew: Crew, fleet: Fleet) -> Iterator[str | Figure]:
    """Measure starts spread over a poll interval, so that the ends spread over it too."""
    mark, names = crew.mark(), [pipeline.identifier for pipeline in fleet.pipelines]
    clicks, executions = [], []
    with bare.Poller(crew.sandbox.url, CLUSTER, names) as poller:
        for pipeline in fleet.pipelines:
            clicks.append(time.time())
            executions += Fleet(fleet.deployer, (pipeline,)).start(["staggered"])
            time.sleep(APART)
        _wait_for_end(executions)
        time.sleep(max(poller.every, FOLLOW_SECONDS))
    journal = [entry for entry in crew.sandbox.journal(mark) if entry["key"] == ACCESS_KEY_ID]
    updates = {
        entry["params"]["service"]: entry for entry in journal if entry["operation"] == "UpdateService"
    }
    completed = _list_completed(crew, names)
    report_delays, comparison = [], []
    for name, execution in zip(names, executions, strict=True):
        deployment, moment = completed[name]
        execution.refresh_from_db()
        report_delays.append((_require_moment(execution.ended_at) - moment).total_seconds())
        comparison.append((poller.seen[deployment] - moment).total_seconds())
    delays = [_get_call_time(updates[name]) - click for name, click in zip(names, clicks, strict=True)]
    by_hand = bare.time_updates(crew.sandbox.url, CLUSTER, names)
    yield f"{len(names)} rollouts of {ROLLOUT_SECONDS:g} s, one begun each {APART:g} s"
    yield _format_row(
        "told after AWS completed (goal 2.5, 5.5)", _format_spread(report_delays), _format_spread(comparison)
    )
    yield _format_row(
        "click to UpdateService while they start", _format_spread(delays), _format_spread(by_hand)
    )
    yield _format_row("calls to AWS for each (goal 8)", f"{len(journal) / len(names):.1f}", NAIVE)
    yield _format_row("the same by caller, all of them", count_by_caller(journal), "")
    yield Figure("P9 many", len(journal) / len(names), NAIVE)
    yield Figure("P10 p50", statistics.median(report_delays), _format_spread(comparison))
    yield Figure("P10 p95", _get_p95(report_delays), _format_spread(comparison))
    yield Figure("P11 click", _get_p95(delays), _format_spread(by_hand))


def _list_completed(crew: Crew, names: Sequence[str]) -> dict[str, tuple[str, datetime]]:
    """Return the deployment of each service and its completion time."""
    ecs = bare.client(crew.sandbox.url)
    deployments = {}
    for batch in bare.split_batches(names):
        for service in ecs.describe_services(cluster=CLUSTER, services=batch)["services"]:
            primary = service["deployments"][0]
            deployments[service["serviceName"]] = (primary["id"], primary["updatedAt"])
    return deployments


def _get_call_time(entry: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(entry["at"]).timestamp()


def _require_moment(moment: datetime | None) -> datetime:
    if moment is None:
        raise RuntimeError("an execution that has ended has no end")
    return moment


def _measure_concurrent(crew: Crew, pid: int) -> Iterator[str]:
    """Measure rollouts that pause until all executions wait; then one in five crashes."""
    crew.speed(0)
    fleet = make_fleet(IN_FLIGHT, "flight")
    began = time.monotonic()
    executions = fleet.start(["crash" if n % ONE_IN == 0 else "1.27" for n in range(IN_FLIGHT)])
    asleep = Execution.objects.exclude(observed_state__in=("", NOT_OBSERVED))
    wait_until(lambda: asleep.count() == IN_FLIGHT, "everybody's wait", LONGEST)
    took = time.monotonic() - began
    _wait_for_usual_schedule()
    mark, memory_before = crew.mark(), _get_resident_mib(pid)
    used = watch(pid, AWHILE)
    call_count, allowed = worst_window(described(crew.sandbox.journal(mark)))
    crew.speed(10)
    _wait_for_end(executions, well=False)
    ends = Counter(Execution.objects.filter(pipeline__in=fleet.pipelines).values_list("status", "outcome"))
    yield f"{IN_FLIGHT} executions in flight, one worker of one process"
    yield _format_row("all started and waiting", f"{took:.0f} s", f"{IN_FLIGHT / took:.1f} a second")
    yield _format_row(
        "DescribeServices in 5 s while they wait", f"{call_count}", f"allowed: {allowed}, a tenth"
    )
    yield _format_row(
        "processor while they wait (goal 3 % for 50)",
        _format_cores(used),
        f"bare: {_measure_bare_loop(crew, 'flight', call_count / 5)}",
    )
    yield _format_row(
        "memory, waiting and after (goal 150 MiB)",
        f"{memory_before:.0f} MiB, {_get_resident_mib(pid):.0f} MiB",
        "",
    )
    yield _format_row("ended", ", ".join(f"{times} {outcome}" for (_, outcome), times in ends.items()), "")


def _wait_for_usual_schedule() -> None:
    newest = _require_moment(Execution.objects.latest("waiting_since").waiting_since)
    time.sleep(max((newest + EARLY + EARLY_WAIT - timezone.now()).total_seconds(), 0))


def _measure_waiting(crew: Crew, pid: int) -> Iterator[str | Figure]:
    """Measure waiting executions of one account and region: its quota sets their poll interval."""
    crew.speed(0)
    (execution,) = make_fleet(1, "parked").start(["1.27"])
    asleep = Execution.objects.filter(pk=execution.pk).exclude(observed_state__in=("", NOT_OBSERVED))
    wait_until(lambda: asleep.exists(), "the first one's wait", LONGEST)
    execution.refresh_from_db()
    stage = execution.stages.get()
    access = open_aws_access(stage.connector, stage.region)
    assert not isinstance(access, DelegateAwsAccess)
    park_copies(execution, PARKED - 1, access)
    mark = crew.mark()
    used = watch(pid, WATCHED_SECONDS)
    calls = described(crew.sandbox.journal(mark))
    looked_at = len({name for call in calls for name in call.services})
    per_second = len(calls) / WATCHED_SECONDS
    yield f"{PARKED} parked executions of one account and region, one worker of one process"
    yield _format_row(
        "processor (goal 20 %)",
        _format_cores(used),
        f"bare: {_measure_bare_loop(crew, 'parked0-', per_second)}",
    )
    yield _format_row(
        "memory of the largest process (goal 150 MiB)", f"{max(sample.mib for sample in used):.0f} MiB", ""
    )
    yield _format_row("calls a second (at most a quarter of the quota: 5)", f"{per_second:.1f}", "")
    yield _format_row(f"looked at within {WATCHED_SECONDS:g} s", f"{looked_at}", "")
    yield Figure("P13 memory", max(sample.mib for sample in used))
    yield Figure("P13 cores", sum(sample.cores for sample in used))


def _get_resident_mib(pid: int) -> float:
    return max(resident_mib(process_id) for process_id in family_of(pid))


def _format_cores(used: Sequence[Used]) -> str:
    return f"{sum(sample.cores for sample in used):.1%} of a core"


def _measure_bare_loop(crew: Crew, prefix: str, calls_per_second: float) -> str:
    """Return memory and CPU of a loop with the same calls."""
    count = PARKED - 1 if prefix.endswith("-") else IN_FLIGHT
    command = [sys.executable, "-m", "benchmarks.bare", crew.sandbox.url, CLUSTER, prefix]
    with running([*command, str(count), f"{calls_per_second:g}"], os.environ) as process:
        time.sleep(START_SECONDS)
        used = watch(process.pid, AWHILE)
    return f"{_format_cores(used)}, {max(sample.mib for sample in used):.0f} MiB"
