"""Daemons: one daemon task on each instance of their capacity providers.

Sources: ECS API, CreateDaemon, UpdateDaemon, DeleteDaemon, DescribeDaemon, DescribeDaemonDeployments; ECS
developer guide, Amazon ECS Managed Daemons. Daemon tasks are only counted: ListTasks does not contain them.
A deployment takes half a minute and its bake time, which AWS does not document, and always succeeds.
"""

import copy
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from moto.ecs.exceptions import ECSException

from sandbox.clock import CLOCK
from sandbox.services.ecs.errors import InvalidEcsParameter
from sandbox.services.ecs.managed_instances import capacity_providers
from sandbox.services.ecs.managed_instances.capacity_providers import ManagedCapacityProvider
from sandbox.services.ecs.managed_instances.daemon_task_definitions import DaemonTaskDefinitionRegistry
from sandbox.services.ecs.records import Tags
from sandbox.services.ecs.services import get_client_token, get_cluster, save_client_token
from sandbox.services.ecs.validations import NAME_PATTERN

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

ROLLOUT_SECONDS: Final = 30.0
DEFAULT_DRAIN_PERCENT: Final = 25.0
DELETE_IN_PROGRESS: Final = "DELETE_IN_PROGRESS"


class DaemonNotFound(ECSException):
    """Error of an ARN without a daemon."""

    def __init__(self) -> None:
        super().__init__("DaemonNotFoundException", "The specified daemon wasn't found.")


class DaemonNotActive(ECSException):
    """Error of a daemon that is being deleted."""

    def __init__(self) -> None:
        super().__init__("DaemonNotActiveException", "The specified daemon isn't active.")


@dataclass(eq=False)
class DaemonRevision:
    """Configuration of a deployment, under the names of DescribeDaemonRevisions."""

    daemon_revision_arn: str
    cluster_arn: str
    daemon_arn: str
    daemon_task_definition_arn: str
    created_at: datetime
    container_images: list[dict[str, str]]
    propagate_tags: str
    enable_ecs_managed_tags: bool
    enable_execute_command: bool
    critical: bool
    # State that AWS shows with the counts of a daemon.
    provider_names: tuple[str, ...] = ()


@dataclass(eq=False)
class DaemonDeployment:
    """One deployment; its status follows from the time since `began_at`, in sandbox seconds."""

    daemon_deployment_arn: str
    target: DaemonRevision | None
    source: DaemonRevision | None
    configuration: dict[str, Any]
    created_at: datetime
    began_at: float

    @property
    def seconds(self) -> float:
        return ROLLOUT_SECONDS + 60.0 * (self.configuration.get("bakeTimeInMinutes") or 0)

    @property
    def is_over(self) -> bool:
        return CLOCK.elapsed >= self.began_at + self.seconds


@dataclass(eq=False)
class SandboxDaemon:
    """One daemon, with its revisions and deployments, the newest last."""

    daemon_arn: str
    cluster_arn: str
    cluster_name: str
    created_at: datetime
    updated_at: datetime
    tags: Tags = field(default_factory=list)
    status: str = "ACTIVE"
    deployments: list[DaemonDeployment] = field(default_factory=list)

    @property
    def latest(self) -> DaemonDeployment:
        return self.deployments[-1]

    @property
    def is_gone(self) -> bool:
        return self.status == DELETE_IN_PROGRESS and self.latest.is_over

    @property
    def current_revision(self) -> DaemonRevision | None:
        """Return the revision that runs: that of a deployment in progress only when it has ended."""
        return self.latest.target if self.latest.is_over else self.latest.source


class DaemonState:
    """The daemons and daemon task definitions of one account and region."""

    def __init__(self, account_id: str, region: str) -> None:
        self.definitions = DaemonTaskDefinitionRegistry(account_id, region)
        self.daemons: dict[str, SandboxDaemon] = {}

    def list_daemons(self) -> list[SandboxDaemon]:
        """Return the daemons that exist."""
        return [daemon for daemon in self.daemons.values() if not daemon.is_gone]

    def get(self, arn: str) -> SandboxDaemon:
        """Return a daemon. Raises DaemonNotFoundException."""
        daemon = self.daemons.get(arn)
        if daemon is None or daemon.is_gone:
            raise DaemonNotFound
        return daemon


def create_daemon(backend: "SandboxEcs", params: Mapping[str, Any]) -> SandboxDaemon:
    """Create a daemon, and start its first deployment. Raises the error of AWS."""
    cluster, name = get_cluster(backend, {"cluster": params.get("clusterArn")}), params["daemonName"]
    if not NAME_PATTERN.match(name):
        raise InvalidEcsParameter(
            "Daemon name must be 1 to 255 letters (uppercase and lowercase), numbers, underscores, and"
            " hyphens."
        )
    arn = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:daemon/{cluster.name}/{name}"
    existing = backend.daemons.daemons.get(arn)
    if get_client_token(backend, "CreateDaemon", cluster.name, params) is not None and existing is not None:
        return existing
    if existing is not None and not existing.is_gone:
        # AWS documents that names are unique, and not the message.
        raise InvalidEcsParameter(f"The daemon {name} already exists.")
    now = CLOCK.now()
    daemon = SandboxDaemon(arn, cluster.arn, cluster.name, now, now, copy.deepcopy(params.get("tags") or []))
    _start_deployment(backend, daemon, params)
    backend.daemons.daemons[arn] = daemon
    save_client_token(backend, "CreateDaemon", cluster.name, params, [arn])
    return daemon


def update_daemon(backend: "SandboxEcs", params: Mapping[str, Any]) -> SandboxDaemon:
    """Start a deployment of a new configuration; omitted settings return to their defaults."""
    daemon = _get_active(backend, params)
    _start_deployment(backend, daemon, params)
    daemon.updated_at = CLOCK.now()
    return daemon


def delete_daemon(backend: "SandboxEcs", params: Mapping[str, Any]) -> SandboxDaemon:
    """Start the deployment that removes the daemon from its instances."""
    daemon = _get_active(backend, params)
    _add_deployment(backend, daemon, None, {})
    daemon.status, daemon.updated_at = DELETE_IN_PROGRESS, CLOCK.now()
    return daemon


def _get_active(backend: "SandboxEcs", params: Mapping[str, Any]) -> SandboxDaemon:
    daemon = backend.daemons.get(params["daemonArn"])
    if daemon.status != "ACTIVE":
        raise DaemonNotActive
    return daemon


def _start_deployment(backend: "SandboxEcs", daemon: SandboxDaemon, params: Mapping[str, Any]) -> None:
    definition = backend.daemons.definitions.get(params["daemonTaskDefinitionArn"])
    place = daemon.daemon_arn.partition(":daemon/")[2]
    revision = DaemonRevision(
        f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:daemon-revision/{place}/{uuid4()}",
        daemon.cluster_arn,
        daemon.daemon_arn,
        definition.daemon_task_definition_arn,
        CLOCK.now(),
        [
            {"containerName": container.get("name") or "", "image": container["image"]}
            for container in definition.document["containerDefinitions"]
        ],
        propagate_tags=params.get("propagateTags") or "NONE",
        enable_ecs_managed_tags=bool(params.get("enableECSManagedTags")),
        enable_execute_command=bool(params.get("enableExecuteCommand")),
        critical=params.get("critical") is not False,
        provider_names=tuple(
            p.name for p in _list_providers(backend, daemon, params["capacityProviderArns"])
        ),
    )
    _add_deployment(backend, daemon, revision, params.get("deploymentConfiguration") or {})


def _list_providers(
    backend: "SandboxEcs", daemon: SandboxDaemon, references: Sequence[str]
) -> list[ManagedCapacityProvider]:
    providers = []
    for reference in references:
        provider = capacity_providers.find_provider(backend, daemon.cluster_name, reference)
        if provider is None:
            raise InvalidEcsParameter(
                "ECS Managed Daemons is only supported for Amazon ECS Managed Instances Capacity Providers."
            )
        providers.append(provider)
    return providers


def _add_deployment(
    backend: "SandboxEcs",
    daemon: SandboxDaemon,
    target: DaemonRevision | None,
    configuration: Mapping[str, Any],
) -> None:
    place = daemon.daemon_arn.partition(":daemon/")[2]
    prefix = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:daemon-deployment/{place}"
    source = daemon.current_revision if daemon.deployments else None
    full = {
        "drainPercent": DEFAULT_DRAIN_PERCENT,
        "bakeTimeInMinutes": 0,
        **copy.deepcopy(dict(configuration)),
    }
    daemon.deployments.append(
        DaemonDeployment(
            f"{prefix}/{secrets.token_urlsafe(16)[:21]}", target, source, full, CLOCK.now(), CLOCK.elapsed
        )
    )


def summarize_daemon(daemon: SandboxDaemon) -> dict[str, Any]:
    """Return the daemon in the format of ListDaemons."""
    return {
        "daemonArn": daemon.daemon_arn,
        "status": daemon.status,
        "createdAt": daemon.created_at,
        "updatedAt": daemon.updated_at,
    }


def describe_daemon(backend: "SandboxEcs", daemon: SandboxDaemon) -> dict[str, Any]:
    """Return the daemon in the format of DescribeDaemon."""
    revision = daemon.current_revision
    return {
        **summarize_daemon(daemon),
        "clusterArn": daemon.cluster_arn,
        "deploymentArn": daemon.latest.daemon_deployment_arn,
        "currentRevisions": [] if revision is None else [_describe_running(backend, daemon, revision)],
    }


def _count_instances(
    backend: "SandboxEcs", daemon: SandboxDaemon, revision: DaemonRevision
) -> dict[str, int]:
    """Return the number of instances by the ARN of their capacity provider."""
    names = revision.provider_names
    providers = [capacity_providers.find_provider(backend, daemon.cluster_name, name) for name in names]
    return {
        provider.capacity_provider_arn: len(capacity_providers.list_provider_instances(backend, provider))
        for provider in providers
        if provider is not None
    }


def _describe_running(
    backend: "SandboxEcs", daemon: SandboxDaemon, revision: DaemonRevision
) -> dict[str, Any]:
    counts = _count_instances(backend, daemon, revision)
    return {
        "arn": revision.daemon_revision_arn,
        "capacityProviders": [
            {"arn": arn, "runningCount": count, "withoutDaemonCount": 0} for arn, count in counts.items()
        ],
        "totalRunningCount": sum(counts.values()),
        "totalWithoutDaemonCount": 0,
    }


def describe_deployment(
    backend: "SandboxEcs", daemon: SandboxDaemon, deployment: DaemonDeployment
) -> dict[str, Any]:
    """Return a deployment in the format of DescribeDaemonDeployments."""
    is_superseded = deployment is not daemon.latest and not deployment.is_over
    status = "STOPPED" if is_superseded else "SUCCESSFUL" if deployment.is_over else "IN_PROGRESS"
    finished_at = deployment.created_at + timedelta(seconds=deployment.seconds)
    target, source = deployment.target, deployment.source
    drain = deployment.configuration["drainPercent"]
    return {
        "daemonDeploymentArn": deployment.daemon_deployment_arn,
        "clusterArn": daemon.cluster_arn,
        "status": status,
        "targetDaemonRevision": target
        and _describe_rollout(backend, daemon, target, is_running=deployment.is_over),
        "sourceDaemonRevisions": source
        and [_describe_rollout(backend, daemon, source, is_running=not deployment.is_over, drain=drain)],
        "circuitBreaker": {
            "failureCount": 0,
            "status": "MONITORING_COMPLETE" if deployment.is_over else "MONITORING",
            "threshold": 3,
        },
        "deploymentConfiguration": deployment.configuration,
        "createdAt": deployment.created_at,
        "startedAt": deployment.created_at,
        "finishedAt": finished_at if deployment.is_over else None,
    }


def _describe_rollout(
    backend: "SandboxEcs",
    daemon: SandboxDaemon,
    revision: DaemonRevision,
    *,
    is_running: bool,
    drain: float = 0.0,
) -> dict[str, Any]:
    counts = _count_instances(backend, daemon, revision)
    running = {arn: count if is_running else 0 for arn, count in counts.items()}
    draining = {arn: math.ceil(count * drain / 100) for arn, count in running.items()}
    return {
        "arn": revision.daemon_revision_arn,
        "capacityProviders": [
            {"arn": arn, "runningInstanceCount": running[arn], "drainingInstanceCount": draining[arn]}
            for arn in counts
        ],
        "totalRunningInstanceCount": sum(running.values()),
        "totalDrainingInstanceCount": sum(draining.values()),
    }
