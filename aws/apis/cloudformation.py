"""Client for CloudFormation: stacks and their events."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from aws.apis.ecs_types import parse_timestamp
from aws.caller import Caller, paginate, require_member
from aws.errors import AwsError, Invalid

SERVICE = "cloudformation"
STACK_RESOURCE_TYPE = "AWS::CloudFormation::Stack"
# Placeholder of DescribeStacks for a hidden parameter.
HIDDEN_PARAMETER_VALUE = "****"
SUCCESS_STATUSES = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")
REASON_CHARACTERS = 1_000
# Part of AWS's reason for resources that it cancelled because of another failure.
_CANCELLED_REASON = "cancelled"
_PARTICIPLES = {"create": "created", "update": "updated", "delete": "deleted"}
NO_UPDATES_MESSAGE = "No updates are to be performed"
_NOT_FOUND_MESSAGE = "does not exist"


@dataclass(frozen=True)
class Stack:
    """A stack as DescribeStacks shows it."""

    id: str
    name: str
    status: str
    reason: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    role: str = ""
    changed_at: str = ""
    """When it was changed last, or was made; an update shows here from its beginning."""

    @classmethod
    def from_aws(cls, raw: Mapping[str, Any]) -> Self:
        at = parse_timestamp(raw.get("LastUpdatedTime") or raw.get("CreationTime"))
        return cls(
            id=str(raw.get("StackId", "")),
            name=str(raw.get("StackName", "")),
            status=str(raw.get("StackStatus", "")),
            reason=str(raw.get("StackStatusReason") or ""),
            parameters=_parse_pairs(raw.get("Parameters"), "ParameterKey", "ParameterValue"),
            outputs=_parse_pairs(raw.get("Outputs"), "OutputKey", "OutputValue"),
            tags=_parse_pairs(raw.get("Tags"), "Key", "Value"),
            capabilities=tuple(map(str, raw.get("Capabilities") or ())),
            role=str(raw.get("RoleARN") or ""),
            changed_at=at.isoformat() if at else "",
        )

    @property
    def is_in_progress(self) -> bool:
        """Return whether an operation is in progress."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"


@dataclass(frozen=True)
class StackEvent:
    """One thing that happened to a stack or to a resource of it."""

    id: str
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str
    token: str
    at: datetime | None
    stack_id: str = ""

    @classmethod
    def from_aws(cls, raw: Mapping[str, Any]) -> Self:
        return cls(
            id=str(raw.get("EventId", "")),
            logical_id=str(raw.get("LogicalResourceId") or ""),
            physical_id=str(raw.get("PhysicalResourceId") or ""),
            type=str(raw.get("ResourceType") or ""),
            status=str(raw.get("ResourceStatus") or ""),
            reason=str(raw.get("ResourceStatusReason") or ""),
            token=str(raw.get("ClientRequestToken") or ""),
            at=parse_timestamp(raw.get("Timestamp")),
            stack_id=str(raw.get("StackId", "")),
        )

    @property
    def is_stack_event(self) -> bool:
        """Return whether it is about the stack itself; a nested stack is a resource like any other."""
        return self.type == STACK_RESOURCE_TYPE and self.physical_id == self.stack_id

    @property
    def is_failure(self) -> bool:
        return self.status.endswith("_FAILED")

    @property
    def is_cause(self) -> bool:
        """Return whether a resource failed by itself: AWS did not cancel it because of another failure."""
        return self.is_failure and not self.is_stack_event and _CANCELLED_REASON not in self.reason.lower()

    def describe_failure(self) -> str:
        """Return the failure of a resource as a clause, with AWS's reason."""
        reason = self.reason[:REASON_CHARACTERS].strip() or "AWS gave no reason"
        verb = self.status.removesuffix("_FAILED").lower()
        return f"{self.logical_id} ({self.type}) could not be {_PARTICIPLES.get(verb, verb)}: {reason}"


@dataclass(frozen=True)
class CloudFormationClient:
    """Speaks CloudFormation through a caller."""

    caller: Caller

    def describe(self, name: str) -> Stack | None:
        """Return the stack with a name, or with an id also if deleted; None if there is none."""
        try:
            response = self._call("DescribeStacks", {"StackName": name})
        except AwsError as error:
            if _is_stack_not_found(error):
                return None
            raise
        stacks = response.get("Stacks") or ()
        return Stack.from_aws(stacks[0]) if stacks else None

    def get_template(self, name: str) -> str:
        """Return the template in its original format."""
        body = self._call("GetTemplate", {"StackName": name, "TemplateStage": "Original"}).get("TemplateBody")
        # botocore parses JSON and returns YAML unchanged.
        return body if isinstance(body, str) else json.dumps(body or {})

    def create(self, request: Mapping[str, Any], token: str) -> str:
        """Start to create a stack, and return its id."""
        response = self._call("CreateStack", {**request, "ClientRequestToken": token})
        return str(require_member(response, "StackId", SERVICE, "CreateStack"))

    def update(self, request: Mapping[str, Any], token: str) -> str:
        """Start to update a stack. Raises `Invalid` with `NO_UPDATES_MESSAGE` if nothing changes."""
        response = self._call("UpdateStack", {**request, "ClientRequestToken": token})
        return str(require_member(response, "StackId", SERVICE, "UpdateStack"))

    def delete(self, name: str, token: str, role: str = "") -> None:
        """Start to delete a stack; a missing one is no error."""
        params = {"StackName": name, "ClientRequestToken": token}
        self._call("DeleteStack", params | ({"RoleARN": role} if role else {}))

    def cancel_update(self, name: str, token: str) -> None:
        """Cancel an update, which rolls the stack back."""
        self._call("CancelUpdateStack", {"StackName": name, "ClientRequestToken": token})

    def continue_rollback(self, name: str, token: str) -> None:
        """Continue the failed rollback of an update."""
        self._call("ContinueUpdateRollback", {"StackName": name, "ClientRequestToken": token})

    def list_events(self, name: str) -> Iterator[StackEvent]:
        """Yield the events of a stack, newest first, page by page; none for a missing stack."""
        pages = paginate(
            self.caller,
            SERVICE,
            "DescribeStackEvents",
            {"StackName": name},
            result_key="StackEvents",
            cursor_key="NextToken",
        )
        try:
            yield from (StackEvent.from_aws(event) for event in pages)
        except AwsError as error:
            if not _is_stack_not_found(error):
                raise

    def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.caller.call(SERVICE, operation, params)


def format_stack_parameters(
    values: Mapping[str, str], previous_names: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return parameters in the format of CloudFormation; `previous_names` retain their current values."""
    return [
        {"ParameterKey": name, "UsePreviousValue": True}
        if name in previous_names
        else {"ParameterKey": name, "ParameterValue": value}
        for name, value in values.items()
    ]


def format_stack_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags in the format of CloudFormation."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def is_no_update_error(error: AwsError) -> bool:
    """Return whether UpdateStack failed because nothing changes."""
    return isinstance(error, Invalid) and NO_UPDATES_MESSAGE in error.message


def _is_stack_not_found(error: AwsError) -> bool:
    return isinstance(error, Invalid) and _NOT_FOUND_MESSAGE in error.message and "tack" in error.message


def _parse_pairs(items: Any, key: str, value: str) -> dict[str, str]:
    return {str(item[key]): str(item.get(value, "")) for item in items or () if key in item}
