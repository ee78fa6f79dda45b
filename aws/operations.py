"""AWS operations: whether one writes, and the IAM actions that it requires."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# IAM's prefix where it differs from the name boto3 uses.
_IAM_PREFIXES = {"elbv2": "elasticloadbalancing"}
# Operations whose action has another name; a batch needs the permission of its single calls.
_RENAMED_ACTIONS = {
    ("s3", "ListObjectsV2"): "s3:ListBucket",
    ("sqs", "DeleteMessageBatch"): "sqs:DeleteMessage",
}
_READ_VERBS = ("Describe", "List", "Get", "BatchGet", "BatchCheck", "Filter", "Lookup", "Search", "Head")
# Read operations whose names do not start like reads.
_READ_OPERATIONS = {
    ("sts", "AssumeRole"),
    ("sts", "DecodeAuthorizationMessage"),
    ("iam", "SimulatePrincipalPolicy"),
}


def get_iam_action(service: str, operation: str) -> str:
    """Return the IAM action that allows an operation, such as `ecs:UpdateService`."""
    action = f"{_IAM_PREFIXES.get(service, service)}:{operation}"
    return _RENAMED_ACTIONS.get((service, operation), action)


def is_write(service: str, operation: str) -> bool:
    """Return whether an operation may change something; an unknown one may."""
    return (service, operation) not in _READ_OPERATIONS and not operation.startswith(_READ_VERBS)


_ROLE_PARAMETERS = ("executionRoleArn", "taskRoleArn", "roleArn", "role", "RoleARN", "infrastructureRoleArn")
_TAGGING_OPERATIONS = ("CreateService", "RegisterTaskDefinition", "RunTask")
# Target tracking creates its own alarms, with the permissions of the policy's creator.
_ALARM_ACTIONS = {
    "PutScalingPolicy": ("cloudwatch:PutMetricAlarm", "cloudwatch:DescribeAlarms"),
    "DeleteScalingPolicy": ("cloudwatch:DeleteAlarms",),
}


def list_required_actions(calls: Iterable[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
    """Return the IAM actions that calls (service, operation, parameters) need, each once, by name.

    Source: the service authorization reference of each service, and "Tag ECS resources on creation".
    """
    return sorted({action for call in calls for action in _iterate_required_actions(*call)})


def _iterate_required_actions(service: str, operation: str, params: Mapping[str, Any]) -> Iterator[str]:
    if (service, operation) == ("sts", "GetCallerIdentity"):
        return  # AWS answers it to everybody.
    yield get_iam_action(service, operation)
    if service in ("ecs", "cloudformation") and _has_role(params):
        yield "iam:PassRole"
    if operation in _TAGGING_OPERATIONS and params.get("tags"):
        yield "ecs:TagResource"
    if "TAGS" in params.get("include", ()) and operation == "DescribeServices":
        yield "ecs:ListTagsForResource"
    yield from _ALARM_ACTIONS.get(operation, ())


def _has_role(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(
            (key in _ROLE_PARAMETERS and bool(inner)) or _has_role(inner) for key, inner in value.items()
        )
    return isinstance(value, list) and any(map(_has_role, value))
