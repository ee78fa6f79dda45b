"""The values that the documents of both flavours give: names, sizes, files and placeholders (R094–R131)."""

from dataclasses import dataclass
from typing import Final

from delegates.specs.request import Flavour, LaunchType

# Examples only: a self-hosted Slipway brings its own image, which takes both families of variables (T08).
DOCUMENTED_IMAGES: Final[dict[Flavour, str]] = {
    "legacy": "harness/delegate:22.12.77802",
    "v3": "us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:3.0.0",
}
DEFAULT_REGION: Final = "us-east-1"
STREAM_PREFIX: Final = "delegate"
SHARED_LOG_GROUP: Final = "/ecs/harness-delegates"
AGENT_PORT: Final = 8080


@dataclass(frozen=True)
class Preset:
    """What a flavour on a launch type is called, and how large it is, unless somebody says otherwise."""

    task_file: str
    service_file: str
    family: str
    container: str
    name: str
    cluster: str
    # Empty where the service is called what the delegate is called.
    service: str
    # Empty where the documents set up no log.
    log_group: str
    task_cpu: int
    task_memory: int
    container_cpu: int
    container_memory: int


PRESETS: Final[dict[tuple[Flavour, LaunchType], Preset]] = {
    # One CPU share for the container is what the documents have (T06).
    ("legacy", "EC2"): Preset(
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
    ("legacy", "FARGATE"): Preset(
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
    ("v3", "EC2"): Preset(
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
    ("v3", "FARGATE"): Preset(
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


# Who takes a documented name gets the documented service and family too.
DOCUMENTED_NAMES: Final = frozenset(preset.name for preset in PRESETS.values())


@dataclass(frozen=True)
class Placeholders:
    """What stands where somebody still has to put a value (R111, R125, R127)."""

    token: str
    aws_account: str
    subnet: str
    security_group: str


PLACEHOLDERS: Final[dict[Flavour, Placeholders]] = {
    "legacy": Placeholders("<DELEGATE_TOKEN>", "<ACC_ID>", "<SUBNET>", "SEC_GROUP"),
    "v3": Placeholders(
        "PUT_YOUR_DELEGATE_TOKEN",
        "PUT_YOUR_AWS_ACCOUNT_ID",
        "PUT_YOUR_SUBNET_ID",
        "PUT_YOUR_SECURITY_GROUP_ID",
    ),
}
