"""Values that ECS returns, as frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

Json = Mapping[str, Any]


def parse_timestamp(value: object) -> datetime | None:
    """The moment that an answer's ISO 8601 text stands for."""
    if isinstance(value, datetime) or value is None:
        return value
    return datetime.fromisoformat(str(value))


def get_arn_name(arn: str) -> str:
    """What follows the last slash of an ARN: a task id, a service name."""
    return arn.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class EcsDeployment:
    """One of an ECS service's deployments: the tasks of one revision and how far they are."""

    id: str
    status: str
    task_definition: str
    desired: int
    running: int
    pending: int
    failed: int
    rollout_state: str
    rollout_state_reason: str
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def from_aws(cls, found: Json) -> Self:
        return cls(
            id=found.get("id", ""),
            status=found.get("status", ""),
            task_definition=found.get("taskDefinition", ""),
            desired=found.get("desiredCount", 0),
            running=found.get("runningCount", 0),
            pending=found.get("pendingCount", 0),
            failed=found.get("failedTasks", 0),
            rollout_state=found.get("rolloutState", ""),
            rollout_state_reason=found.get("rolloutStateReason", ""),
            created_at=parse_timestamp(found.get("createdAt")),
            updated_at=parse_timestamp(found.get("updatedAt")),
        )

    @property
    def short_id(self) -> str:
        """The id as the AWS console shows it, without `ecs-svc/`."""
        return get_arn_name(self.id)


@dataclass(frozen=True)
class ServiceEvent:
    """A sentence that ECS wrote about a service; AWS keeps the last hundred, told apart by id."""

    id: str
    at: datetime | None
    message: str

    @classmethod
    def from_aws(cls, found: Json) -> Self:
        return cls(found.get("id", ""), parse_timestamp(found.get("createdAt")), found.get("message", ""))


@dataclass(frozen=True)
class EcsService:
    """An ECS service as DescribeServices, CreateService or UpdateService answered it."""

    arn: str
    name: str
    status: str
    cluster: str
    task_definition: str
    desired: int
    running: int
    pending: int
    deployments: tuple[EcsDeployment, ...]
    events: tuple[ServiceEvent, ...]
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def from_aws(cls, found: Json) -> Self:
        return cls(
            arn=found.get("serviceArn", ""),
            name=found.get("serviceName", ""),
            status=found.get("status", ""),
            cluster=found.get("clusterArn", ""),
            task_definition=found.get("taskDefinition", ""),
            desired=found.get("desiredCount", 0),
            running=found.get("runningCount", 0),
            pending=found.get("pendingCount", 0),
            deployments=tuple(EcsDeployment.from_aws(one) for one in found.get("deployments", ())),
            events=tuple(ServiceEvent.from_aws(one) for one in found.get("events", ())),
            raw=dict(found),
        )

    @property
    def is_active(self) -> bool:
        return self.status == "ACTIVE"

    @property
    def primary(self) -> EcsDeployment | None:
        """The deployment that ECS is moving to, or has arrived at."""
        return next((one for one in self.deployments if one.status == "PRIMARY"), None)

    def find_deployment(self, deployment_id: str) -> EcsDeployment | None:
        return next((one for one in self.deployments if one.id == deployment_id), None)


@dataclass(frozen=True)
class TaskDefinition:
    """A registered revision; `tags` only if they were asked for."""

    arn: str
    family: str
    revision: int
    raw: dict[str, Any] = field(repr=False)
    tags: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_aws(cls, found: Json, tags: object = ()) -> Self:
        return cls(
            arn=found.get("taskDefinitionArn", ""),
            family=found.get("family", ""),
            revision=found.get("revision", 0),
            raw=dict(found),
            tags=parse_tags(tags),
        )

    @property
    def is_active(self) -> bool:
        return bool(self.raw.get("status", "ACTIVE") == "ACTIVE")


@dataclass(frozen=True)
class EcsContainer:
    """A container of an ECS task; `exit_code` is None while it has not ended."""

    name: str
    last_status: str
    exit_code: int | None
    reason: str
    image: str
    image_digest: str
    health: str

    @classmethod
    def from_aws(cls, found: Json) -> Self:
        return cls(
            name=found.get("name", ""),
            last_status=found.get("lastStatus", ""),
            exit_code=found.get("exitCode"),
            reason=found.get("reason") or "",
            image=found.get("image", ""),
            image_digest=found.get("imageDigest", ""),
            health=found.get("healthStatus", ""),
        )


@dataclass(frozen=True)
class EcsTask:
    """One ECS task, running or stopped within the last hour."""

    arn: str
    id: str
    last_status: str
    desired_status: str
    health: str
    stop_code: str
    stopped_reason: str
    started_by: str
    task_definition: str
    containers: tuple[EcsContainer, ...]
    created_at: datetime | None
    started_at: datetime | None
    stopped_at: datetime | None
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def from_aws(cls, found: Json) -> Self:
        arn = found.get("taskArn", "")
        return cls(
            arn=arn,
            id=get_arn_name(arn),
            last_status=found.get("lastStatus", ""),
            desired_status=found.get("desiredStatus", ""),
            health=found.get("healthStatus", ""),
            stop_code=found.get("stopCode") or "",
            stopped_reason=found.get("stoppedReason") or "",
            started_by=found.get("startedBy", ""),
            task_definition=found.get("taskDefinitionArn", ""),
            containers=tuple(EcsContainer.from_aws(one) for one in found.get("containers", ())),
            created_at=parse_timestamp(found.get("createdAt")),
            started_at=parse_timestamp(found.get("startedAt")),
            stopped_at=parse_timestamp(found.get("stoppedAt")),
            raw=dict(found),
        )


@dataclass(frozen=True)
class TaskFailure:
    """A task that RunTask did not start; `reason` is AWS's word, such as RESOURCE:MEMORY."""

    arn: str
    reason: str
    detail: str

    @classmethod
    def from_aws(cls, found: Json) -> Self:
        return cls(found.get("arn") or "", found.get("reason") or "", found.get("detail") or "")


@dataclass(frozen=True)
class RunTaskResult:
    """What RunTask started, and what not: both can be in one answer, which is no error to AWS."""

    tasks: tuple[EcsTask, ...]
    failures: tuple[TaskFailure, ...]

    @classmethod
    def from_aws(cls, found: Json) -> Self:
        return cls(
            tuple(EcsTask.from_aws(one) for one in found.get("tasks") or ()),
            tuple(TaskFailure.from_aws(one) for one in found.get("failures") or ()),
        )


@dataclass(frozen=True)
class ServiceDeployment:
    """ECS's own record of a deployment (ListServiceDeployments); tolerate statuses not known here."""

    arn: str
    status: str
    status_reason: str
    target_revision: str
    created_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def from_aws(cls, found: Json) -> Self:
        return cls(
            arn=found.get("serviceDeploymentArn", ""),
            status=found.get("status", ""),
            status_reason=found.get("statusReason") or "",
            target_revision=found.get("targetServiceRevisionArn", ""),
            created_at=parse_timestamp(found.get("createdAt")),
            finished_at=parse_timestamp(found.get("finishedAt")),
        )


@dataclass(frozen=True)
class ServiceRevision:
    """What a service deployment deploys: names the task definition behind its target revision."""

    arn: str
    task_definition: str
    created_at: datetime | None

    @classmethod
    def from_aws(cls, found: Json) -> Self:
        return cls(
            arn=found.get("serviceRevisionArn", ""),
            task_definition=found.get("taskDefinition", ""),
            created_at=parse_timestamp(found.get("createdAt")),
        )


def parse_tags(tags: object) -> dict[str, str]:
    """ECS writes tags as a list of pairs; as a mapping they can be looked up."""
    listed = tags if isinstance(tags, list | tuple) else ()
    return {one["key"]: one.get("value", "") for one in listed}


def format_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]
