"""Rollouts in flight with one worker of one process: calls, delays, memory and processor beside a bare loop.

The loop is boto3 alone: it looks each five seconds, or as often as Slipway does, and keeps nothing.
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
from benchmarks.crew import Crew, hired
from delegates.access.aws_access import open_aws_access
from deployments.engine.service_waits import EARLY, EARLY_WAIT
from deployments.models import Execution
from ops.demo import ACCESS_KEY_ID
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
# All start within a minute, which a quarter of the quota of a young account does not allow.
RAISED_QUOTA, DEFAULT_QUOTA = 50.0, 0.25
ONE_IN = 5
# Within these sync and drift have followed the end of a rollout; their calls count too.
FOLLOW_SECONDS = 12.0


def report() -> Iterator[str]:
    """One alone, some one after the other, many at once, very many parked."""
    with hired() as crew:
        with crew.worker(RAISED_QUOTA) as worker:
            # Before the cluster has more services: a sync that follows a rollout describes each ten of them.
            yield from _alone(crew, _deployed(crew, 2, "alone"))
            yield from _staggered(crew, _deployed(crew, STAGGERED, "staggered"))
            yield from _at_once(crew, worker.pid)
        with crew.worker(DEFAULT_QUOTA) as worker:
            yield from _parked(crew, worker.pid)


def _deployed(crew: Crew, count: int, name: str) -> Fleet:
    """Services with a first version, on a sandbox that then lives at the speed of the rollouts measured."""
    fleet = make_fleet(count, name)
    crew.speed(QUICK)
    _finish(fleet.start(["first"] * count))
    # The syncs of the first versions are over before anything is counted.
    time.sleep(FOLLOW_SECONDS)
    crew.speed(NATURAL_SECONDS / ROLLOUT_SECONDS)
    return fleet


def _finish(executions: Sequence[Execution], *, well: bool = True) -> None:
    still = Execution.objects.filter(pk__in=[one.pk for one in executions], ended_at=None)
    wait_until(lambda: not still.exists(), "the end of the rollouts", LONGEST)
    bad = Execution.objects.filter(pk__in=[one.pk for one in executions]).exclude(status="SUCCESS")
    assert not (well and bad.exists()), [one.failure for one in bad]


def _row(what: str, measured: str, beside: str) -> str:
    return f"  {what:<52} {measured:<34} {beside}"


def _spread(seconds: Sequence[float]) -> str:
    """The middle and the nineteen in twenty."""
    ordered = sorted(seconds)
    p95 = ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
    return f"p50 {statistics.median(ordered):5.2f} s  p95 {p95:5.2f} s"


def _alone(crew: Crew, fleet: Fleet) -> Iterator[str]:
    mark, click = crew.mark(), time.time()
    _finish(Fleet(fleet.deployer, fleet.pipelines[:1]).start(["alone"]))
    time.sleep(FOLLOW_SECONDS)
    journal = [entry for entry in crew.sandbox.journal(mark) if entry["key"] == ACCESS_KEY_ID]
    calls = Counter(entry["operation"] for entry in journal)
    update = next(entry for entry in journal if entry["operation"] == "UpdateService")
    (by_hand,) = bare.updates(crew.sandbox.url, CLUSTER, [fleet.pipelines[-1].identifier])
    yield f"one rollout of {ROLLOUT_SECONDS:g} s alone"
    yield _row("calls to AWS (goal 24)", f"{calls.total()}: {count_by_caller(journal)}", NAIVE)
    yield _row("click to UpdateService (goal 1.5)", f"{_moment(update) - click:.2f} s", f"{by_hand:.2f} s")
    yield "    " + ", ".join(f"{times} {name}" for name, times in calls.items())


def _staggered(crew: Crew, fleet: Fleet) -> Iterator[str]:
    """Starts spread over the time between two looks, so that the ends meet every moment of it."""
    mark, names = crew.mark(), [pipeline.identifier for pipeline in fleet.pipelines]
    clicks, executions = [], []
    with bare.Poller(crew.sandbox.url, CLUSTER, names) as poller:
        for pipeline in fleet.pipelines:
            clicks.append(time.time())
            executions += Fleet(fleet.deployer, (pipeline,)).start(["staggered"])
            time.sleep(APART)
        _finish(executions)
        time.sleep(max(poller.every, FOLLOW_SECONDS))
    journal = [entry for entry in crew.sandbox.journal(mark) if entry["key"] == ACCESS_KEY_ID]
    updates = {
        entry["params"]["service"]: entry for entry in journal if entry["operation"] == "UpdateService"
    }
    completed = _completed(crew, names)
    told, beside = [], []
    for name, execution in zip(names, executions, strict=True):
        deployment, moment = completed[name]
        execution.refresh_from_db()
        told.append((_present(execution.ended_at) - moment).total_seconds())
        beside.append((poller.seen[deployment] - moment).total_seconds())
    begun = [_moment(updates[name]) - click for name, click in zip(names, clicks, strict=True)]
    by_hand = bare.updates(crew.sandbox.url, CLUSTER, names)
    yield f"{len(names)} rollouts of {ROLLOUT_SECONDS:g} s, one begun each {APART:g} s"
    yield _row("told after AWS completed (goal 2.5, 5.5)", _spread(told), _spread(beside))
    yield _row("click to UpdateService while they start", _spread(begun), _spread(by_hand))
    yield _row("calls to AWS for each (goal 8)", f"{len(journal) / len(names):.1f}", NAIVE)
    yield _row("the same by caller, all of them", count_by_caller(journal), "")


def _completed(crew: Crew, names: Sequence[str]) -> dict[str, tuple[str, datetime]]:
    """The deployment of each service, and when AWS completed it."""
    ecs = bare.client(crew.sandbox.url)
    found = {}
    for ten in bare.tens(names):
        for one in ecs.describe_services(cluster=CLUSTER, services=ten)["services"]:
            primary = one["deployments"][0]
            found[one["serviceName"]] = (primary["id"], primary["updatedAt"])
    return found


def _moment(entry: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(entry["at"]).timestamp()


def _present(moment: datetime | None) -> datetime:
    if moment is None:
        raise RuntimeError("an execution that has ended has no end")
    return moment


def _at_once(crew: Crew, pid: int) -> Iterator[str]:
    """Rollouts stand still until all executions wait; then all go on, and one in five crashes."""
    crew.speed(0)
    fleet = make_fleet(IN_FLIGHT, "flight")
    began = time.monotonic()
    executions = fleet.start(["crash" if n % ONE_IN == 0 else "1.27" for n in range(IN_FLIGHT)])
    asleep = Execution.objects.exclude(observed_state="")
    wait_until(lambda: asleep.count() == IN_FLIGHT, "everybody's wait", LONGEST)
    took = time.monotonic() - began
    _wait_for_the_usual_schedule()
    mark, held = crew.mark(), _resident(pid)
    used = watch(pid, AWHILE)
    made, allowed = worst_window(described(crew.sandbox.journal(mark)))
    crew.speed(10)
    _finish(executions, well=False)
    ends = Counter(Execution.objects.filter(pipeline__in=fleet.pipelines).values_list("status", "outcome"))
    yield f"{IN_FLIGHT} executions in flight, one worker of one process"
    yield _row("all started and waiting", f"{took:.0f} s", f"{IN_FLIGHT / took:.1f} a second")
    yield _row("DescribeServices in 5 s while they wait", f"{made}", f"allowed: {allowed}, a tenth")
    yield _row(
        "processor while they wait (goal 3 % for 50)",
        _cores(used),
        f"bare: {_bare(crew, 'flight', made / 5)}",
    )
    yield _row("memory, waiting and after (goal 150 MiB)", f"{held:.0f} MiB, {_resident(pid):.0f} MiB", "")
    yield _row("ended", ", ".join(f"{times} {outcome}" for (_, outcome), times in ends.items()), "")


def _wait_for_the_usual_schedule() -> None:
    newest = _present(Execution.objects.latest("waiting_since").waiting_since)
    time.sleep(max((newest + EARLY + EARLY_WAIT - timezone.now()).total_seconds(), 0))


def _parked(crew: Crew, pid: int) -> Iterator[str]:
    """All on one account and region, whose quota then decides how often each is looked at."""
    crew.speed(0)
    (execution,) = make_fleet(1, "parked").start(["1.27"])
    asleep = Execution.objects.filter(pk=execution.pk).exclude(observed_state="")
    wait_until(lambda: asleep.exists(), "the first one's wait", LONGEST)
    execution.refresh_from_db()
    stage = execution.stages.get()
    park_copies(execution, PARKED - 1, open_aws_access(stage.connector, stage.region))
    mark = crew.mark()
    used = watch(pid, WATCHED_SECONDS)
    calls = described(crew.sandbox.journal(mark))
    looked_at = len({name for call in calls for name in call.services})
    per_second = len(calls) / WATCHED_SECONDS
    yield f"{PARKED} parked executions of one account and region, one worker of one process"
    yield _row("processor (goal 20 %)", _cores(used), f"bare: {_bare(crew, 'parked0-', per_second)}")
    yield _row("memory of the largest process (goal 150 MiB)", f"{max(one.mib for one in used):.0f} MiB", "")
    yield _row("calls a second (a quarter of the quota is 5)", f"{per_second:.1f}", "")
    yield _row(f"looked at within {WATCHED_SECONDS:g} s", f"{looked_at}", "")


def _resident(pid: int) -> float:
    return max(resident_mib(one) for one in family_of(pid))


def _cores(used: Sequence[Used]) -> str:
    return f"{sum(one.cores for one in used):.1%} of a core"


def _bare(crew: Crew, prefix: str, calls_per_second: float) -> str:
    """Memory and processor of a loop that makes the same calls."""
    count = PARKED - 1 if prefix.endswith("-") else IN_FLIGHT
    command = [sys.executable, "-m", "benchmarks.bare", crew.sandbox.url, CLUSTER, prefix]
    with running([*command, str(count), f"{calls_per_second:g}"], os.environ) as process:
        time.sleep(START_SECONDS)
        used = watch(process.pid, AWHILE)
    return f"{_cores(used)}, {max(one.mib for one in used):.0f} MiB"
