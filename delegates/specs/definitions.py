"""The task definition and the service definition of a delegate, with the documents' keys in their order."""

from typing import Any

from delegates.specs.documented import AGENT_PORT, STREAM_PREFIX
from delegates.specs.environment import token_variable, variables
from delegates.specs.plan import Plan
from delegates.specs.request import CaBundle

CA_VOLUME = "ca-bundle"

Document = dict[str, Any]


def task_definition(plan: Plan) -> Document:
    """What RegisterTaskDefinition is given (R094–R097, R104–R105, R108–R110, R124)."""
    container = _legacy_container(plan) if plan.request.flavour == "legacy" else _v3_container(plan)
    definition: Document = {"family": plan.family}
    if plan.request.is_awsvpc:
        definition["networkMode"] = "awsvpc"
    elif plan.request.flavour == "v3":
        definition["networkMode"] = "bridge"
    definition |= {
        "requiresCompatibilities": [plan.request.launch_type],
        "cpu": str(plan.task_cpu),
        "memory": str(plan.task_memory),
    }
    if plan.needs_execution_role:
        definition["executionRoleArn"] = plan.execution_role_arn
    if plan.request.task_role:
        definition["taskRoleArn"] = plan.task_role_arn
    definition["containerDefinitions"] = [container]
    if ca := _mounted_ca(plan):
        definition["volumes"] = [{"name": CA_VOLUME, "host": {"sourcePath": ca.host_path}}]
    return definition


def service_definition(plan: Plan) -> Document:
    """What CreateService is given, whether it becomes a file or the flags of a command (R106, R115, R127)."""
    request = plan.request
    is_legacy = request.flavour == "legacy"
    service: Document = {
        "cluster": plan.cluster,
        "serviceName": plan.service,
        "taskDefinition": plan.family,
    }
    # A legacy service on EC2 leaves it to the cluster (T01).
    if request.is_awsvpc or not is_legacy:
        service["launchType"] = request.launch_type
    service["desiredCount"] = request.desired_count
    if not request.is_awsvpc:
        return service
    if is_legacy:
        service["loadBalancers"] = []
    service["networkConfiguration"] = {"awsvpcConfiguration": _vpc(plan)}
    if request.is_fargate:
        service["platformVersion"] = "LATEST"
    service["schedulingStrategy"] = "REPLICA"
    if is_legacy:
        service["enableECSManagedTags"] = True
    return service


def _vpc(plan: Plan) -> Document:
    vpc: Document = {"subnets": plan.subnets, "securityGroups": plan.security_groups}
    if plan.request.is_fargate:
        vpc["assignPublicIp"] = "ENABLED" if plan.request.network.assign_public_ip else "DISABLED"
    return vpc


def _legacy_container(plan: Plan) -> Document:
    container: Document = {
        "name": plan.container,
        "image": plan.request.image,
        "essential": True,
        "cpu": plan.container_cpu,
        "memory": plan.container_memory,
        "portMappings": [{"hostPort": AGENT_PORT, "containerPort": AGENT_PORT, "protocol": "tcp"}],
    }
    return container | _what_both_have(plan)


def _v3_container(plan: Plan) -> Document:
    container: Document = {"name": plan.container, "image": plan.request.image}
    if plan.container_cpu:
        container["cpu"] = plan.container_cpu
    if plan.container_memory:
        container["memory"] = plan.container_memory
    return container | {"essential": True} | _what_both_have(plan)


def _what_both_have(plan: Plan) -> Document:
    both: Document = {}
    if plan.hostname:
        both["hostname"] = plan.hostname
    both["environment"] = [{"name": name, "value": value} for name, value in variables(plan)]
    if plan.request.uses_secret:
        both["secrets"] = [{"name": token_variable(plan), "valueFrom": plan.secret_arn}]
    if plan.log_group:
        options = {
            "awslogs-group": plan.log_group,
            "awslogs-region": plan.region,
            "awslogs-stream-prefix": STREAM_PREFIX,
        }
        both["logConfiguration"] = {"logDriver": "awslogs", "options": options}
    if ca := _mounted_ca(plan):
        mount = {"sourceVolume": CA_VOLUME, "containerPath": ca.path, "readOnly": True}
        both["mountPoints"] = [mount]
    return both


def _mounted_ca(plan: Plan) -> CaBundle | None:
    """The certificates that the host has as a file; Fargate has no host to speak of (R136)."""
    ca = plan.request.ca
    return ca if ca and ca.host_path and not plan.request.is_fargate else None
