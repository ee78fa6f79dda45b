"""Operations on ECS services: create, update, delete, describe, list."""

import copy
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from moto.ecs.exceptions import ClusterNotFoundException, ServiceNotFoundException

from sandbox.clock import CLOCK
from sandbox.journal import mark_unchanged
from sandbox.services import elb
from sandbox.services.ecs import daemons, deployments, network, validations
from sandbox.services.ecs.deployments import CONFIGURATION_FIELDS
from sandbox.services.ecs.errors import ClientTokenConflict, InvalidEcsParameter, ServiceNotActive
from sandbox.services.ecs.managed_deployments import controllers, traffic
from sandbox.services.ecs.records import SandboxService, SandboxTaskDefinition

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

MAX_DESCRIBED = 10
TOKEN_LIFETIME = 24 * 3600.0
DEFAULT_CONFIGURATION: dict[str, Any] = {
    "deploymentCircuitBreaker": {"enable": False, "rollback": False},
    "maximumPercent": 200,
    "minimumHealthyPercent": 100,
    "strategy": "ROLLING",
    "bakeTimeInMinutes": 0,
}
# Parameters of CreateService and UpdateService that are stored unchanged, with their attributes.
COPIED_FIELDS = {
    "capacityProviderStrategy": "capacity_provider_strategy",
    "networkConfiguration": "network_configuration",
    "loadBalancers": "load_balancers",
    "serviceRegistries": "service_registries",
    "serviceConnectConfiguration": "service_connect_configuration",
    "volumeConfigurations": "volume_configurations",
    "vpcLatticeConfigurations": "vpc_lattice_configurations",
    "gatewayConnectors": "gateway_connectors",
    "monitoring": "monitoring",
    "placementConstraints": "placement_constraints",
    "placementStrategy": "placement_strategy",
    "healthCheckGracePeriodSeconds": "health_check_grace_period_seconds",
    "availabilityZoneRebalancing": "availability_zone_rebalancing",
    "enableECSManagedTags": "enable_ecs_managed_tags",
    "enableExecuteCommand": "enable_execute_command",
    "propagateTags": "propagate_tags",
    "platformVersion": "platform_version",
    "desiredCount": "desired_count",
}


def get_cluster(backend: "SandboxEcs", params: Mapping[str, Any]) -> Any:
    cluster = backend._get_cluster(params.get("cluster") or "default")
    if cluster.status != "ACTIVE":
        raise ClusterNotFoundException
    return cluster


def find_service(backend: "SandboxEcs", params: Mapping[str, Any], name: str) -> SandboxService:
    """Return the service with a name or ARN. Raises ClusterNotFound or ServiceNotFound."""
    cluster = get_cluster(backend, params)
    service = backend.services.get(f"{cluster.name}:{name.rpartition('/')[2]}")
    if service is None:
        raise ServiceNotFoundException
    return service


def save_client_token(
    backend: "SandboxEcs", operation: str, cluster: str, params: Mapping[str, Any], made: list[str]
) -> None:
    if token := params.get("clientToken"):
        expires = CLOCK.elapsed + TOKEN_LIFETIME
        backend.tokens[operation, cluster, token] = (_compute_fingerprint(params), made, expires)


def get_client_token(
    backend: "SandboxEcs", operation: str, cluster: str, params: Mapping[str, Any]
) -> list[str] | None:
    """Return the ARNs made for a client token before. Raises `Conflict` if it was for other parameters."""
    for key, (_, _, expires) in list(backend.tokens.items()):
        if expires <= CLOCK.elapsed:
            del backend.tokens[key]
    stored = backend.tokens.get((operation, cluster, params.get("clientToken") or ""))
    if stored is None:
        return None
    fingerprint, made, _ = stored
    if fingerprint != _compute_fingerprint(params):
        raise ClientTokenConflict(made)
    mark_unchanged()
    return made


def _compute_fingerprint(params: Mapping[str, Any]) -> str:
    return sha256(json.dumps(params, sort_keys=True, default=str).encode()).hexdigest()


def create_service(backend: "SandboxEcs", params: Mapping[str, Any]) -> SandboxService:
    cluster = get_cluster(backend, params)
    name = params.get("serviceName") or ""
    validations.check_service_name(name)
    existing = backend.services.get(f"{cluster.name}:{name}")
    if get_client_token(backend, "CreateService", cluster.name, params) is not None and existing is not None:
        return existing
    _validate_name_free(existing)
    service = _build_service(backend, cluster, params)
    backend.services[f"{cluster.name}:{name}"] = service
    save_client_token(backend, "CreateService", cluster.name, params, [service.service_arn])
    if service.is_scheduled or service.task_definition is not None:
        deployments.start_deployment(backend, service)
        service.pending_count = 0
        service.shows_task_sets = not service.is_scheduled
    return service


def _validate_name_free(existing: SandboxService | None) -> None:
    if existing is None or existing.status == "INACTIVE":
        return
    if existing.status == "DRAINING":
        raise InvalidEcsParameter("Unable to Start a service that is still Draining.")
    raise InvalidEcsParameter("Creation of service was not idempotent.")


def _build_service(backend: "SandboxEcs", cluster: Any, params: Mapping[str, Any]) -> SandboxService:
    controller = params.get("deploymentController") or {"type": "ECS"}
    strategy = params.get("schedulingStrategy") or "REPLICA"
    _check_desired_count(params, strategy)
    percentages = daemons.DEFAULT_PERCENTAGES if strategy == daemons.DAEMON else {}
    if params.get("launchType") and params.get("capacityProviderStrategy"):
        raise InvalidEcsParameter("Specify either Launch Type or Capacity Provider Strategy, but not both.")
    by_provider = bool(params.get("capacityProviderStrategy"))
    launch_type = None if by_provider else params.get("launchType", "EC2")
    service = SandboxService(
        service_name=params["serviceName"],
        service_arn=f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:service/{cluster.name}/{params['serviceName']}",
        cluster_name=cluster.name,
        cluster_arn=cluster.arn,
        desired_count=params.get("desiredCount") or 0,
        created_at=CLOCK.now(),
        created_by=f"arn:aws:iam::{backend.account_id}:root",
        task_definition=None,
        deployment_configuration=_merge_configuration({**DEFAULT_CONFIGURATION, **percentages}, params),
        deployment_controller=dict(controller),
        scheduling_strategy=strategy,
        availability_zone_rebalancing="DISABLED" if strategy == daemons.DAEMON else "ENABLED",
        launch_type=launch_type,
        tags=copy.deepcopy(params.get("tags") or []),
        role_arn=_get_role_arn(backend, params.get("role")),
    )
    _assign_fields(service, params)
    if launch_type == "FARGATE" or by_provider:
        service.platform_version = service.platform_version or "LATEST"
        service.platform_family = "Linux"
    _validate_service(backend, service, params.get("taskDefinition"))
    daemons.check_daemon(service)
    traffic.check_strategy(backend, service)
    return service


def _check_desired_count(params: Mapping[str, Any], strategy: str) -> None:
    if strategy == daemons.DAEMON:
        if params.get("desiredCount") is not None:
            raise InvalidEcsParameter(
                "The daemon scheduling strategy does not support a desired count for services. "
                "Remove the desired count value and try again."
            )
    elif params.get("desiredCount") is None:
        raise InvalidEcsParameter("Desired count is required when the scheduling strategy is REPLICA.")


def _get_role_arn(backend: "SandboxEcs", role: str | None) -> str:
    """Return the ARN of a role by name or ARN; without one, of the service-linked role."""
    if role and role.startswith("arn:"):
        return role
    name = role or "aws-service-role/ecs.amazonaws.com/AWSServiceRoleForECS"
    return f"arn:aws:iam::{backend.account_id}:role/{name}"


def _merge_configuration(before: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    configuration = params.get("deploymentConfiguration") or {}
    merged = {**copy.deepcopy(dict(before)), **copy.deepcopy(configuration)}
    for strategy in ("canary", "linear"):
        if merged["strategy"] != strategy.upper() and f"{strategy}Configuration" not in configuration:
            merged.pop(f"{strategy}Configuration", None)
    validations.check_deployment_configuration(merged)
    return merged


def _assign_fields(service: SandboxService, params: Mapping[str, Any]) -> None:
    for name, attribute in COPIED_FIELDS.items():
        if params.get(name) is not None:
            setattr(service, attribute, copy.deepcopy(params[name]))
    service.capacity_provider_strategy = [
        {"weight": 0, "base": 0, **item} for item in service.capacity_provider_strategy
    ]
    vpc = (service.network_configuration or {}).get("awsvpcConfiguration")
    if vpc is not None:
        vpc.setdefault("securityGroups", [])
        vpc.setdefault("assignPublicIp", "DISABLED")


def _validate_service(backend: "SandboxEcs", service: SandboxService, reference: str | None) -> None:
    """Check a service as it would be, against its task definition and the places and groups that it names."""
    validations.check_propagate_tags(service.propagate_tags)
    if reference is None:
        if service.is_scheduled:
            raise InvalidEcsParameter("TaskDefinition can not be blank.")
        return
    definition = backend.definitions.get_usable(reference)
    service.task_definition = definition.arn
    validations.check_launch_type(service.launch_type, definition)
    validations.check_network(service.network_configuration, definition)
    network.validate_network(backend.account_id, backend.region_name, service.network_configuration)
    for balancer in service.load_balancers:
        _validate_load_balancer(backend, balancer, definition)


def _validate_load_balancer(
    backend: "SandboxEcs", balancer: Mapping[str, Any], definition: SandboxTaskDefinition
) -> None:
    arn, container, port = (balancer.get(n) for n in ("targetGroupArn", "containerName", "containerPort"))
    if arn is None:
        raise InvalidEcsParameter("Specify a targetGroupArn for each load balancer.")
    group = elb.find_group(backend.account_id, backend.region_name, arn)
    if group is None:
        raise InvalidEcsParameter(f"Unable to find the specified target group: {arn}.")
    named = next((c for c in definition.containers if c["name"] == container), None)
    if named is None:
        raise InvalidEcsParameter(f"The container {container} does not exist in the task definition.")
    if port not in [m.get("containerPort") for m in named["portMappings"]]:
        raise InvalidEcsParameter(f"The container {container} did not have a container port {port} defined.")
    if definition.network_mode == "awsvpc" and group.target_type != "ip":
        raise InvalidEcsParameter(
            f"The provided target group {arn} has target type {group.target_type}, which is incompatible"
            " with the awsvpc network mode specified in the task definition."
        )
    if not elb.is_in_use(backend.account_id, backend.region_name, arn):
        raise InvalidEcsParameter(
            f"The target group with targetGroupArn {arn} does not have an associated load balancer."
        )


def update_service(backend: "SandboxEcs", params: Mapping[str, Any]) -> SandboxService:
    service = find_service(backend, params, params["service"])
    if service.status != "ACTIVE":
        raise ServiceNotActive
    if daemons.is_daemon(service):
        _check_desired_count(params, daemons.DAEMON)
    _check_express_update(service, params)
    # Everything is checked on a copy, so that a refused update leaves no trace.
    draft = copy.copy(service)
    draft.deployment_configuration = _merge_configuration(service.deployment_configuration, params)
    if params.get("capacityProviderStrategy"):
        draft.launch_type = None
    if controller := params.get("deploymentController"):
        draft.deployment_controller = dict(controller)
    _assign_fields(draft, params)
    controllers.check_update(service, params, draft)
    draft.shows_task_sets = service.shows_task_sets and not draft.is_scheduled
    if params.get("taskDefinition") or any(params.get(n) for n in ("networkConfiguration", "loadBalancers")):
        reference = params.get("taskDefinition") or service.task_definition
        if params.get("taskDefinition") or backend.definitions.get(reference or "").status == "ACTIVE":
            _validate_service(backend, draft, reference)
    daemons.check_daemon(draft)
    traffic.check_strategy(backend, draft)
    is_new = any(getattr(draft, name) != getattr(service, name) for name in CONFIGURATION_FIELDS)
    # ECS takes over from CodeDeploy or another tool.
    is_new = is_new or (draft.is_scheduled and not service.is_scheduled)
    _apply_draft(backend, service, draft, begin=is_new or bool(params.get("forceNewDeployment")))
    return service


def _check_express_update(service: SandboxService, params: Mapping[str, Any]) -> None:
    """Refuse what only ECS sets for an Express service (developer guide, Express Mode, service defaults)."""
    strategy = (params.get("deploymentConfiguration") or {}).get("strategy")
    is_changed = strategy is not None and strategy != service.deployment_configuration["strategy"]
    if service.resource_management_type == "ECS" and (is_changed or params.get("loadBalancers")):
        raise InvalidEcsParameter(
            "Load balancers and the deployment strategy of an Express service can't be updated."
        )


def _apply_draft(
    backend: "SandboxEcs", service: SandboxService, draft: SandboxService, *, begin: bool
) -> None:
    changes = {n: v for n, v in vars(draft).items() if v != getattr(service, n)}
    for name, value in changes.items():
        setattr(service, name, value)
    service.due_at = 0.0
    if begin and service.is_scheduled:
        deployments.start_deployment(backend, service)
    elif not changes:
        mark_unchanged()
    if service.primary is not None:
        service.primary.desired_count = service.desired_count


def delete_service(backend: "SandboxEcs", params: Mapping[str, Any]) -> SandboxService:
    service = find_service(backend, params, params["service"])
    if service.status == "INACTIVE":
        raise ServiceNotFoundException
    if service.status == "DRAINING":
        mark_unchanged()
        return service
    if service.desired_count > 0 and not params.get("force") and not daemons.is_daemon(service):
        raise InvalidEcsParameter("The service cannot be stopped while it is scaled above 0.")
    service.desired_count = 0
    service.status = "DRAINING"
    service.due_at = 0.0
    for deployment in service.deployments:
        deployment.desired_count = 0
    return service


def describe_services(
    backend: "SandboxEcs", params: Mapping[str, Any]
) -> tuple[list[SandboxService], list[dict[str, str]]]:
    names = params.get("services") or []
    if not names:
        raise InvalidEcsParameter("Services cannot be empty.")
    if len(names) > MAX_DESCRIBED:
        raise InvalidEcsParameter(f"You can describe at most {MAX_DESCRIBED} services at once.")
    cluster = get_cluster(backend, params)
    described, failures = [], []
    for name in names:
        short = name.rpartition("/")[2]
        service = backend.services.get(f"{cluster.name}:{short}")
        if service is None:
            arn = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:service/{cluster.name}/{short}"
            failures.append({"arn": arn, "reason": "MISSING"})
        elif service not in described:
            described.append(service)
    return described, failures


def list_service_arns(backend: "SandboxEcs", params: Mapping[str, Any]) -> list[str]:
    cluster = get_cluster(backend, params)
    filters = {
        "launch_type": params.get("launchType"),
        "scheduling_strategy": params.get("schedulingStrategy"),
    }
    return [
        s.service_arn
        for s in backend.services.values()
        if s.cluster_name == cluster.name
        and s.status == "ACTIVE"
        and all(value is None or getattr(s, name) == value for name, value in filters.items())
    ]
