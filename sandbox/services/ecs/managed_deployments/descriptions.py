"""Service deployments and revisions as DescribeServiceDeployments returns them."""

from typing import Any

from sandbox.services.ecs import rollbacks
from sandbox.services.ecs.records import SandboxService, ServiceDeployment

WHOLE = 100.0


def describe_deployment(service: SandboxService, record: ServiceDeployment) -> dict[str, Any]:
    """Return a service deployment under AWS's names, with the task counts of its revisions."""
    counts = {
        revision.service_revision_arn: {
            "requestedTaskCount": deployment.desired_count,
            "runningTaskCount": deployment.running_count,
            "pendingTaskCount": deployment.pending_count,
        }
        for deployment in service.deployments
        if (revision := service.revisions.get(deployment.id))
    }
    none = {"requestedTaskCount": 0, "runningTaskCount": 0, "pendingTaskCount": 0}

    def summarize(arn: str, *, test: float, production: float) -> dict[str, Any]:
        weights = {"requestedTestTrafficWeight": test, "requestedProductionTrafficWeight": production}
        return {"arn": arn, **counts.get(arn, none), **(weights if record.lifecycle_stage else {})}

    test, production = record.test_weight, record.production_weight
    return {
        "serviceDeploymentArn": record.service_deployment_arn,
        "serviceArn": record.service_arn,
        "clusterArn": record.cluster_arn,
        "createdAt": record.created_at,
        "startedAt": record.started_at,
        "finishedAt": record.finished_at,
        "stoppedAt": record.stopped_at,
        "updatedAt": record.updated_at,
        "sourceServiceRevisions": [
            summarize(arn, test=WHOLE - test, production=WHOLE - production)
            for arn in record.source_revision_arns
        ],
        "targetServiceRevision": summarize(
            record.target_service_revision_arn, test=test, production=production
        ),
        "status": record.status,
        "statusReason": record.status_reason,
        "lifecycleStage": record.lifecycle_stage,
        "lifecycleHookDetails": [
            {
                "hookId": run.hook_id,
                "targetType": run.target_type,
                "targetArn": run.target_arn,
                "status": run.status,
                "expiresAt": run.expires_at,
                "timeoutAction": run.timeout_action,
            }
            for run in record.hooks
        ]
        or None,
        "deploymentConfiguration": record.deployment_configuration,
        "rollback": record.rollback,
        "deploymentCircuitBreaker": record.deployment_circuit_breaker or _describe_breaker(service, record),
        "alarms": record.alarms,
    }


def _describe_breaker(service: SandboxService, record: ServiceDeployment) -> dict[str, Any] | None:
    """Return the circuit breaker of a deployment that it has not stopped; None if the service has none."""
    if not rollbacks.get_breaker_settings(service).get("enable"):
        return None
    deployment = next((d for d in service.deployments if d.id == record.deployment_id), None)
    return {
        "status": "MONITORING" if record.status == "IN_PROGRESS" else "MONITORING_COMPLETE",
        "failureCount": deployment.failed_tasks if deployment else 0,
        "threshold": rollbacks.compute_threshold(service),
    }
