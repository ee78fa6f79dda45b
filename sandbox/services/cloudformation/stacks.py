"""Stacks, resources, events and operations as plain records that the state file stores."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from sandbox.clock import CLOCK
from sandbox.services.cloudformation.functions import TemplateValues
from sandbox.services.cloudformation.resource_types import PhysicalResource
from sandbox.services.cloudformation.templates import StackTemplate

STACK_TYPE = "AWS::CloudFormation::Stack"
REDACTED_VALUE = "****"


@dataclass
class StackResource:
    """A resource of a stack."""

    logical_id: str
    type: str
    made: PhysicalResource = field(default_factory=lambda: PhysicalResource(""))
    given: Mapping[str, Any] = field(default_factory=dict)
    status: str = ""
    reason: str = ""
    at: datetime = field(default_factory=CLOCK.now)


@dataclass
class CloudFormationStackEvent:
    """Event of a stack."""

    id: str
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str
    token: str
    at: datetime


@dataclass(frozen=True)
class StackTarget:
    """Desired state of a stack: a template, its parameters, and tags."""

    template: StackTemplate
    parameters: Mapping[str, Any]
    tags: Mapping[str, str] = field(default_factory=dict)

    def is_same(self, other: "StackTarget") -> bool:
        """Return whether an update to another target would change nothing."""
        current, updated = self.template, other.template
        is_same = (current.resources, current.outputs, current.mappings, current.conditions) == (
            updated.resources,
            updated.outputs,
            updated.mappings,
            updated.conditions,
        )
        return is_same and (dict(self.parameters), dict(self.tags)) == (
            dict(other.parameters),
            dict(other.tags),
        )


@dataclass
class StackOperation:
    """Operation in progress: `todo` has the remaining (verb, logical id) pairs, next one first."""

    kind: str
    token: str
    todo: list[tuple[str, str]] = field(default_factory=list)
    next_at: float = 0.0
    begun: bool = False
    is_stabilizing: bool = False
    failed: list[str] = field(default_factory=list)
    replaced: list[StackResource] = field(default_factory=list)
    before: "StackTarget | None" = None


@dataclass
class CloudFormationStack:
    """Stack of one account and region; `key` is the access key of its creator."""

    name: str
    account: str
    region: str
    key: str
    target: StackTarget
    capabilities: list[str] = field(default_factory=list)
    role: str = ""
    on_failure: str = "ROLLBACK"
    status: str = ""
    reason: str = ""
    created_at: datetime = field(default_factory=CLOCK.now)
    updated_at: datetime | None = None
    deleted_at: datetime | None = None
    resources: dict[str, StackResource] = field(default_factory=dict)
    events: list[CloudFormationStackEvent] = field(default_factory=list)
    outputs: list[dict[str, str]] = field(default_factory=list)
    operation: StackOperation | None = None
    tokens: dict[str, str] = field(default_factory=dict)
    unique: str = field(default_factory=lambda: str(uuid4()))

    @property
    def id(self) -> str:
        return f"arn:aws:cloudformation:{self.region}:{self.account}:stack/{self.name}/{self.unique}"

    @property
    def is_deleted(self) -> bool:
        return self.status == "DELETE_COMPLETE"

    def values(self, target: StackTarget | None = None) -> TemplateValues:
        """Return the current values of a template's names."""
        target = target or self.target
        pseudo = {
            "AWS::AccountId": self.account,
            "AWS::NotificationARNs": [],
            "AWS::Partition": "aws",
            "AWS::Region": self.region,
            "AWS::StackId": self.id,
            "AWS::StackName": self.name,
            "AWS::URLSuffix": "amazonaws.com",
        }
        made = {name: resource.made for name, resource in self.resources.items() if resource.made.physical_id}
        return TemplateValues(
            target.template,
            target.parameters,
            pseudo,
            {name: made_resource.physical_id for name, made_resource in made.items()},
            {name: made_resource.attributes for name, made_resource in made.items()},
        )

    def add_event(self, status: str, reason: str = "") -> None:
        """Set the status of the stack and add an event."""
        self.status, self.reason = status, reason
        self._add_event(self.name, self.id, STACK_TYPE, status, reason)

    def add_resource_event(self, resource: StackResource, status: str, reason: str = "") -> None:
        """Set the status of a resource and add an event."""
        resource.status, resource.reason, resource.at = status, reason, CLOCK.now()
        self._add_event(resource.logical_id, resource.made.physical_id, resource.type, status, reason)

    def _add_event(self, logical_id: str, physical_id: str, type_: str, status: str, reason: str) -> None:
        token = self.operation.token if self.operation else ""
        is_own = type_ == STACK_TYPE
        name = (
            str(uuid4())
            if is_own
            else f"{logical_id}-{status}-{CLOCK.now():%Y-%m-%dT%H:%M:%S}-{secrets.token_hex(3)}"
        )
        self.events.append(
            CloudFormationStackEvent(name, logical_id, physical_id, type_, status, reason, token, CLOCK.now())
        )
