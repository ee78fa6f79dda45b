"""DAEMON services, which run one task on each container instance: ECS sets the count, and no step may."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aws.apis.ecs_types import EcsService, get_arn_name
from steps.actions.base import ActionFailed

DAEMON: Final = "DAEMON"
ROLLING_STEP: Final = "EcsRollingDeploy"


def get_scheduling(document: Mapping[str, Any]) -> str:
    """Return the scheduling strategy of a service definition or of an ECS service as AWS describes it."""
    return str(document.get("schedulingStrategy") or "REPLICA")


def is_daemon(document: Mapping[str, Any]) -> bool:
    return get_scheduling(document) == DAEMON


def refuse_daemon(definition: Mapping[str, Any]) -> None:
    """Raise `ActionFailed` for a DAEMON definition in a step that needs a desired count or traffic."""
    if is_daemon(definition):
        raise ActionFailed(
            "BAD_MANIFEST",
            f"Service {definition['serviceName']} has schedulingStrategy DAEMON: one task on each container "
            "instance, so there is neither a count nor a second version to give traffic to. Deploy it with "
            f"the step {ROLLING_STEP}, or use schedulingStrategy REPLICA.",
        )


def refuse_daemon_scaling(definition: Mapping[str, Any], scaling: Sequence[Mapping[str, Any]]) -> None:
    """Raise `ActionFailed` for auto scaling manifests of a DAEMON service."""
    if scaling and is_daemon(definition):
        raise ActionFailed(
            "BAD_MANIFEST",
            f"Service {definition['serviceName']} has schedulingStrategy DAEMON, which has no desired count "
            "to scale. Remove the auto scaling manifests from the service.",
        )


def describe_missing_instances(service: EcsService) -> str:
    """Describe a completed deployment of a DAEMON service without any task."""
    return (
        f"No container instance matches: Service {service.name} runs one task on each active instance of "
        f"cluster {get_arn_name(service.cluster)} that meets its placement constraints, and there is none. "
        "So no task shows that the new version works. Register or activate a container instance, or correct "
        "placementConstraints of the service definition and the task definition."
    )
