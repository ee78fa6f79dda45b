"""The kinds of manifest and the AWS call that each is written for (R159, R164)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aws.shapes import answer_shape, parameters_of

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
    # The operation, and the part of its answer, that shows what a request of this kind made.
    answer: tuple[str, ...] = ()
    # Keys around a definition that was copied out of an answer.
    wrappers: tuple[str, ...] = ()

    @property
    def answered(self) -> frozenset[str]:
        """Keys of AWS's answers that get copied along; an answer is no request."""
        shown = answer_shape(self.service, *self.answer).members
        return frozenset(shown) - parameters_of(self.service, self.operation)


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
        answer=("DescribeTaskDefinition", "taskDefinition"),
        wrappers=("taskDefinition",),
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
        answer=("DescribeServices", "services"),
        wrappers=("services", "service"),
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
        answer=("RunTask",),
    ),
    SCALABLE_TARGET: Kind(
        "application-autoscaling",
        "RegisterScalableTarget",
        filled_in=_SCALING,
        ignored=_RESOURCE,
        answer=("DescribeScalableTargets", "ScalableTargets"),
        wrappers=("ScalableTargets",),
    ),
    SCALING_POLICY: Kind(
        "application-autoscaling",
        "PutScalingPolicy",
        filled_in=_SCALING,
        ignored=_RESOURCE,
        answer=("DescribeScalingPolicies", "ScalingPolicies"),
        wrappers=("ScalingPolicies",),
    ),
}


def kind_of_wrapped(value: object) -> str | None:
    """The kind of manifest that is wrapped as AWS answers it; None for what is not wrapped."""
    if not isinstance(value, Mapping):
        return None
    return next((name for name, kind in KINDS.items() if wrapper_of(kind, value)), None)


def wrapper_of(kind: Kind, value: Mapping[str, Any]) -> str:
    """The key that holds the definition in an answer that was copied whole (R168); empty if there is none."""
    return next((key for key in kind.wrappers if isinstance(value.get(key), list | Mapping)), "")
