"""A client's view of the sandbox: boto3 clients and the few calls that most tests make."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from sandbox.process import SandboxProcess

CLUSTER = "demo"
LOG_GROUP = "/ecs/myapp"
BREAKER = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}


@cache
def client(url: str, service: str, *, key: str = "AKIAEXAMPLE", patience: float = 10) -> Any:
    """A boto3 client that asks once and never retries."""
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=3, read_timeout=patience),
    )


@dataclass(frozen=True)
class Aws:
    """The pretend account as a client sees it."""

    sandbox: SandboxProcess
    seed: dict[str, Any]

    def client(self, service: str) -> Any:
        return client(self.sandbox.url, service)

    @property
    def ecs(self) -> Any:
        return self.client("ecs")

    def network(self) -> dict[str, Any]:
        return {
            "awsvpcConfiguration": {
                "subnets": list(self.seed["subnets"]),
                "securityGroups": [self.seed["security_group"]],
            }
        }

    def container(self, tag: str = "v1", **changes: Any) -> dict[str, Any]:
        options = {
            "awslogs-group": LOG_GROUP,
            "awslogs-region": "us-east-1",
            "awslogs-stream-prefix": "ecs",
        }
        return {
            "name": "web",
            "image": f"myapp:{tag}",
            "portMappings": [{"containerPort": 80}],
            "logConfiguration": {"logDriver": "awslogs", "options": options},
            **changes,
        }

    def definition(self, tag: str = "v1", **changes: Any) -> dict[str, Any]:
        return {
            "family": "myapp",
            "requiresCompatibilities": ["FARGATE"],
            "networkMode": "awsvpc",
            "cpu": "256",
            "memory": "512",
            "executionRoleArn": self.seed["execution_role_arn"],
            "containerDefinitions": [self.container(tag)],
            **changes,
        }

    def register(self, tag: str = "v1", **changes: Any) -> str:
        """Register a revision that runs an image with this tag, and return its ARN."""
        made = self.ecs.register_task_definition(**self.definition(tag, **changes))
        return str(made["taskDefinition"]["taskDefinitionArn"])

    def create(self, tag: str = "v1", count: int = 1, **changes: Any) -> dict[str, Any]:
        """Create the service and return it as CreateService answers it."""
        params = {
            "cluster": CLUSTER,
            "serviceName": "myapp",
            "desiredCount": count,
            "launchType": "FARGATE",
            "networkConfiguration": self.network(),
            **changes,
        }
        params.setdefault("taskDefinition", self.register(tag))
        found: dict[str, Any] = self.ecs.create_service(**params)["service"]
        return found

    def update(self, **changes: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.ecs.update_service(cluster=CLUSTER, service="myapp", **changes)[
            "service"
        ]
        return found

    def roll(self, tag: str) -> dict[str, Any]:
        return self.update(taskDefinition=self.register(tag))

    def advance(self, seconds: float) -> None:
        self.sandbox.advance(seconds)

    def service(self, name: str = "myapp") -> dict[str, Any]:
        answer = self.ecs.describe_services(cluster=CLUSTER, services=[name], include=["TAGS"])
        found: dict[str, Any] = answer["services"][0]
        return found

    def tasks(self, status: str = "RUNNING") -> list[dict[str, Any]]:
        arns = self.ecs.list_tasks(cluster=CLUSTER, serviceName="myapp", desiredStatus=status)["taskArns"]
        if not arns:
            return []
        found: list[dict[str, Any]] = self.ecs.describe_tasks(cluster=CLUSTER, tasks=arns)["tasks"]
        return found

    def events(self) -> list[str]:
        """What the service said, oldest first."""
        return [str(e["message"]) for e in reversed(self.service()["events"])]

    def effects(self, after: int = 0) -> list[str]:
        return [e["operation"] for e in self.sandbox.journal(after) if e["effect"]]

    def log_lines(self, task: dict[str, Any], container: str = "web") -> list[str]:
        stream = f"ecs/{container}/{task['taskArn'].rpartition('/')[2]}"
        found = self.client("logs").get_log_events(logGroupName=LOG_GROUP, logStreamName=stream)
        return [str(e["message"]) for e in found["events"]]


def states(deployments: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(d["status"], d["rolloutState"]) for d in deployments]
