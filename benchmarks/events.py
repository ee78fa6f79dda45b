"""Rollouts of the whole product with and without events of AWS: delay of the reported end, calls, takeover.

The services have a container health check, as Slipway watches others for ten seconds after their completion.
"""

import json
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmarks import bare
from benchmarks.callers import caller_of, count_by_caller
from benchmarks.goals import Figure
from benchmarks.installation import Installation, start_installation
from ops.demo.seed import ACCESS_KEY_ID
from tests.faults.workload import build_service

ROLLOUTS = int(os.environ.get("EVENTS_ROLLOUTS", "40"))
STOPPED = 4
ROLLOUT_SECONDS, QUICK = 63.0, 60.0
# What a rollout of such a task takes in the sandbox, in its own seconds.
NATURAL_SECONDS = 71.0
APART_SECONDS = 1.1
# The cut comes when all of the few rollouts have told their first event.
CUT_SECONDS = 25.0
# Within these sync and drift have followed the end of a rollout; their calls count too.
FOLLOW_SECONDS = 12.0
LONGEST, POLL_SECONDS = 600.0, 0.5
CLUSTER, REGION, RULE, QUEUE = "demo", "us-east-1", "bench-events", "bench-events"
HEALTH_CHECK = {"command": ["CMD-SHELL", "true"]}
# Shared by all rollouts: reads of the queue, and the account's number once in ten minutes.
SHARED_SERVICES = ("sqs", "sts")


class RolloutFailed(RuntimeError):
    """A rollout failed: nothing to measure."""


@dataclass(frozen=True)
class Rollouts:
    """Rollouts that ended: seconds from completion to report by service, and the calls of Slipway."""

    delays: Mapping[str, float]
    journal: Sequence[Mapping[str, Any]]

    @property
    def calls_each(self) -> float:
        """Calls for each rollout, with those of sync and drift."""
        return len(self.list_own_calls()) / len(self.delays)

    def list_own_calls(self) -> list[Mapping[str, Any]]:
        """Return the calls that are not shared by all rollouts."""
        return [entry for entry in self.journal if entry["service"] not in SHARED_SERVICES]

    def get_p95(self) -> float:
        """Return the smallest delay that 95 % do not exceed."""
        ordered = sorted(self.delays.values())
        return ordered[math.ceil(len(ordered) * 0.95) - 1]

    def __str__(self) -> str:
        return f"p50 {statistics.median(self.delays.values()):5.2f} s  p95 {self.get_p95():5.2f} s"


def report() -> Iterator[str | Figure]:
    """Measure rollouts that poll, rollouts with events, and the takeover by polling."""
    with start_installation() as at:
        pipelines = _create_pipelines(at, max(ROLLOUTS, STOPPED))
        first = list(pipelines)[:STOPPED]
        polled = _roll_out(at, pipelines, "polled")
        aws = _Events(at)
        aws.create()
        evented = _roll_out(at, pipelines, "evented")
        yield f"{ROLLOUTS} rollouts of {ROLLOUT_SECONDS:g} s, one begun each {APART_SECONDS:g} s"
        yield _format_row("", "with events", "by polling")
        yield _format_row("told after AWS completed (goal 2 s p95)", f"{evented}", f"{polled}")
        yield _format_row("calls for each (goal 8)", f"{evented.calls_each:.1f}", f"{polled.calls_each:.1f}")
        yield f"    with events: {_describe_calls(evented)}"
        yield f"    by polling: {_describe_calls(polled)}"
        yield Figure("P9 events", evented.calls_each, f"polling: {polled.calls_each:.1f}")
        yield Figure("P10 events", evented.get_p95(), f"polling: {polled}")
        yield from _measure_takeovers(at, aws, {name: pipelines[name] for name in first})


def _measure_takeovers(
    at: Installation, aws: "_Events", pipelines: Mapping[str, int]
) -> Iterator[str | Figure]:
    yield f"{len(pipelines)} rollouts whose events stop after {CUT_SECONDS:g} s"
    silent = _roll_out(at, pipelines, "silent", cut=aws.silence)
    yield _format_row("the rule sends no more: told after AWS completed", f"{silent}", "")
    yield Figure("P10 silent", max(silent.delays.values()))
    aws.resume()
    cut_times: list[datetime] = []
    stopped = _roll_out(at, pipelines, "stopped", cut=lambda: cut_times.append(aws.delete()))
    takeover = _get_takeover(stopped, pipelines, cut_times[0])
    yield _format_row("the queue is gone: until the last one is polled", f"{takeover:.1f} s", "")
    yield _format_row("the same: told after AWS completed", f"{stopped}", "")
    yield Figure("P10 takeover", takeover)


def _get_takeover(stopped: Rollouts, names: Mapping[str, int], cut: datetime) -> float:
    """Return the seconds from the cut until the engine has read each of the services."""
    reads = [
        (datetime.fromisoformat(entry["at"]), entry["params"]["services"])
        for entry in stopped.list_own_calls()
        if entry["operation"] == "DescribeServices" and caller_of(entry) == "engine"
    ]
    return max(
        min((at - cut).total_seconds() for at, services in reads if at > cut and name in services)
        for name in names
    )


def _describe_calls(rollouts: Rollouts) -> str:
    own = rollouts.list_own_calls()
    operations = Counter(entry["operation"] for entry in own)
    shared = Counter(entry["operation"] for entry in rollouts.journal if entry["service"] in SHARED_SERVICES)
    counts = ", ".join(f"{count} {name}" for name, count in (operations + shared).most_common())
    return f"{count_by_caller(own)}: {counts}"


def _format_row(label: str, measured: str, comparison: str) -> str:
    return f"  {label:<52} {measured:<34} {comparison}"


@dataclass(frozen=True)
class _Events:
    """Rule and queue in the sandbox, and the event queue of the demo's connector."""

    at: Installation

    def create(self) -> None:
        """Send the events of ECS to a queue, and have Slipway read it."""
        sqs, events = self._get_client("sqs"), self._get_client("events")
        url = sqs.create_queue(QueueName=QUEUE)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events.put_rule(Name=RULE, EventPattern=json.dumps({"source": ["aws.ecs"]}))
        events.put_targets(Rule=RULE, Targets=[{"Id": "queue", "Arn": arn}])
        (connector,) = self.at.request("GET", "connectors?identifier=sandbox_aws")["results"]
        self.at.request(
            "POST", "event-queues", {"connector": connector["id"], "queue_url": url, "region": REGION}
        )
        deadline = time.monotonic() + FOLLOW_SECONDS
        while not self._is_read():
            if time.monotonic() > deadline:
                raise RolloutFailed("no worker read the event queue")
            time.sleep(POLL_SECONDS)

    def silence(self) -> None:
        """Have the rule send no more."""
        self._get_client("events").disable_rule(Name=RULE)

    def resume(self) -> None:
        """Have the rule send again."""
        self._get_client("events").enable_rule(Name=RULE)

    def delete(self) -> datetime:
        """Delete the queue in the sandbox, and return when."""
        sqs = self._get_client("sqs")
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"])
        return datetime.now(UTC)

    def _get_client(self, service: str) -> Any:
        return bare.client(self.at.sandbox_url, service)

    def _is_read(self) -> bool:
        (queue,) = self.at.request("GET", "event-queues")["results"]
        return queue["read_at"] is not None


def _create_pipelines(at: Installation, count: int) -> dict[str, int]:
    """Create ECS services with a pipeline each, deploy a first version, and return the pipelines by name."""
    at.control("POST", "clock", {"speed": QUICK})
    seed = at.control("GET", "seed")
    (demo,) = at.request("GET", "pipelines?identifier=rolling_demo")["results"]
    pipelines = {}
    for number in range(count):
        name = f"events{number}"
        at.request("POST", "services", build_service(name, seed, healthCheck=HEALTH_CHECK))
        yaml = demo["yaml"].replace("rolling_demo", name).replace("serviceRef: myapp", f"serviceRef: {name}")
        body = {"yaml": yaml, "org": "default", "project": "demo"}
        pipelines[name] = at.request("POST", "pipelines", body)["id"]
    executions = [_start(at, pipeline, "first") for pipeline in pipelines.values()]
    for execution in executions:
        _wait_for_end(at, execution)
    # The syncs of the first versions are over before anything is counted.
    time.sleep(FOLLOW_SECONDS)
    at.control("POST", "clock", {"speed": NATURAL_SECONDS / ROLLOUT_SECONDS})
    return pipelines


def _roll_out(
    at: Installation, pipelines: Mapping[str, int], tag: str, *, cut: Callable[[], object] | None = None
) -> Rollouts:
    """Roll out a tag to each service, one after the other; `cut` is called while all of them wait."""
    mark = at.control("GET", "journal?after=999999999")["last"]
    executions = {}
    for name, pipeline in pipelines.items():
        executions[name] = _start(at, pipeline, tag)
        time.sleep(APART_SECONDS)
    if cut is not None:
        time.sleep(CUT_SECONDS)
        cut()
    ends = {name: _wait_for_end(at, execution) for name, execution in executions.items()}
    time.sleep(FOLLOW_SECONDS)
    completed = _list_completed(at, list(pipelines))
    delays = {name: (end - completed[name]).total_seconds() for name, end in ends.items()}
    return Rollouts(delays, [entry for entry in _read_journal(at, mark) if entry["key"] == ACCESS_KEY_ID])


def _start(at: Installation, pipeline: int, tag: str) -> str:
    return str(at.request("POST", f"pipelines/{pipeline}/executions", {"artifact": {"tag": tag}})["id"])


def _wait_for_end(at: Installation, execution: str) -> datetime:
    """Return the reported end of an execution. Raises `RolloutFailed`."""
    deadline = time.monotonic() + LONGEST
    while not (document := at.request("GET", f"executions/{execution}"))["ended_at"]:
        if time.monotonic() > deadline:
            raise RolloutFailed(f"an execution was not over within {LONGEST:g} s")
        time.sleep(POLL_SECONDS)
    if document["status"] != "SUCCESS":
        raise RolloutFailed(f"{document['status']}: {document['failure']}")
    return datetime.fromisoformat(document["ended_at"])


def _list_completed(at: Installation, names: Sequence[str]) -> dict[str, datetime]:
    """Return the completion of the deployment of each service, which sends the event."""
    ecs = bare.client(at.sandbox_url)
    return {
        service["serviceName"]: service["deployments"][0]["updatedAt"]
        for batch in bare.split_batches(names)
        for service in ecs.describe_services(cluster=CLUSTER, services=batch)["services"]
    }


def _read_journal(at: Installation, mark: int) -> list[dict[str, Any]]:
    """Return all entries since the mark; the sandbox answers a page at a time."""
    entries: list[dict[str, Any]] = []
    while page := at.control("GET", f"journal?after={entries[-1]['number'] if entries else mark}")["entries"]:
        entries += page
    return entries
