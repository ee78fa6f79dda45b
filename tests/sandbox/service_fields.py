"""Tables of CreateService for generated service definitions."""

from collections.abc import Mapping
from typing import Any, Final

from tests.sandbox.field_examples import FieldTables

_ROLE: Final = "arn:aws:iam::123456789012:role/ecsInfrastructure"
_KEY: Final = "arn:aws:kms:us-east-1:123456789012:key/0f7c1c9e-6d0b-4b0e-9a39-3f1d2b7c5a11"
_TARGET: Final = {"targetGroupArn": "@target1", "containerName": "web", "containerPort": 80}
_NETWORK: Final = {"networkConfiguration": {"awsvpcConfiguration": {"subnets": "@subnets"}}}
_BASE: Final = {"serviceName": "shop", "desiredCount": 0}
_ON_FARGATE: Final = {**_BASE, "launchType": "FARGATE", **_NETWORK}
_ON_EC2: Final = {**_BASE, "launchType": "EC2"}
_CONNECTED: Final = {**_ON_FARGATE, "serviceConnectConfiguration": {"enabled": True, "namespace": "internal"}}


def _build_connected(strategy: str) -> dict[str, Any]:
    return {**_CONNECTED, "deploymentConfiguration": {"strategy": strategy}}


# Members that no manifest sets or that the sandbox does not have, each with its reason.
NOT_APPLICABLE: Final[Mapping[str, str]] = {
    "cluster": "the infrastructure definition names the cluster",
    "taskDefinition": "the task definition is a manifest of its own",
    "clientToken": "each request has its own token",
    "loadBalancers.loadBalancerName": "the sandbox has no Classic Load Balancers",
}
# The fields beside a member, by the start of its path. The longest start counts.
_BASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "": _ON_FARGATE,
    "launchType": {**_BASE, **_NETWORK},
    "networkConfiguration": {**_BASE, "launchType": "FARGATE"},
    "capacityProviderStrategy": {**_BASE, **_NETWORK},
    "placementConstraints": _ON_EC2,
    "placementStrategy": _ON_EC2,
    "healthCheckGracePeriodSeconds": {**_ON_FARGATE, "loadBalancers": [_TARGET]},
    "loadBalancers.advancedConfiguration": {
        **_ON_FARGATE,
        "deploymentConfiguration": {"strategy": "BLUE_GREEN"},
    },
    "deploymentConfiguration": _CONNECTED,
    "deploymentConfiguration.lifecycleHooks": _build_connected("BLUE_GREEN"),
    "deploymentConfiguration.linearConfiguration": _build_connected("LINEAR"),
    "deploymentConfiguration.canaryConfiguration": _build_connected("CANARY"),
}
# What AWS requires in a structure beside its required members, by the path of the structure.
_COMPANIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "loadBalancers": _TARGET,
    "serviceRegistries": {
        "registryArn": "arn:aws:servicediscovery:us-east-1:123456789012:service/srv-utcrh6wavdkggqtk"
    },
    "deploymentConfiguration.lifecycleHooks": {
        "hookTargetArn": "arn:aws:lambda:us-east-1:123456789012:function:check",
        "roleArn": _ROLE,
        "lifecycleStages": ["POST_TEST_TRAFFIC_SHIFT"],
    },
}
# Values that need a meaning, by the end of the path. `@name` is a resource of the account.
_VALUES: Final[Mapping[str, Any]] = {
    "serviceName": "shop",
    "desiredCount": 0,
    "launchType": "FARGATE",
    "schedulingStrategy": "REPLICA",
    "platformVersion": "1.4.0",
    "role": _ROLE,
    "roleArn": _ROLE,
    "kmsKey": _KEY,
    "kmsKeyId": _KEY,
    "propagateTags": "SERVICE",
    "deploymentController.type": "ECS",
    "deploymentConfiguration.maximumPercent": 150,
    "deploymentConfiguration.minimumHealthyPercent": 50,
    "deploymentConfiguration.strategy": "BLUE_GREEN",
    "bakeTimeInMinutes": 5,
    "stepPercent": 20.0,
    "canaryPercent": 12.5,
    "lifecycleHooks.targetType": "AWS_LAMBDA",
    "thresholdConfiguration.value": 60,
    "resetOnHealthyTask": False,
    "alternateTargetGroupArn": "@target2",
    "productionListenerRule": "@production rule",
    "testListenerRule": "@test rule",
    "vpcLatticeConfigurations.targetGroupArn": (
        "arn:aws:vpc-lattice:us-east-1:123456789012:targetgroup/tg-0123456789abcdef0"
    ),
    "awsPcaAuthorityArn": "arn:aws:acm-pca:us-east-1:123456789012:certificate-authority/0f7c1c9e",
    "containerName": "web",
    "containerPort": 80,
    "portName": "http",
    "capacityProvider": "FARGATE_SPOT",
    "placementConstraints.type": "memberOf",
    "placementConstraints.expression": "attribute:ecs.instance-type == m5.xlarge",
    "placementStrategy.type": "spread",
    "placementStrategy.field": "attribute:ecs.availability-zone",
    "subnets": "@subnets",
    "securityGroups": "@security groups",
    "assignPublicIp": "ENABLED",
    "volumeConfigurations.name": "data",
}
SERVICE_FIELDS: Final = FieldTables("CreateService", NOT_APPLICABLE, _BASES, _COMPANIONS, _VALUES)
