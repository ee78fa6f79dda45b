"""Stacks, events and resources as API responses."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.services.cloudformation.stacks import (
    REDACTED_VALUE,
    CloudFormationStack,
    CloudFormationStackEvent,
    StackResource,
)
from sandbox.services.cloudformation.templates import CloudFormationError, StackTemplate

PAGE_SIZE = 100


def paginate(items: Sequence[Any], params: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return one page of a list, with the token of the next page."""
    token = str(params.get("NextToken") or "")
    try:
        start = int(base64.b64decode(token).decode()) if token else 0
    except ValueError as bad:
        raise CloudFormationError("Invalid NextToken") from bad
    end = start + PAGE_SIZE
    more = {"NextToken": base64.b64encode(str(end).encode()).decode()} if end < len(items) else {}
    return {key: list(items[start:end]), **more}


def build_stack(stack: CloudFormationStack) -> dict[str, Any]:
    """Return a stack in DescribeStacks."""
    hidden = stack.target.template.hidden
    description = {
        "StackId": stack.id,
        "StackName": stack.name,
        "Description": stack.target.template.description or None,
        "Parameters": [
            {
                "ParameterKey": name,
                "ParameterValue": REDACTED_VALUE if name in hidden else _format_value(value),
            }
            for name, value in stack.target.parameters.items()
        ],
        "CreationTime": stack.created_at,
        "LastUpdatedTime": stack.updated_at,
        "DeletionTime": stack.deleted_at,
        "StackStatus": stack.status,
        "StackStatusReason": stack.reason or None,
        "DisableRollback": stack.on_failure == "DO_NOTHING",
        "Capabilities": stack.capabilities,
        "Outputs": stack.outputs,
        "RoleARN": stack.role or None,
        "Tags": [{"Key": key, "Value": value} for key, value in stack.target.tags.items()],
        "EnableTerminationProtection": False,
    }
    return {key: value for key, value in description.items() if value is not None}


def build_stack_summary(stack: CloudFormationStack) -> dict[str, Any]:
    """Return a stack in ListStacks."""
    names = ("StackId", "StackName", "CreationTime", "LastUpdatedTime", "DeletionTime", "StackStatus")
    return {key: value for key, value in build_stack(stack).items() if key in (*names, "StackStatusReason")}


def build_event(stack: CloudFormationStack, event: CloudFormationStackEvent) -> dict[str, Any]:
    """Return an event in DescribeStackEvents."""
    description = {
        "StackId": stack.id,
        "EventId": event.id,
        "StackName": stack.name,
        "LogicalResourceId": event.logical_id,
        "PhysicalResourceId": event.physical_id,
        "ResourceType": event.type,
        "Timestamp": event.at,
        "ResourceStatus": event.status,
        "ResourceStatusReason": event.reason or None,
        "ClientRequestToken": event.token or None,
    }
    return {key: value for key, value in description.items() if value is not None}


def build_resource(stack: CloudFormationStack, resource: StackResource) -> dict[str, Any]:
    """Return a resource in DescribeStackResources."""
    return {
        "StackName": stack.name,
        "StackId": stack.id,
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.made.physical_id,
        "ResourceType": resource.type,
        "Timestamp": resource.at,
        "ResourceStatus": resource.status,
        **({"ResourceStatusReason": resource.reason} if resource.reason else {}),
    }


def build_resource_summary(resource: StackResource) -> dict[str, Any]:
    """Return a resource in ListStackResources."""
    return {
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.made.physical_id,
        "ResourceType": resource.type,
        "LastUpdatedTimestamp": resource.at,
        "ResourceStatus": resource.status,
    }


def build_validation(template: StackTemplate) -> dict[str, Any]:
    """Return the response of ValidateTemplate for a valid template."""
    needed = template.capabilities
    return {
        "Parameters": [
            {
                "ParameterKey": name,
                "NoEcho": name in template.hidden,
                **({"DefaultValue": _format_value(body["Default"])} if "Default" in body else {}),
            }
            for name, body in template.parameters.items()
        ],
        "Description": template.description,
        "Capabilities": needed,
        **({"CapabilitiesReason": "The template makes IAM resources"} if needed else {}),
    }


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
