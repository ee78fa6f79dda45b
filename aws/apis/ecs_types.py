"""Values that ECS returns, as frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

Json = Mapping[str, Any]


def parse_timestamp(value: object) -> datetime | None:
    """Parse an ISO 8601 time of a response."""
    if isinstance(value, datetime) or value is None:
        return value
    return datetime.fromisoformat(str(value))


def get_arn_name(arn: str) -> str:
    """Return the part of an ARN after the last slash: a task id, a service name."""
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
    def from_aws(cls, raw: Json) -> Self:
        return cls(
            id=raw.get("id", ""),
            status=raw.get("status", ""),
            task_definition=raw.get("taskDefinition", ""),
            desired=raw.get("desiredCount", 0),
            running=raw.get("runningCount", 0),
            pending=raw.get("pendingCount", 0),
            failed=raw.get("failedTasks", 0),
            rollout_state=raw.get("rolloutState", ""),
            rollout_state_reason=raw.get("rolloutStateReason", ""),
            created_at=parse_timestamp(raw.get("createdAt")),
            updated_at=parse_timestamp(raw.get("updatedAt")),
        )

    @property
    def short_id(self) -> str:
        """Return the id as the AWS console shows it, without `ecs-svc/`."""
        return get_arn_name(self.id)


@dataclass(frozen=True)
class ServiceEvent:
    """Event of a service; AWS stores the last hundred, with unique ids."""

    id: str
    at: datetime | None
    message: str

    @classmethod
    def from_aws(cls, raw: Json) -> Self:
        return cls(raw.get("id", ""), parse_timestamp(raw.get("createdAt")), raw.get("message", ""))


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
    def from_aws(cls, raw: Json) -> Self:
        return cls(
            arn=raw.get("serviceArn", ""),
            name=raw.get("serviceName", ""),
            status=raw.get("status", ""),
            cluster=raw.get("clusterArn", ""),
            task_definition=raw.get("taskDefinition", ""),
            desired=raw.get("desiredCount", 0),
            running=raw.get("runningCount", 0),
            pending=raw.get("pendingCount", 0),
            deployments=tuple(EcsDeployment.from_aws(item) for item in raw.get("deployments", ())),
            events=tuple(ServiceEvent.from_aws(item) for item in raw.get("events", ())),
            raw=dict(raw),
        )

    @property
    def is_active(self) -> bool:
        return self.status == "ACTIVE"

    @property
    def primary(self) -> EcsDeployment | None:
        """Return the deployment that ECS is moving to, or has arrived at."""
        return next((deployment for deployment in self.deployments if deployment.status == "PRIMARY"), None)

    def find_deployment(self, deployment_id: str) -> EcsDeployment | None:
        return next((deployment for deployment in self.deployments if deployment.id == deployment_id), None)


@dataclass(frozen=True)
class TaskDefinition:
    """Registered revision; `tags` only if requested."""

    arn: str
    family: str
    revision: int
    raw: dict[str, Any] = field(repr=False)
    tags: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_aws(cls, raw: Json, tags: object = ()) -> Self:
        return cls(
            arn=raw.get("taskDefinitionArn", ""),
            family=raw.get("family", ""),
            revision=raw.get("revision", 0),
            raw=dict(raw),
            tags=parse_tags(tags),
        )

    @property
    def is_active(self) -> bool:
        return bool(self.raw.get("status", "ACTIVE") == "ACTIVE")


@dataclass(frozen=True)
class EcsContainer:
    """Container of an ECS task; `exit_code` is None until it has exited."""

    name: str
    last_status: str
    exit_code: int | None
    reason: str
    image: str
    image_digest: str
    health: str

    @classmethod
    def from_aws(cls, raw: Json) -> Self:
        return cls(
            name=raw.get("name", ""),
            last_status=raw.get("lastStatus", ""),
            exit_code=raw.get("exitCode"),
            reason=raw.get("reason") or "",
            image=raw.get("image", ""),
            image_digest=raw.get("imageDigest", ""),
            health=raw.get("healthStatus", ""),
        )


_ADDRESSES = ("privateIPv4Address", "privateIPv6Address")


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
    def from_aws(cls, raw: Json) -> Self:
        arn = raw.get("taskArn", "")
        return cls(
            arn=arn,
            id=get_arn_name(arn),
            last_status=raw.get("lastStatus", ""),
            desired_status=raw.get("desiredStatus", ""),
            health=raw.get("healthStatus", ""),
            stop_code=raw.get("stopCode") or "",
            stopped_reason=raw.get("stoppedReason") or "",
            started_by=raw.get("startedBy", ""),
            task_definition=raw.get("taskDefinitionArn", ""),
            containers=tuple(EcsContainer.from_aws(container) for container in raw.get("containers", ())),
            created_at=parse_timestamp(raw.get("createdAt")),
            started_at=parse_timestamp(raw.get("startedAt")),
            stopped_at=parse_timestamp(raw.get("stoppedAt")),
            raw=dict(raw),
        )

    def list_addresses(self) -> list[str]:
        """Return the private addresses of the task's own network interface, if it has one."""
        return [
            detail["value"]
            for attachment in self.raw.get("attachments", ())
            for detail in attachment.get("details", ())
            if detail.get("name") in _ADDRESSES and detail.get("value")
        ]


@dataclass(frozen=True)
class TaskFailure:
    """Task that RunTask did not start; `reason` is AWS's code, such as RESOURCE:MEMORY."""

    arn: str
    reason: str
    detail: str

    @classmethod
    def from_aws(cls, raw: Json) -> Self:
        return cls(raw.get("arn") or "", raw.get("reason") or "", raw.get("detail") or "")


@dataclass(frozen=True)
class RunTaskResult:
    """Started tasks and failures of RunTask; AWS can return both, which is no error."""

    tasks: tuple[EcsTask, ...]
    failures: tuple[TaskFailure, ...]

    @classmethod
    def from_aws(cls, raw: Json) -> Self:
        return cls(
            tuple(EcsTask.from_aws(item) for item in raw.get("tasks") or ()),
            tuple(TaskFailure.from_aws(item) for item in raw.get("failures") or ()),
        )


@dataclass(frozen=True)
class LifecycleHook:
    """A hook of a service deployment; unknown statuses are allowed, and `target` is "" for a PAUSE."""

    id: str
    target: str
    status: str
    expires_at: datetime | None
    timeout_action: str

    @classmethod
    def from_aws(cls, raw: Json) -> Self:
        return cls(
            id=raw.get("hookId") or "",
            target=raw.get("targetArn") or "",
            status=raw.get("status") or "",
            expires_at=parse_timestamp(raw.get("expiresAt")),
            timeout_action=raw.get("timeoutAction") or "",
        )


@dataclass(frozen=True)
class RevisionShare:
    """Tasks and traffic of one revision in a service deployment; weights are percentages, None if unset."""

    arn: str
    requested: int
    running: int
    pending: int
    production_weight: float | None
    test_weight: float | None

    @classmethod
    def from_aws(cls, raw: Json) -> Self:
        return cls(
            arn=raw.get("arn") or "",
            requested=raw.get("requestedTaskCount") or 0,
            running=raw.get("runningTaskCount") or 0,
            pending=raw.get("pendingTaskCount") or 0,
            production_weight=raw.get("requestedProductionTrafficWeight"),
            test_weight=raw.get("requestedTestTrafficWeight"),
        )


@dataclass(frozen=True)
class ServiceDeployment:
    """Deployment as recorded by ECS; unknown statuses and stages are allowed.

    ListServiceDeployments fills the first fields, DescribeServiceDeployments all of them. `failed_tasks`
    counts only where the service has a circuit breaker; alarms in `has_alarms` may end the deployment.
    """

    arn: str
    status: str
    status_reason: str
    target_revision: str
    created_at: datetime | None
    finished_at: datetime | None
    stage: str
    hooks: tuple[LifecycleHook, ...]
    target: RevisionShare
    rollback_reason: str
    triggered_alarms: tuple[str, ...]
    failed_tasks: int
    bake_minutes: float
    has_alarms: bool

    @classmethod
    def from_aws(cls, raw: Json) -> Self:
        configuration = raw.get("deploymentConfiguration") or {}
        target = RevisionShare.from_aws(raw.get("targetServiceRevision") or {})
        return cls(
            arn=raw.get("serviceDeploymentArn", ""),
            status=raw.get("status", ""),
            status_reason=raw.get("statusReason") or "",
            target_revision=raw.get("targetServiceRevisionArn") or target.arn,
            created_at=parse_timestamp(raw.get("createdAt")),
            finished_at=parse_timestamp(raw.get("finishedAt")),
            stage=raw.get("lifecycleStage") or "",
            hooks=tuple(LifecycleHook.from_aws(item) for item in raw.get("lifecycleHookDetails") or ()),
            target=target,
            rollback_reason=(raw.get("rollback") or {}).get("reason") or "",
            triggered_alarms=tuple((raw.get("alarms") or {}).get("triggeredAlarmNames") or ()),
            failed_tasks=(raw.get("deploymentCircuitBreaker") or {}).get("failureCount") or 0,
            bake_minutes=configuration.get("bakeTimeInMinutes") or 0,
            has_alarms=bool((configuration.get("alarms") or {}).get("enable")),
        )


@dataclass(frozen=True)
class ServiceRevision:
    """Service revision, which links a service deployment to its task definition."""

    arn: str
    task_definition: str
    created_at: datetime | None
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def from_aws(cls, raw: Json) -> Self:
        return cls(
            arn=raw.get("serviceRevisionArn", ""),
            task_definition=raw.get("taskDefinition", ""),
            created_at=parse_timestamp(raw.get("createdAt")),
            raw=dict(raw),
        )


def parse_tags(tags: object) -> dict[str, str]:
    """Return tags as a mapping; ECS has a list of pairs."""
    pairs = tags if isinstance(tags, list | tuple) else ()
    return {pair["key"]: pair.get("value", "") for pair in pairs}


def format_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]
