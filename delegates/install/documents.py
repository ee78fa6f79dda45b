"""Task definition, service definition, container environment and IAM documents."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from aws import policies
from delegates.install.plan import AGENT_PORT, STREAM_PREFIX, SpecPlan
from delegates.install.specs import CaBundle, SpecProxy

# Addresses of metadata and credentials; no proxy serves them.
ADDRESSES_OF_ECS = ("169.254.169.254", "169.254.170.2")
Variable = tuple[str, str]
_LEGACY_ORDER = {
    "EC2": (
        "ACCOUNT_ID",
        "DELEGATE_TOKEN",
        "DELEGATE_TYPE",
        "INIT_SCRIPT",
        "DEPLOY_MODE",
        "MANAGER_HOST_AND_PORT",
        "DELEGATE_NAME",
        "LOG_STREAMING_SERVICE_URL",
        "DELEGATE_TAGS",
        "NEXT_GEN",
    ),
    "FARGATE": (
        "ACCOUNT_ID",
        "DELEGATE_TOKEN",
        "DELEGATE_TYPE",
        "LOG_STREAMING_SERVICE_URL",
        "DELEGATE_TAGS",
        "INIT_SCRIPT",
        "DEPLOY_MODE",
        "MANAGER_HOST_AND_PORT",
        "DELEGATE_NAME",
        "NEXT_GEN",
    ),
}


def get_token_variable(plan: SpecPlan) -> str:
    """Return the name of the token's variable."""
    return "DELEGATE_TOKEN" if plan.request.flavour == "legacy" else "HARNESS_TOKEN"


def list_environment_variables(plan: SpecPlan) -> list[Variable]:
    """Return every variable in order; a token from a secret is left out."""
    listed = _list_legacy_variables(plan) if plan.request.flavour == "legacy" else _list_v3_variables(plan)
    if plan.request.proxy:
        listed += _list_proxy_variables(plan.request.proxy, is_on_ecs=plan.request.kind == "ECS")
    secrets = {name for name, _ in plan.secrets}
    listed = [variable for variable in listed if variable[0] not in secrets]
    if not plan.request.has_plain_token:
        listed = [variable for variable in listed if variable[0] != get_token_variable(plan)]
    if plan.request.ca:
        listed.append(("SLIPWAY_CA_BUNDLE", plan.request.ca.path))
    if plan.request.stop_seconds:
        listed.append(("SLIPWAY_DELEGATE_STOP_SECONDS", str(plan.request.stop_seconds)))
    return listed


def build_log_address(manager_url: str) -> str:
    """Return the log address in the format of the legacy variable (R100)."""
    return f"{manager_url.rstrip('/')}/log-service/"


def _list_legacy_variables(plan: SpecPlan) -> list[Variable]:
    request = plan.request
    values = {
        "ACCOUNT_ID": request.account_id,
        "DELEGATE_TOKEN": plan.token,
        "DELEGATE_TYPE": "DOCKER",
        "INIT_SCRIPT": "",
        "DEPLOY_MODE": "KUBERNETES",
        "MANAGER_HOST_AND_PORT": request.manager_url,
        "DELEGATE_NAME": plan.name,
        "LOG_STREAMING_SERVICE_URL": build_log_address(request.manager_url),
        "DELEGATE_TAGS": ",".join(request.tags),
        "NEXT_GEN": "true",
    }
    return [(name, values[name]) for name in _LEGACY_ORDER[request.launch_type]]


def _list_v3_variables(plan: SpecPlan) -> list[Variable]:
    request = plan.request
    listed = [
        ("HARNESS_ACCOUNT_ID", request.account_id),
        ("HARNESS_TOKEN", plan.token),
        ("HARNESS_URL", request.manager_url),
        ("HARNESS_NAME", plan.name),
    ]
    return [*listed, ("HARNESS_TAGS", ",".join(request.tags))] if request.tags else listed


def _list_proxy_variables(proxy: SpecProxy, *, is_on_ecs: bool) -> list[Variable]:
    listed = [("PROXY_HOST", proxy.host), ("PROXY_PORT", str(proxy.port)), ("PROXY_SCHEME", proxy.scheme)]
    if proxy.user:
        listed += [("PROXY_USER", proxy.user), ("PROXY_PASSWORD", proxy.password)]
    direct = [*proxy.no_proxy, *(ADDRESSES_OF_ECS if is_on_ecs else ())]
    return [*listed, ("NO_PROXY", ",".join(dict.fromkeys(direct)))] if direct else listed


CA_VOLUME = "ca-bundle"
Document = dict[str, Any]


def build_task_definition(plan: SpecPlan) -> Document:
    """Return the request of RegisterTaskDefinition (R094–R097, R104–R105, R108–R110, R124)."""
    container = (
        _build_legacy_container(plan) if plan.request.flavour == "legacy" else _build_v3_container(plan)
    )
    definition: Document = {"family": plan.family}
    if plan.request.is_awsvpc:
        definition["networkMode"] = "awsvpc"
    elif plan.uses_host_network:
        definition["networkMode"] = "host"
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
    if ca := _build_ca_mount(plan):
        definition["volumes"] = [{"name": CA_VOLUME, "host": {"sourcePath": ca.host_path}}]
    return definition


def build_service_definition(plan: SpecPlan) -> Document:
    """Return the request of CreateService, for a file or for CLI flags (R106, R115, R127)."""
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
    if request.checks_start:
        service["deploymentConfiguration"] = build_deployment_configuration(request.desired_count)
    if not request.is_awsvpc:
        return service
    if is_legacy:
        service["loadBalancers"] = []
    service["networkConfiguration"] = {"awsvpcConfiguration": _build_vpc(plan)}
    if request.is_fargate:
        service["platformVersion"] = "LATEST"
    service["schedulingStrategy"] = "REPLICA"
    if is_legacy:
        service["enableECSManagedTags"] = True
    return service


def build_deployment_configuration(count: int) -> dict[str, int]:
    """Return the limits of a rolling deployment: no instance stops before its successor has connected."""
    return {"minimumHealthyPercent": 100, "maximumPercent": 100 + ceil(100 / count)}


def _build_start_check() -> Document:
    """Return the health check of a container: healthy once the agent has connected."""
    url = f"http://127.0.0.1:{AGENT_PORT}/api/started"
    script = f"import urllib.request as r; r.urlopen('{url}', timeout=4)"
    return {
        "command": ["CMD", "python", "-c", script],
        "interval": 10,
        "timeout": 5,
        "retries": 10,
        "startPeriod": 300,
    }


def _build_vpc(plan: SpecPlan) -> Document:
    vpc: Document = {"subnets": plan.subnets, "securityGroups": plan.security_groups}
    if plan.request.is_fargate:
        vpc["assignPublicIp"] = "ENABLED" if plan.request.network.assign_public_ip else "DISABLED"
    return vpc


def _build_legacy_container(plan: SpecPlan) -> Document:
    container: Document = {
        "name": plan.container,
        "image": plan.image,
        "essential": True,
        "cpu": plan.container_cpu,
        "memory": plan.container_memory,
        "portMappings": _build_port_mappings(),
    }
    return container | _build_common_container(plan)


def _build_v3_container(plan: SpecPlan) -> Document:
    container: Document = {"name": plan.container, "image": plan.image}
    if plan.container_cpu:
        container["cpu"] = plan.container_cpu
    if plan.container_memory:
        container["memory"] = plan.container_memory
    container["essential"] = True
    if plan.takes_host_port:
        container["portMappings"] = _build_port_mappings()
    return container | _build_common_container(plan)


def _build_port_mappings() -> list[Document]:
    return [{"hostPort": AGENT_PORT, "containerPort": AGENT_PORT, "protocol": "tcp"}]


def _build_common_container(plan: SpecPlan) -> Document:
    both: Document = {}
    if plan.hostname:
        both["hostname"] = plan.hostname
    both["environment"] = [{"name": name, "value": value} for name, value in list_environment_variables(plan)]
    if plan.secrets:
        both["secrets"] = [{"name": name, "valueFrom": arn} for name, arn in plan.secrets]
    if plan.log_group:
        options = {
            "awslogs-group": plan.log_group,
            "awslogs-region": plan.region,
            "awslogs-stream-prefix": STREAM_PREFIX,
        }
        both["logConfiguration"] = {"logDriver": "awslogs", "options": options}
    if plan.request.stop_seconds:
        both["stopTimeout"] = plan.request.stop_seconds
    if plan.request.checks_start:
        both["healthCheck"] = _build_start_check()
    if ca := _build_ca_mount(plan):
        mount = {"sourceVolume": CA_VOLUME, "containerPath": ca.path, "readOnly": True}
        both["mountPoints"] = [mount]
    return both


def _build_ca_mount(plan: SpecPlan) -> CaBundle | None:
    """Return the certificates that the host has as a file; Fargate has no host to speak of (R136)."""
    ca = plan.request.ca
    return ca if ca and ca.host_path and not plan.request.is_fargate else None


def _build_sid(policy: policies.IamPolicy) -> str:
    return policy.identifier.title().replace("-", "")


PolicyDocument = dict[str, Any]
TRUST_FILE: Final = "trust-policy.json"
SECRET_FILE: Final = "secret-policy.json"  # noqa: S105
POLICY_FILE: Final = "harness-ecs-policy.json"
USES_FILE: Final = "task-role-policy.json"
USES_NAME: Final = "SlipwayDelegate"
EXTENDED_FILE: Final = "harness-ecs-extended-policy.json"
POLICY_NAME: Final = "HarnessECS"
EXTENDED_NAME: Final = "HarnessECSExtended"
SECRET_POLICY_NAME: Final = "HarnessDelegateToken"  # noqa: S105
_VERSION: Final = "2012-10-17"
EXECUTION_POLICY: Final = "service-role/AmazonECSTaskExecutionRolePolicy"
# The documented policy, action for action (R145).
ACTIONS: Final = policies.BASE_POLICY.actions
# Further statements for blue/green, run task, tags, auto scaling, alarms and logs (T12): statement id to
# actions.
EXTENSIONS: Final = {_build_sid(policy): policy.actions for policy in policies.EXTENSION_POLICIES}


def build_trust_policy() -> PolicyDocument:
    """Return the trust policy of ECS tasks (R120)."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "ecs-tasks.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    return {"Version": _VERSION, "Statement": [statement]}


def build_secret_policy(plan: SpecPlan) -> PolicyDocument:
    """Return the policy for reading the secrets of the task by the execution role (R123)."""
    statement = {
        "Effect": "Allow",
        "Action": "secretsmanager:GetSecretValue",
        "Resource": [part for _, arn in plan.secrets for part in list_secret_resources(arn)],
    }
    return {"Version": _VERSION, "Statement": [statement]}


def build_deploy_policy() -> PolicyDocument:
    """Return the IAM policy of deployments: the documented eighteen actions (R145)."""
    return policies.BASE_POLICY.document


def build_extended_policy() -> PolicyDocument:
    """Return the extra statements of some steps; unused statements can be left out (T12)."""
    return _build_policy(EXTENSIONS)


def build_uses_policy(plan: SpecPlan) -> PolicyDocument:
    """Return the policy of a task role: a statement for each use of the delegate."""
    chosen = [policy for policy in policies.POLICIES if policy.identifier in plan.request.uses]
    return _build_policy({_build_sid(policy): policy.actions for policy in chosen})


def _build_policy(statements: Mapping[str, Sequence[str]]) -> PolicyDocument:
    listed = [
        {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": "*"}
        for sid, actions in statements.items()
    ]
    return {"Version": _VERSION, "Statement": listed}


def list_secret_resources(arn: str) -> list[str]:
    """Return the ARN pattern of a secret; AWS appends a hyphen and six characters to its name."""
    whole = ":".join(arn.split(":")[:7])
    return [whole, f"{whole}-??????"]
