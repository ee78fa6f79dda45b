"""Field rules of ECS documents: AWS defaults, keys of list entries, fields that are not compared.

Names are those of AWS's API; a field is looked up under the nearest field that holds it.
"""

from collections.abc import Mapping
from typing import Any, Final

TASK_DEFINITION: Final = "EcsTaskDefinition"
SERVICE_DEFINITION: Final = "EcsServiceDefinition"
SCALABLE_TARGET: Final = "EcsScalableTargetDefinition"
SCALING_POLICY: Final = "EcsScalingPolicyDefinition"
DOCUMENT_KINDS: Final = (TASK_DEFINITION, SERVICE_DEFINITION, SCALABLE_TARGET, SCALING_POLICY)

# What AWS fills in where nothing was said. False and what is empty are nothing everywhere.
DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    TASK_DEFINITION: {"networkMode": "bridge"},
    "containerDefinitions": {"cpu": 0, "essential": True, "versionConsistency": "enabled"},
    "portMappings": {"protocol": "tcp", "hostPort": 0},
    "healthCheck": {"interval": 30, "timeout": 5, "retries": 3, "startPeriod": 0},
    "restartPolicy": {"restartAttemptPeriod": 300},
    "environmentFiles": {"type": "s3"},
    "dockerVolumeConfiguration": {"scope": "task", "driver": "local"},
    "efsVolumeConfiguration": {"rootDirectory": "/", "transitEncryption": "DISABLED"},
    "authorizationConfig": {"iam": "DISABLED"},
    "proxyConfiguration": {"type": "APPMESH"},
    "runtimePlatform": {"cpuArchitecture": "X86_64", "operatingSystemFamily": "LINUX"},
    SERVICE_DEFINITION: {
        "schedulingStrategy": "REPLICA",
        "propagateTags": "NONE",
        "healthCheckGracePeriodSeconds": 0,
        "platformVersion": "LATEST",
    },
    "deploymentController": {"type": "ECS"},
    "deploymentConfiguration": {
        "strategy": "ROLLING",
        "bakeTimeInMinutes": 0,
        "maximumPercent": 200,
        "minimumHealthyPercent": 100,
    },
    "awsvpcConfiguration": {"assignPublicIp": "DISABLED"},
    "capacityProviderStrategy": {"weight": 0, "base": 0},
    "Metrics": {"ReturnData": True},
    "MetricDataQueries": {"ReturnData": True},
}

# Lists whose entries have a name: their order says nothing.
ENTRY_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containerDefinitions": ("name",),
    "portMappings": ("containerPort", "containerPortRange", "protocol"),
    "mountPoints": ("containerPath",),
    "volumesFrom": ("sourceContainer",),
    "devices": ("hostPath", "containerPath"),
    "tmpfs": ("containerPath",),
    "ulimits": ("name",),
    "volumes": ("name",),
    "inferenceAccelerators": ("deviceName",),
    "loadBalancers": ("containerName", "containerPort"),
    "serviceRegistries": ("registryArn",),
    "capacityProviderStrategy": ("capacityProvider",),
    "lifecycleHooks": ("hookTargetArn",),
    "services": ("portName",),
    "clientAliases": ("port",),
    "volumeConfigurations": ("name",),
    "vpcLatticeConfigurations": ("portName", "targetGroupArn"),
    "gatewayConnectors": ("portName",),
    "Metrics": ("Id",),
    "MetricDataQueries": ("Id",),
}
# Of these an entry is a name and its value.
PAIR_LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "environment": ("name", "value"),
    "secrets": ("name", "valueFrom"),
    "secretOptions": ("name", "valueFrom"),
    "extraHosts": ("hostname", "ipAddress"),
    "systemControls": ("namespace", "value"),
    "dependsOn": ("containerName", "condition"),
    "properties": ("name", "value"),
    "tags": ("key", "value"),
    "Dimensions": ("Name", "Value"),
}
# Lists of plain values or of small things in no order.
UNORDERED_LISTS: Final = frozenset(
    {
        "requiresCompatibilities", "subnets", "securityGroups", "alarmNames", "add", "drop", "permissions",
        "mountOptions", "ignoredExitCodes", "placementConstraints", "lifecycleStages", "links",
        "dockerSecurityOptions", "credentialSpecs", "accessTypes", "metricNames", "resourceRequirements",
    }
)  # fmt: skip

# What AWS chooses where a document says nothing: what it chose is seen once, and then expected.
AWS_DEFAULT_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    SERVICE_DEFINITION: frozenset(
        {"launchType", "capacityProviderStrategy", "availabilityZoneRebalancing", "role"}
    ),
    SCALABLE_TARGET: frozenset({"RoleARN", "SuspendedState"}),
}
# Said elsewhere, or told by nothing that AWS shows.
IGNORED_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    TASK_DEFINITION: frozenset({"tags"}),
    SERVICE_DEFINITION: frozenset(
        {
            "cluster",
            "serviceName",
            "taskDefinition",
            "desiredCount",
            "clientToken",
            "gatewayConnectors",
            "monitoring",
        }
    ),
    SCALABLE_TARGET: frozenset({"ServiceNamespace", "ResourceId", "ScalableDimension", "Tags"}),
    SCALING_POLICY: frozenset({"ServiceNamespace", "ResourceId", "ScalableDimension", "PolicyName"}),
}
_SYSTEM_TAG_PREFIXES: Final = ("aws:", "slipway:", "BG:")


def is_system_tag(key: str) -> bool:
    """Whether a tag was set by AWS or by a deployment, and by no manifest."""
    return key.startswith(_SYSTEM_TAG_PREFIXES)
