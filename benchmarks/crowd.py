"""CPU time of the sandbox with few services and with ten times as many."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.clock import row
from sandbox.process import SandboxProcess, start_sandbox
from tests.contract.endpoint import CLUSTER, Aws

FEW, MANY, TASKS = 50, 500, 20
ROLLING = 20
# As long as the longest of what containers and the scheduler repeat.
REPEATING_SECONDS, ROLLOUT_SECONDS = 240, 70
CALLS = 40
USER_TIME, SYSTEM_TIME = 13, 14


def _get_cpu_seconds(sandbox: SandboxProcess) -> float:
    """Return the CPU seconds of the sandbox's process."""
    fields = Path(f"/proc/{sandbox.process.pid}/stat").read_text().rpartition(")")[2].split()
    # The fields after process id and name.
    ticks = int(fields[USER_TIME - 2]) + int(fields[SYSTEM_TIME - 2])
    return ticks / os.sysconf("SC_CLK_TCK")


def _measure_cost(sandbox: SandboxProcess, work: Callable[[], object], *, per: int) -> float:
    before = _get_cpu_seconds(sandbox)
    work()
    return (_get_cpu_seconds(sandbox) - before) / per


def _measure(services: int) -> Mapping[str, float]:
    sandbox = start_sandbox(paused=True)
    try:
        aws = Aws.pretend(sandbox)
        definition = aws.register()
        for number in range(services):
            aws.create(serviceName=f"s{number}", taskDefinition=definition, count=TASKS)
        aws.advance(130)
        quiet = _measure_cost(sandbox, lambda: aws.advance(REPEATING_SECONDS), per=REPEATING_SECONDS)
        costs = {"a second of its time, nothing changing": quiet}
        for name, call in _build_calls(aws).items():
            costs[name] = _measure_cost(sandbox, partial(_repeat, call), per=CALLS)
        for number in range(ROLLING):
            aws.ecs.update_service(cluster=CLUSTER, service=f"s{number}", forceNewDeployment=True)
        rolling = _measure_cost(sandbox, lambda: aws.advance(ROLLOUT_SECONDS), per=ROLLOUT_SECONDS)
        return {**costs, f"a second of its time, {ROLLING} services rolling": rolling}
    finally:
        sandbox.stop()


def _repeat(call: Callable[[], object]) -> None:
    for _ in range(CALLS):
        call()


def _build_calls(aws: Aws) -> Mapping[str, Callable[[], object]]:
    ecs = aws.ecs
    names = [f"s{number}" for number in range(10)]
    tasks = ecs.list_tasks(cluster=CLUSTER)["taskArns"]
    return {
        "DescribeServices of 10": lambda: ecs.describe_services(cluster=CLUSTER, services=names),
        "DescribeTasks of 100": lambda: ecs.describe_tasks(cluster=CLUSTER, tasks=tasks),
        "ListTasks of one service": lambda: ecs.list_tasks(cluster=CLUSTER, serviceName="s1"),
        "ListTasks of the cluster": lambda: ecs.list_tasks(cluster=CLUSTER),
    }


def report() -> Iterator[str]:
    """Fill two sandboxes and measure the same calls on both."""
    few, many = _measure(FEW), _measure(MANY)
    yield f"{MANY} services with {MANY * TASKS} tasks; x: compared with {FEW} services with {FEW * TASKS}"
    for name, measured in many.items():
        yield row(name, measured, few[name])
