"""Operations on Express services: create, update, delete and describe.

Sources: ECS API, CreateExpressGatewayService, UpdateExpressGatewayService, DeleteExpressGatewayService and
DescribeExpressGatewayService; ECS developer guide, Resources created by Amazon ECS Express Mode services.
The guide and the API name other default sizes: here those of the API hold.
"""

import copy
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from moto.ecs.exceptions import ServiceNotFoundException

from sandbox.clock import CLOCK
from sandbox.services.ecs import services
from sandbox.services.ecs.errors import EcsClientException, InvalidEcsParameter, ServiceNotActive
from sandbox.services.ecs.express_services import managed_resources
from sandbox.services.ecs.express_services.managed_resources import ExpressNetwork, ExpressTraffic
from sandbox.services.ecs.records import SandboxService, SandboxTaskDefinition

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

ECS: Final = "ECS"
CONTAINER: Final = "Main"
DEFAULT_PORT: Final = 80
DEFAULT_CLUSTER: Final = "default"
DEFAULTS: Final[Mapping[str, Any]] = {"cpu": "256", "memory": "512", "healthCheckPath": "/ping"}
DEFAULT_SCALING: Final[Mapping[str, Any]] = {
    "minTaskCount": 1,
    "maxTaskCount": 20,
    "autoScalingMetric": "AVERAGE_CPU",
    "autoScalingTargetValue": 60,
}
CANARY: Final[Mapping[str, Any]] = {
    "strategy": "CANARY",
    "canaryConfiguration": {"canaryPercent": 5.0, "canaryBakeTimeInMinutes": 3},
    "bakeTimeInMinutes": 3,
}
# Fields that a task definition of the customer replaces.
_TASK_FIELDS: Final = (
    "primaryContainer", "executionRoleArn", "taskRoleArn", "cpu", "memory", "cpuArchitecture",
)  # fmt: skip
_CONFIGURED_FIELDS: Final = (*_TASK_FIELDS, "healthCheckPath", "scalingTarget")


@dataclass(eq=False)
class ExpressService:
    """What an Express service has beside its ECS service; `configuration` is the newest one.

    `configurations` holds one for each deployment, by its ID, in the format of activeConfigurations.
    """

    service: SandboxService
    infrastructure_role_arn: str
    network: ExpressNetwork
    traffic: ExpressTraffic
    log_group: str
    configuration: dict[str, Any]
    configurations: dict[str, dict[str, Any]]
    updated_at: datetime


def create_service(backend: "SandboxEcs", params: Mapping[str, Any]) -> ExpressService:
    """Create an Express service with its managed resources. Raises the error of AWS."""
    _check_task_fields(params)
    cluster = _get_cluster(backend, params)
    name = params.get("serviceName") or f"express-{secrets.token_hex(4)}"
    existing = backend.services.get(f"{cluster.name}:{name}")
    if existing is not None and existing.status != "INACTIVE":
        raise InvalidEcsParameter("Creation of service was not idempotent.")
    configuration = _merge_configuration({**DEFAULTS, "scalingTarget": dict(DEFAULT_SCALING)}, params)
    log_group = managed_resources.create_log_group(backend, cluster.name, name)
    definition = _choose_task_definition(backend, f"{cluster.name}-{name}", params, configuration, log_group)
    network = managed_resources.create_network(backend, name, params.get("networkConfiguration") or {})
    port = _get_port(definition)
    traffic = managed_resources.create_traffic(
        backend, name, network, port=port, path=configuration["healthCheckPath"]
    )
    service = services.create_service(
        backend, _build_service(cluster.name, name, params, definition, network, traffic)
    )
    service.resource_management_type = ECS
    service.desired_count = configuration["scalingTarget"]["minTaskCount"]
    managed_resources.set_scaling(backend, service, configuration["scalingTarget"])
    role = params["infrastructureRoleArn"]
    made = ExpressService(service, role, network, traffic, log_group, configuration, {}, CLOCK.now())
    backend.express_services[service.service_arn] = made
    _record_configuration(made, definition)
    return made


def _check_task_fields(params: Mapping[str, Any]) -> None:
    given = [field for field in _TASK_FIELDS if params.get(field)]
    if params.get("taskDefinitionArn") and given:
        raise InvalidEcsParameter(f"You can't specify {given[0]} together with taskDefinitionArn.")


def _get_cluster(backend: "SandboxEcs", params: Mapping[str, Any]) -> Any:
    """Return the cluster of the request; the default one is created if it is missing."""
    if not params.get("cluster") and DEFAULT_CLUSTER not in backend.clusters:
        backend.create_cluster(DEFAULT_CLUSTER, capacity_providers=["FARGATE"])
    return services.get_cluster(backend, params)


def _merge_configuration(before: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with the fields of a request.

    AWS does not say whether an update replaces the primary container; here it changes the given fields.
    """
    merged = copy.deepcopy(dict(before))
    for field in _CONFIGURED_FIELDS:
        value = params.get(field)
        if isinstance(value, Mapping):
            merged[field] = {**merged.get(field, {}), **copy.deepcopy(dict(value))}
        elif value:
            merged[field] = value
    if not str(merged["healthCheckPath"]).startswith("/"):
        raise InvalidEcsParameter("The health check path must start with a forward slash.")
    return merged


def _choose_task_definition(
    backend: "SandboxEcs",
    family: str,
    params: Mapping[str, Any],
    configuration: Mapping[str, Any],
    log_group: str,
) -> SandboxTaskDefinition:
    """Return the task definition of the customer, or a new revision for the primary container."""
    if params.get("taskDefinitionArn"):
        definition = backend.definitions.get_usable(params["taskDefinitionArn"])
        if CONTAINER not in [container["name"] for container in definition.containers]:
            raise EcsClientException(f"The task definition must have a container named {CONTAINER}.")
        return definition
    if not configuration.get("primaryContainer") or not configuration.get("executionRoleArn"):
        raise InvalidEcsParameter("Specify primaryContainer and executionRoleArn, or taskDefinitionArn.")
    return backend.definitions.register(_build_task_definition(backend, family, configuration, log_group))


def _build_task_definition(
    backend: "SandboxEcs", family: str, configuration: Mapping[str, Any], log_group: str
) -> dict[str, Any]:
    given = configuration["primaryContainer"]
    port = given.get("containerPort") or DEFAULT_PORT
    logs = given.get("awsLogsConfiguration") or {"logGroup": log_group, "logStreamPrefix": "ecs"}
    options = {
        "awslogs-group": logs["logGroup"],
        "awslogs-stream-prefix": logs["logStreamPrefix"],
        "awslogs-region": backend.region_name,
        "mode": "non-blocking",
        "max-buffer-size": "25m",
    }
    copied = ("image", "command", "environment", "secrets", "repositoryCredentials")
    container = {
        **{field: given[field] for field in copied if given.get(field)},
        "name": CONTAINER,
        "essential": True,
        "portMappings": [{"containerPort": port, "protocol": "tcp", "name": f"main-{port}-tcp"}],
        "logConfiguration": {"logDriver": "awslogs", "options": options},
    }
    architecture = configuration.get("cpuArchitecture") or "X86_64"
    return {
        "family": family,
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": configuration["cpu"],
        "memory": configuration["memory"],
        "executionRoleArn": configuration["executionRoleArn"],
        "taskRoleArn": configuration.get("taskRoleArn"),
        "runtimePlatform": {"cpuArchitecture": architecture, "operatingSystemFamily": "LINUX"},
        "containerDefinitions": [container],
    }


def _get_port(definition: SandboxTaskDefinition) -> int:
    (container,) = (entry for entry in definition.containers if entry["name"] == CONTAINER)
    return int(container["portMappings"][0]["containerPort"])


def _build_service(
    cluster: str,
    name: str,
    params: Mapping[str, Any],
    definition: SandboxTaskDefinition,
    network: ExpressNetwork,
    traffic: ExpressTraffic,
) -> dict[str, Any]:
    advanced = {
        "alternateTargetGroupArn": traffic.target_group_arns[1],
        "productionListenerRule": traffic.rule_arn,
        "roleArn": params["infrastructureRoleArn"],
    }
    return {
        "cluster": cluster,
        "serviceName": name,
        "taskDefinition": definition.arn,
        "desiredCount": DEFAULT_SCALING["minTaskCount"],
        "capacityProviderStrategy": [{"capacityProvider": "FARGATE", "base": 1, "weight": 1}],
        "networkConfiguration": _build_vpc_configuration(network),
        "loadBalancers": [
            {
                "targetGroupArn": traffic.target_group_arns[0],
                "containerName": CONTAINER,
                "containerPort": _get_port(definition),
                "advancedConfiguration": advanced,
            }
        ],
        "deploymentConfiguration": copy.deepcopy(dict(CANARY)),
        "healthCheckGracePeriodSeconds": 300,
        "enableECSManagedTags": True,
        "propagateTags": "SERVICE",
        "tags": params.get("tags") or [],
    }


def _build_vpc_configuration(network: ExpressNetwork) -> dict[str, Any]:
    return {"awsvpcConfiguration": {**network.to_wire(), "assignPublicIp": "ENABLED"}}


def _record_configuration(express: ExpressService, definition: SandboxTaskDefinition) -> dict[str, Any]:
    """Record the configuration of the newest deployment, and mark its resources as those of ECS."""
    service, configuration = express.service, express.configuration
    deployment = service.deployments[0]
    revision = service.revisions[deployment.id]
    revision.ecs_managed_resources = managed_resources.describe_resources(
        express.traffic, express.network, configuration, _get_port(definition)
    )
    path = {"accessType": "PUBLIC", "endpoint": express.traffic.endpoint}
    described = {
        **copy.deepcopy(configuration),
        "serviceRevisionArn": revision.service_revision_arn,
        "taskDefinitionArn": definition.arn,
        "networkConfiguration": express.network.to_wire(),
        "ingressPaths": [path],
        "createdAt": revision.created_at,
    }
    express.configurations[deployment.id] = described
    return described


def find_service(backend: "SandboxEcs", arn: str) -> ExpressService:
    """Return an Express service. Raises ServiceNotFoundException."""
    express = backend.express_services.get(arn)
    if express is None or backend.services.get(_get_key(express)) is not express.service:
        raise ServiceNotFoundException
    return express


def _get_key(express: ExpressService) -> str:
    return f"{express.service.cluster_name}:{express.service.service_name}"


def update_service(backend: "SandboxEcs", params: Mapping[str, Any]) -> tuple[ExpressService, dict[str, Any]]:
    """Deploy a changed configuration, and return it with the service."""
    _check_task_fields(params)
    express = find_service(backend, params["serviceArn"])
    service = express.service
    if service.status != "ACTIVE":
        raise ServiceNotActive
    configuration = _merge_configuration(express.configuration, params)
    family = f"{service.cluster_name}-{service.service_name}"
    definition = backend.definitions.get(str(service.task_definition))
    if params.get("taskDefinitionArn") or any(params.get(field) for field in _TASK_FIELDS):
        definition = _choose_task_definition(backend, family, params, configuration, express.log_group)
    if network := params.get("networkConfiguration"):
        changed = {**express.network.to_wire(), **network}
        express.network = managed_resources.create_network(backend, service.service_name, changed)
    place = {"cluster": service.cluster_name, "service": service.service_name}
    vpc = _build_vpc_configuration(express.network)
    services.update_service(backend, {**place, "taskDefinition": definition.arn, "networkConfiguration": vpc})
    managed_resources.set_scaling(backend, service, configuration["scalingTarget"])
    express.configuration, express.updated_at = configuration, CLOCK.now()
    return express, _record_configuration(express, definition)


def delete_service(backend: "SandboxEcs", arn: str) -> ExpressService:
    """Start to drain an Express service; its resources are deleted with its last task."""
    express = find_service(backend, arn)
    if express.service.status != "ACTIVE":
        raise ServiceNotActive
    place = {"cluster": express.service.cluster_name, "service": express.service.service_name}
    services.delete_service(backend, {**place, "force": True})
    express.updated_at = CLOCK.now()
    return express


def describe_service(express: ExpressService, *, with_tags: bool = False) -> dict[str, Any]:
    """Return the service in the format of DescribeExpressGatewayService."""
    service = express.service
    active = [d.id for d in service.deployments if d.id in express.configurations]
    return {
        "cluster": service.cluster_arn,
        "serviceName": service.service_name,
        "serviceArn": service.service_arn,
        "infrastructureRoleArn": express.infrastructure_role_arn,
        "status": {"statusCode": service.status},
        "currentDeployment": service.current_service_deployment,
        "activeConfigurations": [express.configurations[number] for number in active],
        "tags": service.tags if with_tags else None,
        "createdAt": service.created_at,
        "updatedAt": express.updated_at,
    }
