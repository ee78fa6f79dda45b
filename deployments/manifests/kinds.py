"""The kinds of manifest and the AWS call that each is written for (R159, R164)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aws.shapes import parameters_of

TASK_DEFINITION = "EcsTaskDefinition"
SERVICE_DEFINITION = "EcsServiceDefinition"
SCALABLE_TARGET = "EcsScalableTargetDefinition"
SCALING_POLICY = "EcsScalingPolicyDefinition"
# Not a manifest of a service: a step that runs tasks brings its own.
RUN_TASK_REQUEST = "EcsRunTaskRequestDefinition"


@dataclass(frozen=True)
class Kind:
    """What a manifest becomes: the operation it is sent with, and what Slipway adds or leaves out itself."""

    service: str
    operation: str
    # Filled in before a check, because only a deployment knows them.
    filled_in: Mapping[str, Any] = field(default_factory=dict)
    # Keys that a deployment decides, with what it takes instead.
    ignored: Mapping[str, str] = field(default_factory=dict)
    # Keys of AWS's answers that get copied along; an answer is no request.
    answered: frozenset[str] = frozenset()


_SCALING = {
    "ServiceNamespace": "ecs",
    "ScalableDimension": "ecs:service:DesiredCount",
    "ResourceId": "service/cluster/service",
}
_RESOURCE = {"ResourceId": "the cluster and ECS service of the deployment"}

KINDS: dict[str, Kind] = {
    TASK_DEFINITION: Kind(
        "ecs",
        "RegisterTaskDefinition",
        answered=frozenset(
            {
                "taskDefinitionArn",
                "revision",
                "status",
                "requiresAttributes",
                "compatibilities",
                "registeredAt",
                "registeredBy",
                "deregisteredAt",
            }
        ),
    ),
    SERVICE_DEFINITION: Kind(
        "ecs",
        "CreateService",
        ignored={
            "taskDefinition": "the service's task definition manifest",
            "cluster": "the cluster of the infrastructure definition",
            "clientToken": "a token of its own for every deployment",
            **dict.fromkeys(
                parameters_of("ecs", "RegisterTaskDefinition") - parameters_of("ecs", "CreateService"),
                "the service's task definition manifest",
            ),
        },
        answered=frozenset(
            {
                "serviceArn",
                "clusterArn",
                "status",
                "runningCount",
                "pendingCount",
                "deployments",
                "events",
                "createdAt",
                "createdBy",
                "roleArn",
                "taskSets",
                "platformFamily",
            }
        ),
    ),
    RUN_TASK_REQUEST: Kind(
        "ecs",
        "RunTask",
        filled_in={"taskDefinition": "family"},
        ignored={
            "taskDefinition": "the task definition of the step",
            "cluster": "the cluster of the infrastructure definition",
            "clientToken": "a token of its own for every run",
            "startedBy": "the id of the execution",
            **dict.fromkeys(
                parameters_of("ecs", "RegisterTaskDefinition") - parameters_of("ecs", "RunTask"),
                "the task definition of the step",
            ),
        },
        answered=frozenset({"tasks", "failures"}),
    ),
    SCALABLE_TARGET: Kind(
        "application-autoscaling",
        "RegisterScalableTarget",
        filled_in=_SCALING,
        ignored=_RESOURCE,
        answered=frozenset({"CreationTime", "ScalableTargetARN", "PredictedCapacity"}),
    ),
    SCALING_POLICY: Kind(
        "application-autoscaling",
        "PutScalingPolicy",
        filled_in=_SCALING,
        ignored=_RESOURCE,
        answered=frozenset({"PolicyARN", "Alarms", "CreationTime"}),
    ),
}
