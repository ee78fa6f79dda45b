"""Field rules of ECS documents: AWS defaults, list keys, ignored fields.

Names are those of AWS's API; a field's rule is that of the nearest field around it.
"""

from collections.abc import Mapping
from typing import Any, Final

TASK_DEFINITION: Final = "EcsTaskDefinition"
SERVICE_DEFINITION: Final = "EcsServiceDefinition"
SCALABLE_TARGET: Final = "EcsScalableTargetDefinition"
SCALING_POLICY: Final = "EcsScalingPolicyDefinition"

# Values that AWS fills in for absent fields. False and empty values count as absent.
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

# The defaults of deploymentConfiguration for the scheduling strategy DAEMON.
DAEMON_PERCENTAGES: Final[Mapping[str, int]] = {"minimumHealthyPercent": 0, "maximumPercent": 100}

# Lists with named entries; their order does not matter.
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
# Lists of name and value pairs.
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
# Lists whose order does not matter.
UNORDERED_LISTS: Final = frozenset(
    {
        "requiresCompatibilities", "subnets", "securityGroups", "alarmNames", "add", "drop", "permissions",
        "mountOptions", "ignoredExitCodes", "placementConstraints", "lifecycleStages", "links",
        "dockerSecurityOptions", "credentialSpecs", "accessTypes", "metricNames", "resourceRequirements",
    }
)  # fmt: skip

# Fields that AWS chooses when absent; the first value becomes the expected one.
AWS_DEFAULT_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    SERVICE_DEFINITION: frozenset(
        {"launchType", "capacityProviderStrategy", "availabilityZoneRebalancing", "role"}
    ),
    SCALABLE_TARGET: frozenset({"RoleARN", "SuspendedState"}),
}
# Fields that are set elsewhere or that AWS does not return.
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
    """Return whether AWS or a deployment set a tag, rather than a manifest."""
    return key.startswith(_SYSTEM_TAG_PREFIXES)
