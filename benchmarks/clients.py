"""What a rollout costs in calls to AWS, and how soon its end is told: Slipway beside two other clients."""

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmarks.callers import count_by_caller
from benchmarks.installation import Installation, installed
from ops.demo import ACCESS_KEY_ID
from tests.clients.client_programs import ECS_DEPLOY, INSTALL_THE_CLI, Program, environment_of, find_cli
from tests.contract.endpoint import CLUSTER, Aws, Endpoint

DURATIONS = (5.0, 20.0, 63.0)
ROUNDS = int(os.environ.get("ROUNDS", "2"))
# What a rollout of one task without a load balancer takes in the sandbox, in its own seconds.
NATURAL_SECONDS = 71.0
# A client may look once more after AWS is done; what comes later than this belongs to nobody's rollout.
FINISH_SECONDS = 120.0
# Within these sync and drift have followed the end of a rollout of Slipway's; their calls count too.
FOLLOW_SECONDS, MOST_CALLS = 12.0, 24
OBSERVER, BY_CLI, BY_ECS_DEPLOY = "AKIABENCHOBSERVER000", "AKIABENCHAWSCLI00000", "AKIABENCHECSDEPLOY00"


class RolloutFailed(RuntimeError):
    """A client did not bring its rollout to a good end, so that there is nothing to compare."""


@dataclass(frozen=True)
class Client:
    """Somebody who deploys: `deploy` takes a tag, and returns when it tells its user that all went well."""

    name: str
    key: str
    service: str
    deploy: Callable[[str], datetime]


@dataclass(frozen=True)
class Measured:
    """One rollout; delays in seconds after AWS said `steady state`, and after the last old task had gone."""

    calls: Counter[str]
    by_caller: str
    took: float
    after_steady: float
    after_swap: float


def _slipway(at: Installation) -> Client:
    (pipeline,) = at.ask("GET", "pipelines?identifier=rolling_demo")["results"]

    def deploy(tag: str) -> datetime:
        made = at.ask("POST", f"pipelines/{pipeline['id']}/executions", {"artifact": {"tag": tag}})
        deadline = time.monotonic() + FINISH_SECONDS
        while time.monotonic() < deadline:
            found = at.ask("GET", f"executions/{made['id']}")
            if found["ended_at"]:
                if found["status"] != "SUCCESS":
                    raise RolloutFailed(f"Slipway: {found['status']}")
                return datetime.fromisoformat(found["ended_at"])
            time.sleep(0.2)
        raise RolloutFailed(f"Slipway was not done within {FINISH_SECONDS:g} s")

    return Client("Slipway", ACCESS_KEY_ID, "myapp", deploy)


def _ecs_deploy(at: Installation) -> Client:
    program = Program(ECS_DEPLOY, environment_of(at.home, at.sandbox_url, key=BY_ECS_DEPLOY))

    def deploy(tag: str) -> datetime:
        program("deploy", CLUSTER, "by-ecs-deploy", "--tag", tag, seconds=FINISH_SECONDS)
        return datetime.now(UTC)

    return Client("ecs-deploy", BY_ECS_DEPLOY, "by-ecs-deploy", deploy)


def _aws_cli(at: Installation, path: str, observer: Aws) -> Client:
    environment = environment_of(at.home, at.sandbox_url, key=BY_CLI)
    program = Program((path, "--endpoint-url", at.sandbox_url, "--output", "json", "ecs"), environment)
    update = ("update-service", "--cluster", CLUSTER, "--service", "by-cli", "--task-definition")

    def deploy(tag: str) -> datetime:
        program(*update, observer.register(tag, family="by-cli"))
        wait = ("wait", "services-stable", "--cluster", CLUSTER, "--services", "by-cli")
        program(*wait, seconds=FINISH_SECONDS)
        return datetime.now(UTC)

    return Client("aws ecs wait services-stable", BY_CLI, "by-cli", deploy)


def _observer(at: Installation) -> Aws:
    seed = at.control("GET", "seed")
    return Aws(
        Endpoint(
            url=at.sandbox_url,
            region=seed["region"],
            subnets=tuple(seed["subnets"]),
            security_group=seed["security_group"],
            execution_role_arn=seed["execution_role_arn"],
            key=OBSERVER,
        )
    )


def _everybody(at: Installation, observer: Aws) -> list[Client]:
    clients = [_slipway(at), _ecs_deploy(at)]
    if path := find_cli():
        clients.append(_aws_cli(at, path, observer))
    return clients


def _first_rollouts(at: Installation, observer: Aws, clients: Sequence[Client]) -> None:
    """Make each client's service, so that all that is measured is an update."""
    at.control("POST", "clock", {"speed": 60})
    for one in clients:
        if one.name == "Slipway":
            one.deploy("first")
        else:
            observer.create(
                serviceName=one.service, taskDefinition=observer.register("first", family=one.service)
            )
    deadline = time.monotonic() + FINISH_SECONDS
    while any(_service(observer, one)["deployments"][0]["rolloutState"] != "COMPLETED" for one in clients):
        if time.monotonic() > deadline:
            raise RolloutFailed("the services to update did not become steady")
        time.sleep(0.2)


def _service(observer: Aws, one: Client) -> dict[str, Any]:
    return observer.service(one.service)


def _measure(at: Installation, observer: Aws, one: Client, tag: str) -> Measured:
    mark = at.control("GET", "journal?after=999999999")["last"]
    told = one.deploy(tag)
    if one.name == "Slipway":
        time.sleep(FOLLOW_SECONDS)
    steady = _wait_for_steady(observer, one, mark=_update(at, one, mark))
    # Nobody else uses this key, and the next rollout begins later.
    entries = at.control("GET", f"journal?after={mark}")["entries"]
    entries = [e for e in entries if e["key"] == one.key]
    began = _update(at, one, mark)
    swapped = max(t["stoppingAt"] for t in _replaced(observer, one) if t["stoppingAt"] >= began)
    return Measured(
        calls=Counter(e["operation"] for e in entries),
        by_caller=count_by_caller(entries),
        took=(steady - began).total_seconds(),
        after_steady=(told - steady).total_seconds(),
        after_swap=(told - swapped).total_seconds(),
    )


def _update(at: Installation, one: Client, mark: int) -> datetime:
    """When AWS took the client's UpdateService."""
    entries: list[Mapping[str, Any]] = at.control("GET", f"journal?after={mark}")["entries"]
    found = next(
        e for e in entries if e["key"] == one.key and e["operation"] == "UpdateService" and e["effect"]
    )
    return datetime.fromisoformat(found["at"])


def _wait_for_steady(observer: Aws, one: Client, *, mark: datetime) -> datetime:
    """When AWS said `steady state`, which some clients do not wait for."""
    deadline = time.monotonic() + FINISH_SECONDS
    while time.monotonic() < deadline:
        for event in _service(observer, one)["events"]:
            if event["createdAt"] >= mark and event["message"].endswith("has reached a steady state."):
                return event["createdAt"].astimezone(UTC)
        time.sleep(0.2)
    raise RolloutFailed(f"{one.service} did not become steady")


def _replaced(observer: Aws, one: Client) -> list[dict[str, Any]]:
    arns = observer.ecs.list_tasks(cluster=CLUSTER, serviceName=one.service, desiredStatus="STOPPED")
    found: list[dict[str, Any]] = observer.ecs.describe_tasks(cluster=CLUSTER, tasks=arns["taskArns"])[
        "tasks"
    ]
    return found


def _row(name: str, measured: Sequence[Measured]) -> str:
    def spread(values: list[float]) -> str:
        return f"{statistics.median(values):+6.1f} s (worst {max(values, key=abs):+5.1f})"

    calls = [one.calls.total() for one in measured]
    counted = f"{statistics.median(calls):5.0f} calls (most {max(calls):3})"
    steady = spread([one.after_steady for one in measured])
    return f"  {name:<30} {counted} {steady} {spread([one.after_swap for one in measured])}"


def _compare(at: Installation, observer: Aws, clients: Sequence[Client], duration: float) -> Iterator[str]:
    at.control("POST", "clock", {"speed": NATURAL_SECONDS / duration})
    found: dict[str, list[Measured]] = {one.name: [] for one in clients}
    for number in range(ROUNDS):
        tag = f"r{duration:g}-{number}"
        # At once, each on its own service: the same minute of the same sandbox for all.
        with ThreadPoolExecutor(len(clients)) as pool:
            work = {one.name: pool.submit(_measure, at, observer, one, tag) for one in clients}
            for name, future in work.items():
                found[name].append(future.result())
    took = statistics.mean(one.took for measured in found.values() for one in measured)
    yield f"a rollout of {duration:g} s ({took:.1f} s from UpdateService to steady state), {ROUNDS} times"
    yield f"  {'':<30} {'':>22} {'told after steady state':<26} {'after the old task went':<26}"
    for name, measured in found.items():
        yield _row(name, measured)
    most = max(found["Slipway"], key=lambda one: one.calls.total())
    goal = f" (goal {MOST_CALLS})" if duration == max(DURATIONS) else ""
    yield f"  Slipway's{goal}: {most.by_caller}"
    yield f"  {', '.join(f'{name} {count}' for name, count in most.calls.most_common())}"


def report() -> Iterator[str]:
    """Roll out again and again, by all clients at once."""
    with installed() as at:
        observer = _observer(at)
        clients = _everybody(at, observer)
        if len(clients) < 3:
            yield INSTALL_THE_CLI
        yield "negative: told its user before AWS had said that the service is steady"
        _first_rollouts(at, observer, clients)
        for duration in DURATIONS:
            yield from _compare(at, observer, clients, duration)
