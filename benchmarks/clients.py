"""AWS calls of a rollout and the delay of its reported end: Slipway and two other clients."""

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
from benchmarks.installation import Installation, start_installation
from ops.demo.seed import ACCESS_KEY_ID
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
    """A rollout of a client failed: nothing to compare."""


@dataclass(frozen=True)
class Client:
    """A deployment client: `deploy` takes a tag and returns when the client reports success."""

    name: str
    key: str
    service: str
    deploy: Callable[[str], datetime]


@dataclass(frozen=True)
class Measured:
    """One rollout; delays in seconds after `steady state`, and after the end of the last old task."""

    calls: Counter[str]
    by_caller: str
    took: float
    after_steady: float
    after_swap: float


def _build_slipway_client(at: Installation) -> Client:
    (pipeline,) = at.request("GET", "pipelines?identifier=rolling_demo")["results"]

    def deploy(tag: str) -> datetime:
        run = at.request("POST", f"pipelines/{pipeline['id']}/executions", {"artifact": {"tag": tag}})
        deadline = time.monotonic() + FINISH_SECONDS
        while time.monotonic() < deadline:
            execution = at.request("GET", f"executions/{run['id']}")
            if execution["ended_at"]:
                if execution["status"] != "SUCCESS":
                    raise RolloutFailed(f"Slipway: {execution['status']}")
                return datetime.fromisoformat(execution["ended_at"])
            time.sleep(0.2)
        raise RolloutFailed(f"Slipway was not done within {FINISH_SECONDS:g} s")

    return Client("Slipway", ACCESS_KEY_ID, "myapp", deploy)


def _build_ecs_deploy_client(at: Installation) -> Client:
    program = Program(ECS_DEPLOY, environment_of(at.home, at.sandbox_url, key=BY_ECS_DEPLOY))

    def deploy(tag: str) -> datetime:
        program("deploy", CLUSTER, "by-ecs-deploy", "--tag", tag, seconds=FINISH_SECONDS)
        return datetime.now(UTC)

    return Client("ecs-deploy", BY_ECS_DEPLOY, "by-ecs-deploy", deploy)


def _build_cli_client(at: Installation, path: str, observer: Aws) -> Client:
    environment = environment_of(at.home, at.sandbox_url, key=BY_CLI)
    program = Program((path, "--endpoint-url", at.sandbox_url, "--output", "json", "ecs"), environment)
    update = ("update-service", "--cluster", CLUSTER, "--service", "by-cli", "--task-definition")

    def deploy(tag: str) -> datetime:
        program(*update, observer.register(tag, family="by-cli"))
        wait = ("wait", "services-stable", "--cluster", CLUSTER, "--services", "by-cli")
        program(*wait, seconds=FINISH_SECONDS)
        return datetime.now(UTC)

    return Client("aws ecs wait services-stable", BY_CLI, "by-cli", deploy)


def _build_observer(at: Installation) -> Aws:
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


def _list_clients(at: Installation, observer: Aws) -> list[Client]:
    clients = [_build_slipway_client(at), _build_ecs_deploy_client(at)]
    if path := find_cli():
        clients.append(_build_cli_client(at, path, observer))
    return clients


def _create_services(at: Installation, observer: Aws, clients: Sequence[Client]) -> None:
    """Create the service of each client, so that only updates are measured."""
    at.control("POST", "clock", {"speed": 60})
    for client in clients:
        if client.name == "Slipway":
            client.deploy("first")
        else:
            observer.create(
                serviceName=client.service, taskDefinition=observer.register("first", family=client.service)
            )
    deadline = time.monotonic() + FINISH_SECONDS
    while any(
        _get_service(observer, client)["deployments"][0]["rolloutState"] != "COMPLETED" for client in clients
    ):
        if time.monotonic() > deadline:
            raise RolloutFailed("the services to update did not become steady")
        time.sleep(0.2)


def _get_service(observer: Aws, client: Client) -> dict[str, Any]:
    return observer.service(client.service)


def _measure(at: Installation, observer: Aws, client: Client, tag: str) -> Measured:
    mark = at.control("GET", "journal?after=999999999")["last"]
    reported_at = client.deploy(tag)
    if client.name == "Slipway":
        time.sleep(FOLLOW_SECONDS)
    steady = _wait_for_steady(observer, client, mark=_get_update_time(at, client, mark))
    # Only this client uses the key, and the next rollout begins later.
    entries = at.control("GET", f"journal?after={mark}")["entries"]
    entries = [e for e in entries if e["key"] == client.key]
    began = _get_update_time(at, client, mark)
    swapped = max(t["stoppingAt"] for t in _list_stopped_tasks(observer, client) if t["stoppingAt"] >= began)
    return Measured(
        calls=Counter(e["operation"] for e in entries),
        by_caller=count_by_caller(entries),
        took=(steady - began).total_seconds(),
        after_steady=(reported_at - steady).total_seconds(),
        after_swap=(reported_at - swapped).total_seconds(),
    )


def _get_update_time(at: Installation, client: Client, mark: int) -> datetime:
    """Return the time of the client's UpdateService call."""
    entries: list[Mapping[str, Any]] = at.control("GET", f"journal?after={mark}")["entries"]
    entry = next(
        e for e in entries if e["key"] == client.key and e["operation"] == "UpdateService" and e["effect"]
    )
    return datetime.fromisoformat(entry["at"])


def _wait_for_steady(observer: Aws, client: Client, *, mark: datetime) -> datetime:
    """Return the time of `steady state`; some clients do not wait for it."""
    deadline = time.monotonic() + FINISH_SECONDS
    while time.monotonic() < deadline:
        for event in _get_service(observer, client)["events"]:
            if event["createdAt"] >= mark and event["message"].endswith("has reached a steady state."):
                return event["createdAt"].astimezone(UTC)
        time.sleep(0.2)
    raise RolloutFailed(f"{client.service} did not become steady")


def _list_stopped_tasks(observer: Aws, client: Client) -> list[dict[str, Any]]:
    arns = observer.ecs.list_tasks(cluster=CLUSTER, serviceName=client.service, desiredStatus="STOPPED")
    tasks: list[dict[str, Any]] = observer.ecs.describe_tasks(cluster=CLUSTER, tasks=arns["taskArns"])[
        "tasks"
    ]
    return tasks


def _format_row(name: str, measured: Sequence[Measured]) -> str:
    def format_spread(values: list[float]) -> str:
        return f"{statistics.median(values):+6.1f} s (worst {max(values, key=abs):+5.1f})"

    calls = [result.calls.total() for result in measured]
    counted = f"{statistics.median(calls):5.0f} calls (most {max(calls):3})"
    steady = format_spread([result.after_steady for result in measured])
    return f"  {name:<30} {counted} {steady} {format_spread([result.after_swap for result in measured])}"


def _compare(at: Installation, observer: Aws, clients: Sequence[Client], duration: float) -> Iterator[str]:
    at.control("POST", "clock", {"speed": NATURAL_SECONDS / duration})
    results: dict[str, list[Measured]] = {client.name: [] for client in clients}
    for number in range(ROUNDS):
        tag = f"r{duration:g}-{number}"
        # At once, each on its own service: the same minute of the same sandbox for all.
        with ThreadPoolExecutor(len(clients)) as pool:
            work = {client.name: pool.submit(_measure, at, observer, client, tag) for client in clients}
            for name, future in work.items():
                results[name].append(future.result())
    took = statistics.mean(result.took for measured in results.values() for result in measured)
    yield f"a rollout of {duration:g} s ({took:.1f} s from UpdateService to steady state), {ROUNDS} times"
    yield f"  {'':<30} {'':>22} {'told after steady state':<26} {'after the old task went':<26}"
    for name, measured in results.items():
        yield _format_row(name, measured)
    most = max(results["Slipway"], key=lambda result: result.calls.total())
    goal = f" (goal {MOST_CALLS})" if duration == max(DURATIONS) else ""
    yield f"  Slipway's{goal}: {most.by_caller}"
    yield f"  {', '.join(f'{name} {count}' for name, count in most.calls.most_common())}"


def report() -> Iterator[str]:
    """Repeat rollouts by all clients at once."""
    with start_installation() as at:
        observer = _build_observer(at)
        clients = _list_clients(at, observer)
        if len(clients) < 3:
            yield INSTALL_THE_CLI
        yield "negative: told its user before AWS had said that the service is steady"
        _create_services(at, observer, clients)
        for duration in DURATIONS:
            yield from _compare(at, observer, clients, duration)
