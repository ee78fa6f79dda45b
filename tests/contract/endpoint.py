"""A client's view of an ECS endpoint: boto3 clients and the few calls that most tests make."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import boto3
from botocore.config import Config

from sandbox.process import SandboxProcess

CLUSTER = os.environ.get("SLIPWAY_CONTRACT_CLUSTER", "demo")
LOG_GROUP = "/ecs/myapp"
BREAKER = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}
# What services run where tags have no meaning of their own.
ANY_IMAGE = "public.ecr.aws/nginx/nginx:stable"
# Of the pretend account, which asks nobody who they are.
PRETEND_KEY = "AKIAEXAMPLE"
T = TypeVar("T")


@dataclass(frozen=True)
class Endpoint:
    """Location and resources of an ECS; without `key`, boto3 finds the credentials."""

    url: str
    region: str
    subnets: tuple[str, ...]
    security_group: str
    execution_role_arn: str
    vpc: str = ""
    key: str | None = PRETEND_KEY
    image: str = ""
    speed: float = 1.0

    @classmethod
    def of_sandbox(cls, sandbox: SandboxProcess) -> "Endpoint":
        seed = sandbox.seed()
        return cls(
            url=sandbox.url,
            region=seed["region"],
            subnets=tuple(seed["subnets"]),
            security_group=seed["security_group"],
            execution_role_arn=seed["execution_role_arn"],
            vpc=seed["vpc"],
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Endpoint | None":
        """Return the endpoint of the SLIPWAY_CONTRACT_ variables; None without SLIPWAY_CONTRACT_ENDPOINT."""
        prefix = "SLIPWAY_CONTRACT_"
        if not (url := environment.get(f"{prefix}ENDPOINT")):
            return None
        return cls(
            url=url,
            region=environment.get(f"{prefix}REGION", "us-east-1"),
            subnets=tuple(environment[f"{prefix}SUBNETS"].split(",")),
            security_group=environment[f"{prefix}SECURITY_GROUP"],
            execution_role_arn=environment[f"{prefix}EXECUTION_ROLE"],
            vpc=environment.get(f"{prefix}VPC", ""),
            key=environment.get(f"{prefix}ACCESS_KEY"),
            image=environment.get(f"{prefix}IMAGE", ANY_IMAGE),
            speed=float(environment.get(f"{prefix}SPEED", "1")),
        )


@cache
def client(
    url: str, service: str, *, key: str | None = PRETEND_KEY, region: str = "us-east-1", patience: float = 10
) -> Any:
    """A boto3 client that asks once and never retries."""
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=url,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key="secret" if key else None,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=3, read_timeout=patience),
    )


@dataclass(frozen=True)
class Aws:
    """An account as a client sees it; `of` is the sandbox behind it, where it is one."""

    endpoint: Endpoint
    of: SandboxProcess | None = None

    @classmethod
    def pretend(cls, sandbox: SandboxProcess) -> "Aws":
        return cls(Endpoint.of_sandbox(sandbox), sandbox)

    @property
    def sandbox(self) -> SandboxProcess:
        """Clock, faults and journal. Tests that ask for it are marked as tests of the sandbox."""
        assert self.of is not None, "this test needs the sandbox: mark it so"
        return self.of

    def client(self, service: str) -> Any:
        return client(self.endpoint.url, service, key=self.endpoint.key, region=self.endpoint.region)

    @property
    def ecs(self) -> Any:
        return self.client("ecs")

    def network(self) -> dict[str, Any]:
        return {
            "awsvpcConfiguration": {
                "subnets": list(self.endpoint.subnets),
                "securityGroups": [self.endpoint.security_group],
            }
        }

    def container(self, tag: str = "v1", **changes: Any) -> dict[str, Any]:
        options = {
            "awslogs-group": LOG_GROUP,
            "awslogs-region": self.endpoint.region,
            "awslogs-stream-prefix": "ecs",
        }
        return {
            "name": "web",
            "image": self.endpoint.image or f"myapp:{tag}",
            # A tag that says nothing still makes another revision.
            "environment": [{"name": "VERSION", "value": tag}] if self.endpoint.image else [],
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
            "executionRoleArn": self.endpoint.execution_role_arn,
            "containerDefinitions": [self.container(tag)],
            **changes,
        }

    def register(self, tag: str = "v1", **changes: Any) -> str:
        """Register a revision that runs an image with this tag, and return its ARN."""
        response = self.ecs.register_task_definition(**self.definition(tag, **changes))
        return str(response["taskDefinition"]["taskDefinitionArn"])

    def create(self, tag: str = "v1", count: int = 1, **changes: Any) -> dict[str, Any]:
        """Create the service, and return the answer of CreateService."""
        params = {
            "cluster": CLUSTER,
            "serviceName": "myapp",
            "desiredCount": count,
            "launchType": "FARGATE",
            "networkConfiguration": self.network(),
            **changes,
        }
        if "taskDefinition" not in params:
            params["taskDefinition"] = self.register(tag)
        service: dict[str, Any] = self.ecs.create_service(**params)["service"]
        return service

    def update(self, **changes: Any) -> dict[str, Any]:
        service: dict[str, Any] = self.ecs.update_service(cluster=CLUSTER, service="myapp", **changes)[
            "service"
        ]
        return service

    def roll(self, tag: str) -> dict[str, Any]:
        return self.update(taskDefinition=self.register(tag))

    def advance(self, seconds: float) -> None:
        """Let time go by: by hand at the sandbox, really elsewhere."""
        if self.of is not None:
            self.of.advance(seconds)
        else:
            time.sleep(seconds / self.endpoint.speed)

    def until(
        self, question: Callable[[], T], description: str, *, seconds: float = 600, step: float = 5
    ) -> T:
        """Advance time until the answer is true, and return it; fail with `description` otherwise."""
        for _ in range(int(seconds / step)):
            if answer := question():
                return answer
            self.advance(step)
        raise AssertionError(f"{description} did not happen within {seconds:g} s")

    def until_completed(self, deployment: str = "", name: str = "myapp") -> dict[str, Any]:
        """Wait for the only deployment of a service (this one, if named) to complete; return the service."""

        def get_completed_service() -> dict[str, Any] | None:
            service = self.service(name)
            is_it = deployment in ("", service["deployments"][0]["id"])
            return service if is_it and states(service["deployments"]) == [("PRIMARY", "COMPLETED")] else None

        return self.until(get_completed_service, "the end of the rollout") or {}

    def empty(self) -> None:
        """Begin anew: an account just planted at the sandbox, elsewhere a cluster without services."""
        if self.of is not None:
            self.of.clear_faults()
            self.of.reset()
            return
        pages = self.ecs.get_paginator("list_services").paginate(cluster=CLUSTER)
        arns = [arn for page in pages for arn in page["serviceArns"]]
        for arn in arns:
            self.ecs.delete_service(cluster=CLUSTER, service=arn, force=True)
        patience = {"Delay": math.ceil(15 / self.endpoint.speed)}
        for first in range(0, len(arns), 10):
            waiter = self.ecs.get_waiter("services_inactive")
            waiter.wait(cluster=CLUSTER, services=arns[first : first + 10], WaiterConfig=patience)

    def service(self, name: str = "myapp") -> dict[str, Any]:
        answer = self.ecs.describe_services(cluster=CLUSTER, services=[name], include=["TAGS"])
        service: dict[str, Any] = answer["services"][0]
        return service

    def tasks(self, status: str = "RUNNING") -> list[dict[str, Any]]:
        arns = self.ecs.list_tasks(cluster=CLUSTER, serviceName="myapp", desiredStatus=status)["taskArns"]
        if not arns:
            return []
        tasks: list[dict[str, Any]] = self.ecs.describe_tasks(cluster=CLUSTER, tasks=arns)["tasks"]
        if self.of is not None:
            return tasks
        # An earlier service of that name may have left some, which AWS shows for an hour.
        born = self.service()["createdAt"]
        return [task for task in tasks if task["createdAt"] >= born]

    def events(self) -> list[str]:
        """Return the events of the service, oldest first."""
        return [str(e["message"]) for e in reversed(self.service()["events"])]

    def effects(self, after: int = 0) -> list[str]:
        return [e["operation"] for e in self.sandbox.journal(after) if e["effect"]]

    def log_lines(self, task: dict[str, Any], container: str = "web") -> list[str]:
        stream = f"ecs/{container}/{task['taskArn'].rpartition('/')[2]}"
        answer = self.client("logs").get_log_events(logGroupName=LOG_GROUP, logStreamName=stream)
        return [str(e["message"]) for e in answer["events"]]


def states(deployments: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(d["status"], d["rolloutState"]) for d in deployments]
