"""Healthy tasks of a deployment, among many others and behind a load balancer."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aws.apis.ecs import EcsClient
from aws.apis.ecs_types import EcsService
from aws.apis.elb import ElbClient
from steps.actions.base import ActionFailed
from steps.actions.context import StepContext
from steps.actions.ecs_service.deployment_health import enforce_health_deadline
from steps.actions.ecs_service.diagnosis import diagnose_deployment

BEGUN = datetime(2026, 11, 23, 12, tzinfo=UTC)
OLD, OURS = "ecs-svc/1", "ecs-svc/2"
GROUP = "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/web/1"


def build_task(number: int, started_by: str = OURS, **values: Any) -> dict[str, Any]:
    return {
        "taskArn": f"arn:aws:ecs:eu-west-1:1:task/demo/{number}",
        "startedBy": started_by,
        "lastStatus": "RUNNING",
        "startedAt": BEGUN.isoformat(),
        **values,
    }


def build_interface(name: str, address: str) -> list[dict[str, Any]]:
    return [{"details": [{"name": name, "value": address}]}]


class Cluster:
    """Caller that answers for one service with these tasks and these healthy targets."""

    def __init__(self, *tasks: dict[str, Any], targets: tuple[str, ...] = ()) -> None:
        self.tasks = {task["taskArn"]: task for task in tasks}
        self.targets = targets

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "ListTasks":
            is_stopped = params["desiredStatus"] == "STOPPED"
            rows = self.tasks.values()
            return {"taskArns": [r["taskArn"] for r in rows if (r["lastStatus"] == "STOPPED") == is_stopped]}
        if operation == "DescribeTasks":
            assert len(params["tasks"]) <= 100
            return {"tasks": [self.tasks[arn] for arn in params["tasks"]]}
        assert operation == "DescribeTargetHealth"
        healthy = [{"Target": {"Id": name, "Port": 80}} for name in self.targets]
        return {
            "TargetHealthDescriptions": [{**row, "TargetHealth": {"State": "healthy"}} for row in healthy]
        }


class Watcher:
    """Context of an action, with a clock that is moved by hand."""

    def __init__(self, cluster: Cluster) -> None:
        self.progress: dict[str, Any] = {}
        self.seconds = 0
        self.context = cast(
            StepContext,
            SimpleNamespace(
                cluster="demo",
                progress=self.progress,
                ecs=EcsClient(cluster),
                elb=ElbClient(cluster),
                now=lambda: BEGUN + timedelta(seconds=self.seconds),
                log=lambda *_: None,
                redact=list,
                load_for_rollback=lambda _: None,
            ),
        )

    def enforce(self, seconds: int, *groups: str) -> None:
        self.seconds = seconds
        raw = {"serviceName": "web", "loadBalancers": [{"targetGroupArn": group} for group in groups]}
        enforce_health_deadline(self.context, EcsService.from_aws(raw), OURS, 2)


OTHERS = [build_task(number, OLD) for number in range(150)]


def test_a_healthy_task_is_found_behind_150_tasks_of_the_earlier_deployment() -> None:
    watcher = Watcher(Cluster(*OTHERS, build_task(150, healthStatus="HEALTHY")))
    watcher.enforce(0)
    watcher.enforce(130)


def test_a_diagnosis_counts_a_healthy_task_behind_150_of_the_earlier_deployment() -> None:
    stopped = {"lastStatus": "STOPPED", "stopCode": "EssentialContainerExited"}
    old = [build_task(number, OLD, **stopped) for number in range(200, 350)]
    failed = build_task(350, stoppedAt=BEGUN.isoformat(), **stopped)
    healthy = build_task(150, healthStatus="HEALTHY")
    watcher = Watcher(Cluster(*OTHERS, healthy, *old, failed))
    service = EcsService.from_aws({"serviceName": "web"})
    diagnosis = diagnose_deployment(watcher.context, service, OURS, enough=1)
    assert diagnosis is not None
    assert diagnosis.any_healthy


@pytest.mark.parametrize("name", ["privateIPv4Address", "privateIPv6Address"])
def test_a_task_with_an_address_is_healthy_when_its_target_is(name: str) -> None:
    task = build_task(1, attachments=build_interface(name, "target"))
    watcher = Watcher(Cluster(task, targets=("target",)))
    watcher.enforce(0, GROUP)
    watcher.enforce(130, GROUP)
    unhealthy = Watcher(Cluster(task))
    unhealthy.enforce(0, GROUP)
    with pytest.raises(ActionFailed, match="No task of this deployment was healthy"):
        unhealthy.enforce(130, GROUP)


def test_a_task_behind_a_port_of_its_instance_is_healthy_when_it_survives() -> None:
    cluster = Cluster(build_task(1), targets=("i-0123456789",))
    watcher = Watcher(cluster)
    watcher.enforce(0, GROUP)
    watcher.enforce(130, GROUP)
    watcher.enforce(180, GROUP)
    cluster.tasks.clear()
    watcher.enforce(200, GROUP)
    with pytest.raises(ActionFailed, match="No task of this deployment was healthy"):
        watcher.enforce(180 + 130, GROUP)
