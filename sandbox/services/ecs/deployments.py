"""Deployments of ECS services: start, completion and recorded configuration."""

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandbox.clock import CLOCK
from sandbox.services.ecs import event_bridge, events
from sandbox.services.ecs.managed_deployments import alarms, traffic
from sandbox.services.ecs.records import SandboxDeployment, SandboxService, ServiceDeployment, ServiceRevision

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

# Fields of a deployment: a change of any of these starts a new one.
CONFIGURATION_FIELDS = (
    "task_definition",
    "launch_type",
    "capacity_provider_strategy",
    "platform_version",
    "platform_family",
    "network_configuration",
    "load_balancers",
    "service_registries",
    "service_connect_configuration",
    "volume_configurations",
    "vpc_lattice_configurations",
    # AWS does not say what these start; they belong to a revision, which never changes.
    "gateway_connectors",
    "monitoring",
)
MAX_DEPLOYMENTS = 100
DIGITS = 19


def generate_number() -> str:
    """Return nineteen digits, the first not zero, as in ecs-svc/9223370564341623665."""
    return str(10 ** (DIGITS - 1) + secrets.randbelow(8 * 10 ** (DIGITS - 1)))


def start_deployment(backend: "SandboxEcs", service: SandboxService) -> SandboxDeployment:
    """Start a deployment of the service's current configuration; the previous one drains."""
    if service.task_definition is None:
        raise ValueError("a service that ECS schedules has a task definition")
    now = CLOCK.now()
    number = generate_number()
    made = SandboxDeployment(
        id=f"ecs-svc/{number}",
        created_at=now,
        updated_at=now,
        desired_count=service.desired_count,
        rollout_state_reason=f"ECS deployment ecs-svc/{number} in progress.",
        **{name: getattr(service, name) for name in CONFIGURATION_FIELDS},
    )
    traffic.prepare_deployment(service, made)
    sources = [r.service_revision_arn for d in service.deployments if (r := service.revisions.get(d.id))]
    for earlier in service.deployments:
        earlier.status = "ACTIVE"
    service.deployments.insert(0, made)
    events.reset_repeats(service)
    _record_deployment(backend, service, made, sources)
    alarms.start_monitoring(service.history[0])
    if made.strategy in traffic.STRATEGIES:
        traffic.start_stages(service, service.history[0])
    event_bridge.send_deployment_change(service, made, "IN_PROGRESS")
    return made


def _record_deployment(
    backend: "SandboxEcs", service: SandboxService, made: SandboxDeployment, sources: list[str]
) -> None:
    for earlier in service.history:
        if earlier.status in ("IN_PROGRESS", "ROLLBACK_REQUESTED", "ROLLBACK_IN_PROGRESS"):
            earlier.status = "STOPPED"
            earlier.status_reason = "Service deployment was superseded by a new service deployment."
            earlier.stopped_at = earlier.finished_at = earlier.updated_at = made.created_at
    prefix = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}"
    place = f"{service.cluster_name}/{service.service_name}"
    definition = backend.definitions.get(made.task_definition)
    revision = ServiceRevision(
        service_revision_arn=f"{prefix}:service-revision/{place}/{made.number}",
        service_arn=service.service_arn,
        cluster_arn=service.cluster_arn,
        created_at=made.created_at,
        **{name: getattr(made, name) for name in CONFIGURATION_FIELDS},
        container_images=[{"containerName": c["name"], "image": c["image"]} for c in definition.containers],
        resolved_configuration={"loadBalancers": [_resolve(made, b) for b in made.load_balancers]},
    )
    service.revisions[made.id] = revision
    service.history.insert(
        0,
        ServiceDeployment(
            service_deployment_arn=f"{prefix}:service-deployment/{place}/{secrets.token_urlsafe(16)[:21]}",
            service_arn=service.service_arn,
            cluster_arn=service.cluster_arn,
            target_service_revision_arn=revision.service_revision_arn,
            source_revision_arns=sources,
            created_at=made.created_at,
            started_at=made.created_at,
            updated_at=made.created_at,
            deployment_configuration=service.deployment_configuration,
            deployment_id=made.id,
        ),
    )
    del service.history[MAX_DEPLOYMENTS:]
    remembered = {d.deployment_id for d in service.history} | {d.id for d in service.deployments}
    service.revisions = {k: v for k, v in service.revisions.items() if k in remembered}


def _resolve(deployment: SandboxDeployment, balancer: Mapping[str, Any]) -> dict[str, Any]:
    rule = (balancer.get("advancedConfiguration") or {}).get("productionListenerRule")
    return {"targetGroupArn": deployment.get_group(balancer), "productionListenerRule": rule}


def complete_deployment(service: SandboxService, deployment: SandboxDeployment) -> None:
    """Mark a deployment as completed, and as the target of a rollback."""
    deployment.rollout_state = "COMPLETED"
    deployment.rollout_state_reason = f"ECS deployment {deployment.id} completed."
    deployment.updated_at = CLOCK.now()
    service.last_completed = deployment
    service.deployments = [deployment]
    events.add_deployment_completed(service, deployment)
    for record in service.history:
        if record.status in ("IN_PROGRESS", "ROLLBACK_IN_PROGRESS"):
            record.status = "ROLLBACK_SUCCESSFUL" if record.status == "ROLLBACK_IN_PROGRESS" else "SUCCESSFUL"
            record.finished_at = record.updated_at = CLOCK.now()
            alarms.end_monitoring(record)
