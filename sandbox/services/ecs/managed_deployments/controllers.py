"""Deployment controllers other than ECS: task sets of CodeDeploy, and the change of the controller.

Rules: Amazon ECS Developer Guide, "Update Amazon ECS service parameters" and "Troubleshooting Amazon ECS
deployment strategy updates". AWS does not document whether ECS replaces the tasks that it takes over: here it
does, with the same revision.
"""

import copy
from collections.abc import Mapping
from typing import Any

from sandbox.services.ecs.errors import InvalidEcsParameter
from sandbox.services.ecs.records import SandboxDeployment, SandboxService

CODE_DEPLOY, EXTERNAL = "CODE_DEPLOY", "EXTERNAL"
# Fields of UpdateService that a new task set changes instead, as the error names them.
_TASK_SET_FIELDS: Mapping[str, str] = {
    "taskDefinition": "task definition",
    "networkConfiguration": "network parameters",
    "platformVersion": "platform version",
    "loadBalancers": "load balancers",
}


def get_controller(service: SandboxService) -> str:
    return service.deployment_controller.get("type", "ECS")


def check_update(service: SandboxService, params: Mapping[str, Any], draft: SandboxService) -> None:
    """Check an update of a service by the controllers before and after it."""
    before, after = get_controller(service), get_controller(draft)
    if before != after:
        _check_change(service, draft, before, after)
    elif after == CODE_DEPLOY:
        for field, name in _TASK_SET_FIELDS.items():
            if params.get(field):
                raise InvalidEcsParameter(
                    f"Unable to update {name} on services with a CODE_DEPLOY deployment controller. Use AWS "
                    "CodeDeploy to trigger a new deployment."
                )


def _check_change(service: SandboxService, draft: SandboxService, before: str, after: str) -> None:
    if before != "ECS" and service.primary is None:
        raise InvalidEcsParameter(
            "Updating the deployment controller requires a primary taskset in the service. Please ensure "
            "your service has a primary taskset and try again."
        )
    if len(service.deployments) > 1:
        raise InvalidEcsParameter(
            "Updating the deployment controller is not supported when there are multiple tasksets in the "
            "service. Please ensure your service has only one taskset and try again."
        )
    if service.primary is not None and service.primary.rollout_state == "IN_PROGRESS":
        raise InvalidEcsParameter(
            "Updating the deployment controller is not supported during a service deployment."
        )
    if after != "ECS":
        _check_features(draft, after)


def _check_features(draft: SandboxService, after: str) -> None:
    """Check that a service uses nothing that only the ECS controller has."""
    configuration = draft.deployment_configuration
    if (configuration.get("deploymentCircuitBreaker") or {}).get("enable"):
        raise InvalidEcsParameter(
            "Deployment circuit breaker feature is only supported with ECS deployment controller. Update to "
            "ECS deployment controller and try again."
        )
    if (configuration.get("alarms") or {}).get("enable"):
        raise InvalidEcsParameter(
            "Alarm based rollback feature is only supported with ECS deployment controller. Update to ECS "
            "deployment controller and try again."
        )
    if (draft.service_connect_configuration or {}).get("enabled"):
        raise InvalidEcsParameter(
            f"The {after} deployment controller type is not supported for services using Service Connect."
        )
    if draft.scheduling_strategy == "DAEMON":
        raise InvalidEcsParameter(
            f"The {after} deployment controller type is not supported for services using the DAEMON "
            "scheduling strategy."
        )
    if after == CODE_DEPLOY and not draft.load_balancers:
        raise InvalidEcsParameter("The CODE_DEPLOY deployment controller requires a load balancer.")


def build_shown_service(service: SandboxService) -> SandboxService:
    """Return the service as AWS describes it: with task sets in place of deployments."""
    if not service.shows_task_sets:
        return service
    shown = copy.copy(service)
    shown.task_sets = [_build_task_set(service, deployment) for deployment in service.deployments]
    shown.deployments, shown.history = [], []
    return shown


def _build_task_set(service: SandboxService, deployment: SandboxDeployment) -> dict[str, Any]:
    is_whole = deployment.running_count == deployment.desired_count and not deployment.pending_count
    is_steady = is_whole and deployment.rollout_state == "COMPLETED"
    task_set = {
        "id": deployment.id,
        "taskSetArn": f"{service.service_arn.replace(':service/', ':task-set/')}/{deployment.id}",
        "serviceArn": service.service_arn,
        "clusterArn": service.cluster_arn,
        "startedBy": CODE_DEPLOY,
        "status": deployment.status,
        "taskDefinition": deployment.task_definition,
        "computedDesiredCount": deployment.desired_count,
        "pendingCount": deployment.pending_count,
        "runningCount": deployment.running_count,
        "createdAt": deployment.created_at,
        "updatedAt": deployment.updated_at,
        "launchType": service.launch_type,
        "platformVersion": service.platform_version,
        "networkConfiguration": service.network_configuration,
        "loadBalancers": service.load_balancers,
        "scale": {"value": 100.0, "unit": "PERCENT"},
        "stabilityStatus": "STEADY_STATE" if is_steady else "STABILIZING",
    }
    return {key: value for key, value in task_set.items() if value is not None}
