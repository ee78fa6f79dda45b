"""Manifest kinds and the AWS operation that each is written for (R159, R164)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aws.shapes import get_parameter_names, get_response_shape

TASK_DEFINITION = "EcsTaskDefinition"
SERVICE_DEFINITION = "EcsServiceDefinition"
SCALABLE_TARGET = "EcsScalableTargetDefinition"
SCALING_POLICY = "EcsScalingPolicyDefinition"
# Not a manifest of a service: a step that runs tasks brings its own.
RUN_TASK_REQUEST = "EcsRunTaskRequestDefinition"


@dataclass(frozen=True)
class ManifestKind:
    """A kind of manifest: its AWS operation, and the keys that Slipway sets or removes."""

    service: str
    operation: str
    # Filled in before a check, because only a deployment has their values.
    filled_in: Mapping[str, Any] = field(default_factory=dict)
    # Keys that a deployment sets itself, with the source of the value.
    ignored: Mapping[str, str] = field(default_factory=dict)
    # Path of the shape of the created resource: an operation, and a member of its response.
    answer: tuple[str, ...] = ()
    # Keys around a definition that was copied from a response.
    wrappers: tuple[str, ...] = ()

    @property
    def answered(self) -> frozenset[str]:
        """Return the keys of AWS responses that requests do not accept."""
        members = get_response_shape(self.service, *self.answer).members
        return frozenset(members) - get_parameter_names(self.service, self.operation)


_SCALING_PARAMETERS = {
    "ServiceNamespace": "ecs",
    "ScalableDimension": "ecs:service:DesiredCount",
    "ResourceId": "service/cluster/service",
}
_IGNORED_RESOURCE = {"ResourceId": "the cluster and ECS service of the deployment"}

MANIFEST_KINDS: dict[str, ManifestKind] = {
    TASK_DEFINITION: ManifestKind(
        "ecs",
        "RegisterTaskDefinition",
        answer=("DescribeTaskDefinition", "taskDefinition"),
        wrappers=("taskDefinition",),
    ),
    SERVICE_DEFINITION: ManifestKind(
        "ecs",
        "CreateService",
        ignored={
            "taskDefinition": "the service's task definition manifest",
            "cluster": "the cluster of the infrastructure definition",
            "clientToken": "a token of its own for every deployment",
            **dict.fromkeys(
                get_parameter_names("ecs", "RegisterTaskDefinition")
                - get_parameter_names("ecs", "CreateService"),
                "the service's task definition manifest",
            ),
        },
        answer=("DescribeServices", "services"),
        wrappers=("services", "service"),
    ),
    RUN_TASK_REQUEST: ManifestKind(
        "ecs",
        "RunTask",
        filled_in={"taskDefinition": "family"},
        ignored={
            "taskDefinition": "the task definition of the step",
            "cluster": "the cluster of the infrastructure definition",
            "clientToken": "a token of its own for every run",
            "startedBy": "the id of the execution",
            **dict.fromkeys(
                get_parameter_names("ecs", "RegisterTaskDefinition") - get_parameter_names("ecs", "RunTask"),
                "the task definition of the step",
            ),
        },
        answer=("RunTask",),
    ),
    SCALABLE_TARGET: ManifestKind(
        "application-autoscaling",
        "RegisterScalableTarget",
        filled_in=_SCALING_PARAMETERS,
        ignored=_IGNORED_RESOURCE,
        answer=("DescribeScalableTargets", "ScalableTargets"),
        wrappers=("ScalableTargets",),
    ),
    SCALING_POLICY: ManifestKind(
        "application-autoscaling",
        "PutScalingPolicy",
        filled_in=_SCALING_PARAMETERS,
        ignored=_IGNORED_RESOURCE,
        answer=("DescribeScalingPolicies", "ScalingPolicies"),
        wrappers=("ScalingPolicies",),
    ),
}


def detect_wrapped_kind(value: object) -> str | None:
    """Return the kind of a manifest wrapped as in an AWS response; None if it is not wrapped."""
    if not isinstance(value, Mapping):
        return None
    return next((name for name, kind in MANIFEST_KINDS.items() if find_wrapper_key(kind, value)), None)


def find_wrapper_key(kind: ManifestKind, value: Mapping[str, Any]) -> str:
    """Return the key around the definition in a copied response (R168); empty if there is none."""
    return next((key for key in kind.wrappers if isinstance(value.get(key), list | Mapping)), "")
