"""The baseline: a boto3 loop that only describes ECS services.

As a program: python -m benchmarks.bare URL CLUSTER PREFIX COUNT CALLS_PER_SECOND looks until it is ended.
"""

import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import boto3
from botocore.config import Config

SERVICES_PER_CALL = 10
# What RegisterTaskDefinition takes of what DescribeTaskDefinition gives, in the demo.
KEPT = (
    "family",
    "networkMode",
    "cpu",
    "memory",
    "executionRoleArn",
    "taskRoleArn",
    "containerDefinitions",
    "requiresCompatibilities",
)
KEY = "AKIABENCHBARELOOP000"


def client(url: str, service: str = "ecs") -> Any:
    """Return a plain boto3 client for the sandbox, with a separate key."""
    return boto3.client(
        service,  # type: ignore[call-overload]
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id=KEY,
        aws_secret_access_key="x",
        config=Config(retries={"total_max_attempts": 1}),
    )


def split_batches(names: Sequence[str]) -> list[list[str]]:
    return [
        list(names[start : start + SERVICES_PER_CALL]) for start in range(0, len(names), SERVICES_PER_CALL)
    ]


@dataclass
class Poller:
    """A thread that describes services every five seconds and records their completion times."""

    url: str
    cluster: str
    names: Sequence[str]
    every: float = 5.0
    seen: dict[str, datetime] = field(default_factory=dict)
    ended: Event = field(default_factory=Event)

    def __enter__(self) -> "Poller":
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._thread.join()

    def _run(self) -> None:
        ecs = client(self.url)
        following = time.monotonic()
        while not self.ended.is_set():
            for batch in split_batches(self.names):
                for service in ecs.describe_services(cluster=self.cluster, services=batch)["services"]:
                    self._record(service)
            following += self.every
            self.ended.wait(max(following - time.monotonic(), 0))

    def _record(self, service: dict[str, Any]) -> None:
        primary = service["deployments"][0]
        if primary["rolloutState"] == "COMPLETED":
            self.seen.setdefault(primary["id"], datetime.now(UTC))


def time_updates(url: str, cluster: str, names: Sequence[str]) -> list[float]:
    """Return the seconds to describe, register and update each service."""
    ecs, durations = client(url), []
    for name in names:
        began = time.monotonic()
        (service,) = ecs.describe_services(cluster=cluster, services=[name])["services"]
        current = ecs.describe_task_definition(taskDefinition=service["taskDefinition"])["taskDefinition"]
        definition = {key: current[key] for key in KEPT if key in current}
        arn = ecs.register_task_definition(**definition)["taskDefinition"]["taskDefinitionArn"]
        ecs.update_service(cluster=cluster, service=name, taskDefinition=arn)
        durations.append(time.monotonic() - began)
    return durations


def main(url: str, cluster: str, prefix: str, count: str, calls_per_second: str) -> None:
    """Describe services named prefix0, prefix1 …, ten in a call, at a fixed rate, without end."""
    ecs = client(url)
    wait = 1 / float(calls_per_second)
    following = time.monotonic()
    for batch in itertools.cycle(split_batches([f"{prefix}{number}" for number in range(int(count))])):
        ecs.describe_services(cluster=cluster, services=batch)
        following += wait
        time.sleep(max(following - time.monotonic(), 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
