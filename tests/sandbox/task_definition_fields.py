"""Tables of RegisterTaskDefinition for generated task definitions."""

from typing import Any, Final

from tests.sandbox.field_examples import FieldTables

_ROLE: Final = "arn:aws:iam::123456789012:role/shop"
_SECRET: Final = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop-AbCdEf"
_WEB: Final = {"name": "web", "image": "shop:1", "memory": 128}
_BASE: Final[dict[str, Any]] = {
    "family": "shop",
    "taskRoleArn": _ROLE,
    "executionRoleArn": _ROLE,
    "containerDefinitions": [_WEB, {"name": "side", "image": "side:1", "memory": 64}],
}
_ON_FARGATE: Final[dict[str, Any]] = {
    **_BASE,
    "requiresCompatibilities": ["FARGATE"],
    "networkMode": "awsvpc",
    "cpu": "256",
    "memory": "512",
}

TASK_DEFINITION_FIELDS: Final = FieldTables(
    "RegisterTaskDefinition",
    not_applicable={
        "containerDefinitions.portMappings.containerPortRange": "AWS takes it instead of containerPort",
        "inferenceAccelerators.deviceName": "AWS ended Elastic Inference",
        "inferenceAccelerators.deviceType": "AWS ended Elastic Inference",
    },
    bases={
        "": _BASE,
        "ephemeralStorage": _ON_FARGATE,
        "containerDefinitions.mountPoints": {**_BASE, "volumes": [{"name": "data"}]},
    },
    companions={
        "containerDefinitions": _WEB,
        "volumes": {"name": "data"},
        "volumes.efsVolumeConfiguration": {"fileSystemId": "fs-0123abcd", "transitEncryption": "ENABLED"},
    },
    values={
        "family": "shop",
        "taskRoleArn": _ROLE,
        "executionRoleArn": _ROLE,
        "networkMode": "host",
        "requiresCompatibilities": ["EC2"],
        "containerDefinitions.cpu": 10,
        "cpu": "512",
        "memory": "1024",
        "memoryReservation": 64,
        "ephemeralStorage.sizeInGiB": 30,
        "containerPort": 8080,
        "hostPort": 8080,
        "links": ["side"],
        "sourceVolume": "data",
        "volumes.name": "data",
        "sourceContainer": "side",
        "dependsOn.containerName": "side",
        "dependsOn.condition": "START",
        "capabilities.add": ["NET_ADMIN"],
        "capabilities.drop": ["MKNOD"],
        "healthCheck.command": ["CMD", "true"],
        "nvidiaMps.memory": 1024,
        "rootDirectory": "/",
        "accessPointId": "fsap-0123abcd",
        "authorizationConfig.iam": "ENABLED",
        "valueFrom": _SECRET,
        "credentialsParameter": _SECRET,
        "environmentFiles.value": "arn:aws:s3:::shop/web.env",
    },
)
