"""Plan of a spec: a request completed with the documented presets (R094-R131)."""

import re
from dataclasses import dataclass
from typing import Final

from delegates.install.images import ImageReference, build_ecr_registry, parse_image
from delegates.install.specs import Flavour, LaunchType, SpecRequest, build_role_name

DEFAULT_REGION: Final = "us-east-1"
STREAM_PREFIX: Final = "delegate"
SHARED_LOG_GROUP: Final = "/ecs/harness-delegates"
AGENT_PORT: Final = 8080


@dataclass(frozen=True)
class SpecPreset:
    """Default name and size of a flavor on a launch type."""

    task_file: str
    service_file: str
    family: str
    container: str
    name: str
    cluster: str
    # Empty if the service has the delegate's name.
    service: str
    # Empty where the documents set up no log.
    log_group: str
    task_cpu: int
    task_memory: int
    container_cpu: int
    container_memory: int


PRESETS: Final[dict[tuple[Flavour, LaunchType], SpecPreset]] = {
    # The documents give the container one CPU share (T06).
    ("legacy", "EC2"): SpecPreset(
        task_file="task-spec.json",
        service_file="service.json",
        family="harness-delegate-task-spec",
        container="",
        name="ecs-delegate",
        cluster="harness-delegate-cluster",
        service="",
        log_group="",
        task_cpu=1024,
        task_memory=2048,
        container_cpu=1,
        container_memory=2048,
    ),
    ("legacy", "FARGATE"): SpecPreset(
        task_file="task-spec.json",
        service_file="service.json",
        family="harness-delegate-task-spec",
        container="ecs-delegate-im",
        name="fargate-delegate",
        cluster="harness-delegate-fargate-cluster",
        service="",
        log_group="",
        task_cpu=1024,
        task_memory=6144,
        container_cpu=1,
        container_memory=2048,
    ),
    ("v3", "EC2"): SpecPreset(
        task_file="task-definition.json",
        service_file="service.json",
        family="harness-delegate-task",
        container="harness-delegate",
        name="ecs-delegate",
        cluster="harness-delegate-cluster",
        service="harness-delegate-service",
        log_group="/ecs/harness-delegate",
        task_cpu=1024,
        task_memory=2048,
        container_cpu=1024,
        container_memory=2048,
    ),
    ("v3", "FARGATE"): SpecPreset(
        task_file="fargate-task-definition.json",
        service_file="fargate-service.json",
        family="harness-delegate-fargate-task",
        container="harness-delegate",
        name="fargate-delegate",
        cluster="harness-delegate-fargate-cluster",
        service="harness-delegate-fargate-service",
        log_group="/ecs/harness-delegate-fargate",
        task_cpu=1024,
        task_memory=2048,
        container_cpu=0,
        container_memory=0,
    ),
}
# A documented delegate name implies the documented service and family names.
DOCUMENTED_NAMES: Final = frozenset(preset.name for preset in PRESETS.values())


@dataclass(frozen=True)
class SpecPlaceholders:
    """Placeholders for values that a user fills in (R111, R125, R127)."""

    token: str
    aws_account: str
    subnet: str
    security_group: str


PLACEHOLDERS: Final[dict[Flavour, SpecPlaceholders]] = {
    "legacy": SpecPlaceholders("<DELEGATE_TOKEN>", "<ACC_ID>", "<SUBNET>", "SEC_GROUP"),
    "v3": SpecPlaceholders(
        "PUT_YOUR_DELEGATE_TOKEN",
        "PUT_YOUR_AWS_ACCOUNT_ID",
        "PUT_YOUR_SUBNET_ID",
        "PUT_YOUR_SECURITY_GROUP_ID",
    ),
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_NOT_IN_HOSTS = re.compile(r"[^A-Za-z0-9-]+")
_DEFAULT_NAMES: Final = {
    "DOCKER": "docker-delegate",
    "COMPOSE": "docker-delegate",
    "KUBERNETES": "kubernetes-delegate",
    "SHELL_SCRIPT": "shell-delegate",
}


@dataclass(frozen=True)
class SpecPlan:
    """Request with all defaults resolved."""

    request: SpecRequest

    @property
    def preset(self) -> SpecPreset:
        return PRESETS[self.request.flavour, self.request.launch_type]

    @property
    def placeholders(self) -> SpecPlaceholders:
        return PLACEHOLDERS[self.request.flavour]

    @property
    def name(self) -> str:
        if self.request.name:
            return self.request.name
        return self.preset.name if self.request.kind == "ECS" else _DEFAULT_NAMES[self.request.kind]

    @property
    def container(self) -> str:
        """Return the container's name; a legacy EC2 spec uses the delegate's name (R095)."""
        return self.preset.container or build_ecs_name(self.name)

    @property
    def hostname(self) -> str:
        """Return the container's hostname, if it can have one: awsvpc (T04) and host take none."""
        if self.request.is_awsvpc or self.uses_host_network:
            return ""
        wants_one = self.request.flavour == "legacy" or self.request.kind in ("DOCKER", "COMPOSE")
        return self.request.hostname or (build_host_name(self.name) if wants_one else "")

    @property
    def uses_host_network(self) -> bool:
        """Return whether tasks share the network of their EC2 instance."""
        is_on_instance = self.request.kind == "ECS" and not self.request.is_awsvpc
        return is_on_instance and self.request.network.mode == "host"

    @property
    def takes_host_port(self) -> bool:
        """Return whether a task takes the agent's port of its EC2 instance, which then runs no second one."""
        is_mapped = self.request.kind == "ECS" and self.request.flavour == "legacy"
        return self.uses_host_network or (is_mapped and not self.request.is_awsvpc)

    @property
    def token(self) -> str:
        return self.request.token or self.placeholders.token

    @property
    def region(self) -> str:
        return self.request.region or DEFAULT_REGION

    @property
    def partition(self) -> str:
        """Return the part of AWS that the region belongs to, as ARNs begin."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

    @property
    def aws_account(self) -> str:
        return self.request.aws_account_id or self.placeholders.aws_account

    @property
    def cluster(self) -> str:
        return self.request.cluster or self.preset.cluster

    @property
    def service(self) -> str:
        if self.request.own_names and not self.request.service:
            return f"{build_ecs_name(self.name)}-service"
        return self.request.service or self.preset.service or build_ecs_name(self.name)

    @property
    def family(self) -> str:
        if self.request.own_names and not self.request.family:
            return f"{build_ecs_name(self.name)}-task"
        return self.request.family or self.preset.family

    @property
    def log_group(self) -> str:
        return self.request.log_group or self.preset.log_group

    @property
    def source_image(self) -> ImageReference:
        """Return the image of the request, from which a mirror is made."""
        return parse_image(self.request.image)

    @property
    def is_mirrored(self) -> bool:
        return self.request.kind == "ECS" and self.request.mirrors_image

    @property
    def registry(self) -> str:
        """Return the account's registry."""
        return build_ecr_registry(self.aws_account, self.region)

    @property
    def image(self) -> str:
        """Return the image that tasks pull."""
        return self.source_image.build_mirror(self.registry) if self.is_mirrored else self.request.image

    @property
    def needs_execution_role(self) -> bool:
        """Return whether an execution role is needed: for Fargate, and on EC2 if ECS reads the secret."""
        return self.request.is_fargate or bool(self.secrets)

    @property
    def secrets(self) -> list[tuple[str, str]]:
        """Return the variables that ECS reads from secrets, each with its ARN."""
        request = self.request
        if request.kind != "ECS":
            return []
        token = "DELEGATE_TOKEN" if request.flavour == "legacy" else "HARNESS_TOKEN"
        listed = [(token, self.secret_arn)] if request.uses_secret else []
        if request.ca_secret:
            listed.append(("SLIPWAY_CA_PEM", request.ca_secret))
        if request.proxy_secret and request.proxy and request.proxy.user:
            listed.append(("PROXY_PASSWORD", request.proxy_secret))
        return listed

    @property
    def execution_role_arn(self) -> str:
        return f"arn:{self.partition}:iam::{self.aws_account}:role/{self.request.execution_role}"

    @property
    def task_role_arn(self) -> str:
        return f"arn:{self.partition}:iam::{self.aws_account}:role/{self.request.task_role}"

    @property
    def has_own_role(self) -> bool:
        """Return whether the task role is made for the uses of this delegate, and not one that exists."""
        return bool(self.request.uses) and self.request.task_role == build_role_name(self.name)

    @property
    def secret_arn(self) -> str:
        """Return the ARN of the token's secret; ECS accepts the ARN of a new secret without AWS's suffix."""
        if self.request.secret.kind == "EXISTING":
            return self.request.secret.arn
        name = self.request.secret.name
        return f"arn:{self.partition}:secretsmanager:{self.region}:{self.aws_account}:secret:{name}"

    @property
    def has_service_file(self) -> bool:
        """Return whether the service is a file; a service with a network configuration is."""
        return self.request.is_awsvpc

    @property
    def task_cpu(self) -> int:
        return self.request.cpu or self.preset.task_cpu

    @property
    def task_memory(self) -> int:
        return self.request.memory_mib or self.preset.task_memory

    @property
    def container_cpu(self) -> int:
        """Return the CPU units; a legacy container has one share, and 0 omits the value."""
        requested_cpu = self.request.cpu if self.request.flavour == "v3" else 0
        return (requested_cpu or self.preset.container_cpu) if self.preset.container_cpu else 0

    @property
    def container_memory(self) -> int:
        return (
            (self.request.memory_mib or self.preset.container_memory) if self.preset.container_memory else 0
        )

    @property
    def subnets(self) -> list[str]:
        return list(self.request.network.subnets) or [self.placeholders.subnet]

    @property
    def security_groups(self) -> list[str]:
        return list(self.request.network.security_groups) or [self.placeholders.security_group]


def build_ecs_name(name: str) -> str:
    """Return a name as ECS takes it for containers and services: letters, digits, _ and -."""
    return _NOT_IN_NAMES.sub("-", name).strip("-_")[:255] or "delegate"


def build_host_name(name: str) -> str:
    """Return a name as a host can have it."""
    return _NOT_IN_HOSTS.sub("-", name).strip("-")[:63].rstrip("-") or "delegate"
