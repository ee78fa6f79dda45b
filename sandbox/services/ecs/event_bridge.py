"""Events that ECS sends to EventBridge.

https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs_cwe_events.html
"""

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from typing import Any
from uuid import uuid4

from moto.events.models import events_backends
from moto.sqs.exceptions import SQSException

from sandbox.clock import CLOCK
from sandbox.services.ecs.records import SandboxDeployment, SandboxService, SandboxTask


def send_service_action(service: SandboxService, name: str) -> None:
    """Send an `ECS Service Action`, such as SERVICE_STEADY_STATE."""
    detail = {
        "eventType": "INFO",
        "eventName": name,
        "clusterArn": service.cluster_arn,
        "createdAt": _format_now(),
    }
    _send("ECS Service Action", service.service_arn, detail)


def send_deployment_change(service: SandboxService, deployment: SandboxDeployment, state: str) -> None:
    """Send an `ECS Deployment State Change` to a state: IN_PROGRESS, COMPLETED or FAILED."""
    detail = {
        "eventType": "ERROR" if state == "FAILED" else "INFO",
        "eventName": f"SERVICE_DEPLOYMENT_{state}",
        "clusterArn": service.cluster_arn,
        "deploymentId": deployment.id,
        "updatedAt": _format_now(),
        "reason": deployment.rollout_state_reason,
    }
    _send("ECS Deployment State Change", service.service_arn, detail)


def send_task_change(task: SandboxTask) -> None:
    """Send the `ECS Task State Change` of a task, unless its version was sent already."""
    if task.version == task.sent_version:
        return
    task.sent_version = task.version
    detail = {
        "taskArn": task.task_arn,
        "clusterArn": task.cluster_arn,
        "taskDefinitionArn": task.task_definition_arn,
        "group": task.group,
        "startedBy": task.started_by,
        "lastStatus": task.last_status,
        "desiredStatus": task.desired_status,
        "healthStatus": task.health_status,
        "createdAt": task.created_at.isoformat(),
        "updatedAt": _format_now(),
        "version": task.version,
        "stopCode": task.stop_code,
        "stoppedReason": task.stopped_reason,
    }
    present = {name: value for name, value in detail.items() if value is not None}
    _send("ECS Task State Change", task.task_arn, present)


def _format_now() -> str:
    return CLOCK.now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _send(detail_type: str, arn: str, detail: Mapping[str, Any]) -> None:
    region, account = arn.split(":")[3:5]
    rules = [
        rule
        for bus in events_backends[account][region].event_buses.values()
        for rule in bus.rules.values()
        if rule.state == "ENABLED"
    ]
    if not rules:
        return
    event = {
        "version": "0",
        "id": str(uuid4()),
        "detail-type": detail_type,
        "source": "aws.ecs",
        "account": account,
        "time": CLOCK.now().timestamp(),
        "region": region,
        "resources": [arn],
        "detail": dict(detail),
    }
    for rule in rules:
        for target in rule.targets:
            # moto sends to all targets of a rule, and fails at the first whose queue is gone.
            rule_of_target = copy(rule)
            rule_of_target.targets = [target]
            with suppress(SQSException):
                rule_of_target.send_to_targets(event, transform_input=False)
