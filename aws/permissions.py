"""Which IAM actions a call needs, beside the one of its own name."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aws.names import iam_action

_ROLES = ("executionRoleArn", "taskRoleArn", "roleArn", "role", "RoleARN", "infrastructureRoleArn")
_TAGGED_WHEN_MADE = ("CreateService", "RegisterTaskDefinition", "RunTask")
# Target tracking keeps alarms of its own, with the rights of whoever puts the policy.
_ALARMS = {
    "PutScalingPolicy": ("cloudwatch:PutMetricAlarm", "cloudwatch:DescribeAlarms"),
    "DeleteScalingPolicy": ("cloudwatch:DeleteAlarms",),
}


def actions_for(calls: Iterable[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
    """The IAM actions that calls (service, operation, parameters) need, each once, by name.

    Source: the service authorization reference of each service, and "Tag ECS resources on creation".
    """
    return sorted({action for call in calls for action in _actions_for(*call)})


def _actions_for(service: str, operation: str, params: Mapping[str, Any]) -> Iterator[str]:
    if (service, operation) == ("sts", "GetCallerIdentity"):
        return  # AWS answers it to everybody.
    yield iam_action(service, operation)
    if service in ("ecs", "cloudformation") and _has_role(params):
        yield "iam:PassRole"
    if operation in _TAGGED_WHEN_MADE and params.get("tags"):
        yield "ecs:TagResource"
    if "TAGS" in params.get("include", ()) and operation == "DescribeServices":
        yield "ecs:ListTagsForResource"
    yield from _ALARMS.get(operation, ())


def _has_role(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any((key in _ROLES and bool(inner)) or _has_role(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_has_role, value))
