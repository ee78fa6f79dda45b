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


def paginate(items: Sequence[Any], given: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return one page of a list, with the token of the next page."""
    token = str(given.get("NextToken") or "")
    try:
        start = int(base64.b64decode(token).decode()) if token else 0
    except ValueError as bad:
        raise CloudFormationError("Invalid NextToken") from bad
    end = start + PAGE_SIZE
    more = {"NextToken": base64.b64encode(str(end).encode()).decode()} if end < len(items) else {}
    return {key: list(items[start:end]), **more}


def build_stack(one: CloudFormationStack) -> dict[str, Any]:
    """Return a stack in DescribeStacks."""
    hidden = one.wanted.template.hidden
    shown = {
        "StackId": one.id,
        "StackName": one.name,
        "Description": one.wanted.template.description or None,
        "Parameters": [
            {
                "ParameterKey": name,
                "ParameterValue": REDACTED_VALUE if name in hidden else _format_value(value),
            }
            for name, value in one.wanted.parameters.items()
        ],
        "CreationTime": one.created_at,
        "LastUpdatedTime": one.updated_at,
        "DeletionTime": one.deleted_at,
        "StackStatus": one.status,
        "StackStatusReason": one.reason or None,
        "DisableRollback": one.on_failure == "DO_NOTHING",
        "Capabilities": one.capabilities,
        "Outputs": one.outputs,
        "RoleARN": one.role or None,
        "Tags": [{"Key": key, "Value": value} for key, value in one.wanted.tags.items()],
        "EnableTerminationProtection": False,
    }
    return {key: value for key, value in shown.items() if value is not None}


def build_stack_summary(one: CloudFormationStack) -> dict[str, Any]:
    """Return a stack in ListStacks."""
    kept = ("StackId", "StackName", "CreationTime", "LastUpdatedTime", "DeletionTime", "StackStatus")
    return {key: value for key, value in build_stack(one).items() if key in (*kept, "StackStatusReason")}


def build_event(stack: CloudFormationStack, one: CloudFormationStackEvent) -> dict[str, Any]:
    """Return an event in DescribeStackEvents."""
    shown = {
        "StackId": stack.id,
        "EventId": one.id,
        "StackName": stack.name,
        "LogicalResourceId": one.logical_id,
        "PhysicalResourceId": one.physical_id,
        "ResourceType": one.type,
        "Timestamp": one.at,
        "ResourceStatus": one.status,
        "ResourceStatusReason": one.reason or None,
        "ClientRequestToken": one.token or None,
    }
    return {key: value for key, value in shown.items() if value is not None}


def build_resource(stack: CloudFormationStack, one: StackResource) -> dict[str, Any]:
    """Return a resource in DescribeStackResources."""
    return {
        "StackName": stack.name,
        "StackId": stack.id,
        "LogicalResourceId": one.logical_id,
        "PhysicalResourceId": one.made.physical_id,
        "ResourceType": one.type,
        "Timestamp": one.at,
        "ResourceStatus": one.status,
        **({"ResourceStatusReason": one.reason} if one.reason else {}),
    }


def build_resource_summary(one: StackResource) -> dict[str, Any]:
    """Return a resource in ListStackResources."""
    return {
        "LogicalResourceId": one.logical_id,
        "PhysicalResourceId": one.made.physical_id,
        "ResourceType": one.type,
        "LastUpdatedTimestamp": one.at,
        "ResourceStatus": one.status,
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
