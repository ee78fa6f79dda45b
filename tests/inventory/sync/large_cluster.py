"""A large cluster that answers as ECS does, from memory: pages, batches, and their limits."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any

DIGEST = f"sha256:{'a' * 64}"
PREFIX = "arn:aws:ecs:us-east-1:123456789012"


@dataclass
class LargeCluster:
    """So many ECS services with so many tasks each."""

    services: int
    tasks_each: int
    calls: Counter[str] = field(default_factory=Counter)
    machines: int = 0
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def fewest_calls(self) -> int:
        """What the sizes of AWS's pages make of it; stopped tasks are listed once."""
        tasks = self.services * self.tasks_each
        services = ceil(self.services / 100) + ceil(self.services / 10) + ceil(self.services / 50)
        return services + 2 * ceil(tasks / 100) + 1 + ceil(self.machines / 100)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert service == ("application-autoscaling" if "Scal" in operation else "ecs")
        self.calls[operation] += 1
        response: dict[str, Any] = getattr(self, f"_{operation}")(params)
        return response

    def _ListServices(self, params: Mapping[str, Any]) -> dict[str, Any]:
        arns = [f"{PREFIX}:service/{params['cluster']}/s{number}" for number in range(self.services)]
        return _build_page(arns, "serviceArns", params)

    def _DescribeServices(self, params: Mapping[str, Any]) -> dict[str, Any]:
        assert 0 < len(params["services"]) <= 10
        return {"services": [self._service(arn) for arn in params["services"]]}

    def _service(self, arn: str) -> dict[str, Any]:
        name = arn.rpartition("/")[2]
        return {
            "serviceArn": arn,
            "serviceName": name,
            "status": "ACTIVE",
            "desiredCount": self.tasks_each,
            "runningCount": self.tasks_each,
            "pendingCount": 0,
            "taskDefinition": f"{PREFIX}:task-definition/{name}:7",
            "deployments": [],
            "events": [
                {
                    "id": f"{name}-{number}",
                    "createdAt": self.began.isoformat(),
                    "message": f"(service {name})",
                }
                for number in range(3)
            ],
        }

    def _ListTasks(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params["desiredStatus"] == "STOPPED":
            return {"taskArns": []}
        arns = [
            f"{PREFIX}:task/{params['cluster']}/s{number}t{task}"
            for number in range(self.services)
            for task in range(self.tasks_each)
        ]
        return _build_page(arns, "taskArns", params)

    def _DescribeTasks(self, params: Mapping[str, Any]) -> dict[str, Any]:
        assert 0 < len(params["tasks"]) <= 100
        return {"tasks": [self._task(arn) for arn in params["tasks"]]}

    def _DescribeScalableTargets(self, params: Mapping[str, Any]) -> dict[str, Any]:
        assert 0 < len(params["ResourceIds"]) <= 50
        return {"ScalableTargets": []}

    def _DescribeContainerInstances(self, params: Mapping[str, Any]) -> dict[str, Any]:
        arns = params["containerInstances"]
        assert 0 < len(arns) <= 100
        return {"containerInstances": [self._machine(arn) for arn in arns]}

    def _machine(self, arn: str) -> dict[str, Any]:
        number = arn.rpartition("/")[2]
        return {
            "containerInstanceArn": arn,
            "ec2InstanceId": f"i-{number}",
            "status": "ACTIVE",
            "agentConnected": True,
            "registeredResources": [
                {"name": "CPU", "integerValue": 4096},
                {"name": "MEMORY", "integerValue": 15742},
            ],
            "remainingResources": [
                {"name": "CPU", "integerValue": 1024},
                {"name": "MEMORY", "integerValue": 742},
            ],
            "runningTasksCount": 3,
            "attributes": [{"name": "ecs.availability-zone", "value": "us-east-1b"}],
        }

    def _task(self, arn: str) -> dict[str, Any]:
        name, _, number = arn.rpartition("/")[2].partition("t")
        placement = {}
        if self.machines:
            machine_index = (int(name[1:]) * self.tasks_each + int(number)) % self.machines
            placement = {"containerInstanceArn": f"{PREFIX}:container-instance/large/{machine_index}"}
        return {
            **placement,
            "taskArn": arn,
            "group": f"service:{name}",
            "taskDefinitionArn": f"{PREFIX}:task-definition/{name}:7",
            "lastStatus": "RUNNING",
            "desiredStatus": "RUNNING",
            "healthStatus": "HEALTHY",
            "startedBy": f"ecs-svc/{name}",
            "createdAt": self.began.isoformat(),
            "startedAt": self.began.isoformat(),
            "containers": [
                {
                    "name": "app",
                    "image": f"{name}:7",
                    "imageDigest": f"sha256:{'a' * 64}",
                    "lastStatus": "RUNNING",
                }
            ],
        }


def _build_page(arns: list[str], member: str, params: Mapping[str, Any]) -> dict[str, Any]:
    offset, size = int(params.get("nextToken") or 0), int(params["maxResults"])
    assert size <= 100
    next_page = {"nextToken": str(offset + size)} if offset + size < len(arns) else {}
    return {member: arns[offset : offset + size], **next_page}
