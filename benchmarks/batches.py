"""Many rolling deployments that start at once in one account and region, whose quotas are AWS's.

The sandbox enforces the published quotas. A second person starts one deployment in the middle of the batch.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import redis
from django.db import connection

from benchmarks.crew import Crew, start_crew
from benchmarks.goals import Figure
from deployments.models import Execution
from rbac.models import User
from tests.fixtures.many_services import Fleet, make_fleet
from tests.fixtures.processes import wait_until

STARTS = int(os.environ.get("STARTS", "200"))
PERSON_AFTER = 0.5
RAISED_QUOTA, QUOTA = 50.0, 1.0
SPEED = 60.0
LONGEST = 1200.0
# AWS admits 20 registrations at once, and then one a second.
FLOOR_SECONDS = max(STARTS - 20, 0)
BATCH_OF_GOAL = 200
# The database of the cache in Valkey, as in the settings.
CACHE_NUMBER = 2


def report() -> Iterator[str | Figure]:
    """Measure the time from the first click to the last UpdateService."""
    with start_crew() as crew:
        crew.speed(SPEED)
        fleet, person = make_fleet(STARTS, "batch"), make_fleet(1, "person")
        with crew.worker(RAISED_QUOTA):
            _wait_for_end([*fleet.start(["first"] * STARTS), *person.start(["first"])])
        crew.sandbox.enforce_quotas()
        with crew.worker(QUOTA):
            yield from _measure(crew, fleet, person)


def _measure(crew: Crew, fleet: Fleet, person: Fleet) -> Iterator[str | Figure]:
    _forget_rates(crew)
    size = _measure_database()
    mark, began = crew.mark(), time.time()
    executions = fleet.start(["second"] * STARTS)
    wait_until(lambda: len(_list_updates(crew, mark)) >= STARTS * PERSON_AFTER, "half of the batch", LONGEST)
    clicked = time.time()
    admin = Fleet(User.objects.get(username="admin"), person.pipelines)
    executions += admin.start(["second"])
    wait_until(lambda: len(_list_updates(crew, mark)) > STARTS, "the update of every service", LONGEST)
    journal = _read_journal(crew, mark)
    updates = {entry["params"]["service"]: _get_time(entry) for entry in journal if _is_update(entry)}
    throttled = Counter(entry["operation"] for entry in journal if entry["fault"] == "throttle")
    registrations = sum(entry["operation"] == "RegisterTaskDefinition" for entry in journal)
    persons_update = updates.pop(person.pipelines[0].identifier)
    yield f"{STARTS} rolling deployments started at once"
    seconds = max(updates.values()) - began
    yield _format_row("first click to last UpdateService", f"{seconds:.0f} s")
    yield _format_row("AWS's own limit", f"{FLOOR_SECONDS} s")
    if STARTS == BATCH_OF_GOAL:
        yield Figure("P11 batch", seconds, f"AWS's own limit: {FLOOR_SECONDS} s")
    yield _format_row("one of somebody else, click to UpdateService", f"{persons_update - clicked:.1f} s")
    yield _format_row("RegisterTaskDefinition", f"{registrations}")
    yield _format_row("throttled calls", ", ".join(f"{n} {name}" for name, n in throttled.items()) or "none")
    _wait_for_end(executions)
    yield _format_row("first click to the last end", f"{time.time() - began:.0f} s")
    yield _format_row("database", f"{(_measure_database() - size) / len(executions) / 1024:.0f} KiB each")
    statuses = Execution.objects.filter(pk__in=[execution.pk for execution in executions])
    ends = Counter(statuses.values_list("outcome", flat=True))
    yield _format_row("ended", ", ".join(f"{count} {outcome}" for outcome, count in ends.items()))


def _forget_rates(crew: Crew) -> None:
    """Begin at half of the quota: the raised one of the first versions taught a rate of its own."""
    with redis.Redis.from_url(f"{crew.broker_url}?db={CACHE_NUMBER}") as client:
        for key in client.scan_iter("quota:*"):
            client.delete(key)


def _measure_database() -> int:
    """Return the bytes of the rows and indexes in SQLite."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (page_count - freelist_count) * page_size"
            " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        (size,) = cursor.fetchone()
    return int(size)


def _read_journal(crew: Crew, mark: int) -> list[dict[str, Any]]:
    """Return all entries since the mark; the sandbox answers a page at a time."""
    entries: list[dict[str, Any]] = []
    while page := crew.sandbox.journal(entries[-1]["number"] if entries else mark):
        entries += page
    return entries


def _list_updates(crew: Crew, mark: int) -> list[dict[str, Any]]:
    return [entry for entry in _read_journal(crew, mark) if _is_update(entry)]


def _is_update(entry: dict[str, Any]) -> bool:
    return entry["operation"] == "UpdateService" and not entry["error"]


def _get_time(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["at"]).timestamp()


def _wait_for_end(executions: Sequence[Execution]) -> None:
    still = Execution.objects.filter(pk__in=[execution.pk for execution in executions], ended_at=None)
    wait_until(lambda: not still.exists(), "the end of the rollouts", LONGEST)


def _format_row(label: str, measured: str) -> str:
    return f"  {label:<52} {measured}"
