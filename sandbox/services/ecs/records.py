"""Records of ECS under AWS's names in snake case, as moto's serializer expects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Tags = list[dict[str, str]]


@dataclass(eq=False)
class SandboxTaskDefinition:
    """Revision of a family; `document` is the registered one with AWS's defaults."""

    arn: str
    family: str
    revision: int
    document: dict[str, Any]
    registered_at: datetime
    registered_by: str
    tags: Tags = field(default_factory=list)
    status: str = "ACTIVE"
    deregistered_at: datetime | None = None
    delete_requested_at: datetime | None = None

    @property
    def containers(self) -> list[dict[str, Any]]:
        definitions: list[dict[str, Any]] = self.document["containerDefinitions"]
        return definitions

    @property
    def network_mode(self) -> str:
        return str(self.document["networkMode"])

    def to_wire(self) -> dict[str, Any]:
        return {
            **self.document,
            "taskDefinitionArn": self.arn,
            "revision": self.revision,
            "status": self.status,
            "registeredAt": self.registered_at,
            "registeredBy": self.registered_by,
            "deregisteredAt": self.deregistered_at,
            "deleteRequestedAt": self.delete_requested_at,
        }


@dataclass(eq=False)
class SandboxTask:
    """One ECS task. `next_at` is when it leaves its state, in sandbox seconds."""

    task_arn: str
    cluster_arn: str
    task_definition_arn: str
    containers: list[dict[str, Any]]
    created_at: datetime
    group: str
    launch_type: str | None
    behavior: str
    next_at: float
    started_by: str = ""
    last_status: str = "PROVISIONING"
    desired_status: str = "RUNNING"
    health_status: str = "UNKNOWN"
    connectivity: str | None = None
    connectivity_at: datetime | None = None
    pull_started_at: datetime | None = None
    pull_stopped_at: datetime | None = None
    started_at: datetime | None = None
    stopping_at: datetime | None = None
    stopped_at: datetime | None = None
    execution_stopped_at: datetime | None = None
    stop_code: str | None = None
    stopped_reason: str | None = None
    cpu: str | None = None
    memory: str | None = None
    version: int = 1
    availability_zone: str | None = None
    platform_version: str | None = None
    platform_family: str | None = None
    capacity_provider_name: str | None = None
    enable_execute_command: bool = False
    ephemeral_storage: dict[str, int] | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    attachments: list[dict[str, Any]] = field(default_factory=list)
    attributes: list[dict[str, str]] = field(default_factory=list)
    tags: Tags = field(default_factory=list)
    # State of the scheduler that AWS does not show.
    service_arn: str | None = None
    ip: str = ""
    targets: list[tuple[str, int]] = field(default_factory=list)
    running_since: float | None = None
    stopped_since: float | None = None
    printed: int = 0
    counted_failed: bool = False
    counted_healthy: bool = False
    replaces_unhealthy: bool = False
    is_replaced: bool = False
    # The last version that EventBridge has.
    sent_version: int = 0
    # On a container instance: which one, and the CPU units, MiB and host ports that it takes there.
    container_instance_arn: str | None = None
    reserved: dict[str, Any] | None = None
    # Time of the next change, in sandbox seconds.
    due_at: float = 0.0

    @property
    def id(self) -> str:
        return self.task_arn.rpartition("/")[2]

    @property
    def is_live(self) -> bool:
        return self.desired_status == "RUNNING"

    @property
    def is_running(self) -> bool:
        return self.last_status == "RUNNING"


@dataclass(eq=False)
class SandboxDeployment:
    """Deployment of a service; stored after its end, because a rollback reuses it."""

    id: str
    task_definition: str
    created_at: datetime
    updated_at: datetime
    desired_count: int
    launch_type: str | None = None
    capacity_provider_strategy: list[dict[str, Any]] = field(default_factory=list)
    platform_version: str | None = None
    platform_family: str | None = None
    network_configuration: dict[str, Any] | None = None
    load_balancers: list[dict[str, Any]] = field(default_factory=list)
    service_registries: list[dict[str, Any]] = field(default_factory=list)
    service_connect_configuration: dict[str, Any] | None = None
    volume_configurations: list[dict[str, Any]] | None = None
    vpc_lattice_configurations: list[dict[str, Any]] | None = None
    # DescribeServices shows neither: they are part of service revisions.
    gateway_connectors: list[dict[str, Any]] | None = None
    monitoring: dict[str, Any] | None = None
    status: str = "PRIMARY"
    running_count: int = 0
    pending_count: int = 0
    failed_tasks: int = 0
    rollout_state: str = "IN_PROGRESS"
    rollout_state_reason: str = ""
    # State of the scheduler that AWS does not show.
    strategy: str = "ROLLING"
    uses_alternate: bool = False
    failed_launches: int = 0
    no_launch_before: float = 0.0
    settled_since: float | None = None
    is_rollback: bool = False
    steady_since: float | None = None

    @property
    def number(self) -> str:
        return self.id.partition("/")[2]

    @property
    def targets(self) -> list[tuple[str, int]]:
        """Return the target groups of this deployment's tasks, each with the container's port."""
        return [(self.get_group(balancer), balancer["containerPort"]) for balancer in self.load_balancers]

    def get_group(self, balancer: Mapping[str, Any]) -> str:
        alternate = (balancer.get("advancedConfiguration") or {}).get("alternateTargetGroupArn")
        return str(alternate if self.uses_alternate and alternate else balancer["targetGroupArn"])


@dataclass(eq=False)
class ServiceRevision:
    """Configuration of a deployment, in the format of DescribeServiceRevisions."""

    service_revision_arn: str
    service_arn: str
    cluster_arn: str
    task_definition: str
    created_at: datetime
    launch_type: str | None
    platform_version: str | None
    platform_family: str | None
    capacity_provider_strategy: list[dict[str, Any]]
    load_balancers: list[dict[str, Any]]
    network_configuration: dict[str, Any] | None
    container_images: list[dict[str, str]]
    resolved_configuration: dict[str, Any] | None = None
    service_registries: list[dict[str, Any]] | None = None
    service_connect_configuration: dict[str, Any] | None = None
    volume_configurations: list[dict[str, Any]] | None = None
    vpc_lattice_configurations: list[dict[str, Any]] | None = None
    gateway_connectors: list[dict[str, Any]] | None = None
    monitoring: dict[str, Any] | None = None
    # Only of an Express service.
    ecs_managed_resources: dict[str, Any] | None = None


@dataclass(eq=False)
class LifecycleHookRun:
    """A hook of one stage, under the names of DescribeServiceDeployments."""

    hook_id: str
    target_type: str
    target_arn: str | None
    status: str
    expires_at: datetime
    timeout_action: str
    # State of the scheduler that AWS does not show, in sandbox seconds.
    stage: str
    began_at: float
    ends_at: float

    @property
    def is_open(self) -> bool:
        return self.status in ("AWAITING_ACTION", "IN_PROGRESS")


@dataclass(eq=False)
class ServiceDeployment:
    """Deployment in the format of ListServiceDeployments, with its own record of a rollback."""

    service_deployment_arn: str
    service_arn: str
    cluster_arn: str
    target_service_revision_arn: str
    source_revision_arns: list[str]
    created_at: datetime
    started_at: datetime
    updated_at: datetime
    deployment_configuration: dict[str, Any]
    deployment_id: str
    status: str = "IN_PROGRESS"
    status_reason: str | None = None
    finished_at: datetime | None = None
    stopped_at: datetime | None = None
    rollback: dict[str, Any] | None = None
    deployment_circuit_breaker: dict[str, Any] | None = None
    alarms: dict[str, Any] | None = None
    # Only of the strategies that shift traffic, with the percentages that the target revision gets.
    lifecycle_stage: str | None = None
    hooks: tuple[LifecycleHookRun, ...] = ()
    test_weight: float = 0.0
    production_weight: float = 0.0
    # State of the scheduler that AWS does not show, in sandbox seconds.
    stage_since: float = 0.0
    shifted_at: float = 0.0


@dataclass(eq=False)
class SandboxService:
    """One ECS service."""

    service_name: str
    service_arn: str
    cluster_name: str
    cluster_arn: str
    desired_count: int
    created_at: datetime
    created_by: str
    task_definition: str | None
    deployment_configuration: dict[str, Any]
    deployment_controller: dict[str, str]
    scheduling_strategy: str = "REPLICA"
    status: str = "ACTIVE"
    launch_type: str | None = None
    capacity_provider_strategy: list[dict[str, Any]] = field(default_factory=list)
    platform_version: str | None = None
    platform_family: str | None = None
    network_configuration: dict[str, Any] | None = None
    load_balancers: list[dict[str, Any]] = field(default_factory=list)
    service_registries: list[dict[str, Any]] = field(default_factory=list)
    service_connect_configuration: dict[str, Any] | None = None
    volume_configurations: list[dict[str, Any]] | None = None
    vpc_lattice_configurations: list[dict[str, Any]] | None = None
    # DescribeServices shows neither: they are part of service revisions.
    gateway_connectors: list[dict[str, Any]] | None = None
    monitoring: dict[str, Any] | None = None
    placement_constraints: list[dict[str, Any]] = field(default_factory=list)
    placement_strategy: list[dict[str, Any]] = field(default_factory=list)
    health_check_grace_period_seconds: int | None = None
    availability_zone_rebalancing: str = "ENABLED"
    enable_ecs_managed_tags: bool = False
    enable_execute_command: bool = False
    propagate_tags: str = "NONE"
    role_arn: str | None = None
    # ECS manages the load balancer, auto scaling and deployments of an Express service.
    resource_management_type: str = "CUSTOMER"
    tags: Tags = field(default_factory=list)
    running_count: int = 0
    pending_count: int = 0
    deployments: list[SandboxDeployment] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    task_sets: list[Any] = field(default_factory=list)
    # State of the scheduler that AWS does not show.
    shows_task_sets: bool = False
    history: list[ServiceDeployment] = field(default_factory=list)
    revisions: dict[str, ServiceRevision] = field(default_factory=dict)
    last_completed: SandboxDeployment | None = None
    said_at: dict[str, float] = field(default_factory=dict)
    inactive_since: float | None = None
    # Time of the next scheduler run for the service, in sandbox seconds.
    due_at: float = 0.0

    # moto's other back ends use these names of services.
    @property
    def arn(self) -> str:
        return self.service_arn

    @property
    def physical_resource_id(self) -> str:
        return self.service_arn

    @property
    def name(self) -> str:
        return self.service_name

    @property
    def primary(self) -> SandboxDeployment | None:
        return next((d for d in self.deployments if d.status == "PRIMARY"), None)

    @property
    def is_scheduled(self) -> bool:
        """Return whether ECS itself replaces the tasks, rather than CodeDeploy or an external controller."""
        return self.deployment_controller.get("type", "ECS") == "ECS"

    @property
    def current_service_deployment(self) -> str | None:
        return self.history[0].service_deployment_arn if self.history else None

    @property
    def current_service_revisions(self) -> list[dict[str, Any]]:
        return [
            {
                "arn": revision.service_revision_arn,
                "requestedTaskCount": d.desired_count,
                "runningTaskCount": d.running_count,
                "pendingTaskCount": d.pending_count,
            }
            for d in self.deployments
            if (revision := self.revisions.get(d.id))
        ]
