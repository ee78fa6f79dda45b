"""Preview caller that records writes and answers later reads as if they had been sent."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol

from botocore.model import StructureShape

from aws.caller import Caller
from aws.operations import is_write
from aws.preview.cloudformation import StackOverlay
from aws.preview.ecs import EcsOverlay
from aws.preview.elb import ElbOverlay
from aws.preview.live_reads import LiveAccount, PreviewPlaceholders, ReadBudget
from aws.preview.scaling import ScalingOverlay
from aws.shapes import get_operation_model

_ID_SUFFIXES = ("Arn", "ARN", "arn", "Id", "id")


def build_planned_response(
    service: str, operation: str, params: Mapping[str, Any], create_id: Callable[[str], str]
) -> dict[str, Any]:
    """Return a response with the parameters that are also in the output.

    `create_id` creates the ids that AWS would assign.
    """
    output = get_operation_model(service, operation).output_shape
    if not isinstance(output, StructureShape):
        return {}
    response = _copy_members(output, params, create_id)
    for member, shape in output.members.items():
        if isinstance(shape, StructureShape):
            response[member] = _copy_members(shape, params, create_id)
    return response


def _copy_members(
    shape: StructureShape, params: Mapping[str, Any], create_id: Callable[[str], str]
) -> dict[str, Any]:
    members = {member: params[member] for member in shape.members if member in params}
    for member, member_shape in shape.members.items():
        if member not in members and member_shape.type_name == "string" and member.endswith(_ID_SUFFIXES):
            members[member] = create_id(member)
    return members


@dataclass(frozen=True)
class PlannedCall:
    """Call of a preview: a read was sent, a write was not."""

    service: str
    operation: str
    params: dict[str, Any]
    before: dict[str, Any] = field(default_factory=dict)
    """The service, listener or rule as it is until a write changes it."""

    @property
    def is_write(self) -> bool:
        return is_write(self.service, self.operation)


class PreviewOverlay(Protocol):
    """Overlay of an AWS service with the effects of the planned writes."""

    def get_state_before(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the current state of the target of a write. Raises `AwsError`."""

    def apply_write(self, operation: str, params: Mapping[str, Any], response: dict[str, Any]) -> None:
        """Apply a write to the overlay, and complete its response."""

    def answer_read(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a read. Raises `AwsError`."""


@dataclass
class PreviewCaller:
    """Caller that sends reads within a budget, and simulates writes.

    Ids that only AWS can assign have names in angle brackets: `<serviceArn of CreateService 2>` is that of
    the second write. `writes` has the writes in order. Later reads show their final state: services have all
    their tasks, tasks have succeeded, targets are healthy.
    """

    caller: Caller
    budget: ReadBudget = field(default_factory=lambda: ReadBudget(calls=200, seconds=60))
    calls: list[PlannedCall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._live = LiveAccount(self.caller, self.budget, PreviewPlaceholders())
        ecs = EcsOverlay(self._live)
        self._overlays: dict[str, PreviewOverlay] = {
            "ecs": ecs,
            "elbv2": ElbOverlay(self._live, ecs),
            "application-autoscaling": ScalingOverlay(self._live),
            "cloudformation": StackOverlay(self._live),
        }

    @property
    def writes(self) -> list[PlannedCall]:
        """Return the calls that a run would change something with."""
        return [call for call in self.calls if call.is_write]

    def create_placeholder(self, text: str) -> str:
        """Return a placeholder for a value that only a run determines; reads with it are not sent."""
        return self._live.placeholders.create(text)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response of AWS or of the overlay.

        Raises `AwsError`, `PreviewLimitReached`.
        """
        params_copy = deepcopy(dict(params))
        overlay = self._overlays.get(service)
        if is_write(service, operation):
            return deepcopy(self._write(service, operation, params_copy, overlay))
        self.calls.append(PlannedCall(service, operation, params_copy))
        response = (
            overlay.answer_read(operation, params_copy)
            if overlay
            else self._live.read(service, operation, params_copy)
        )
        return deepcopy(response)

    @property
    def live_caller(self) -> Caller:
        """Return a caller for additional reads of the real account. Raises `PreviewLimitReached` too."""
        return _LiveCaller(self._live)

    def _write(
        self, service: str, operation: str, params: dict[str, Any], overlay: PreviewOverlay | None
    ) -> dict[str, Any]:
        before = overlay.get_state_before(operation, params) if overlay else {}
        self.calls.append(PlannedCall(service, operation, params, before))
        call_name = f"{operation} {len(self.writes)}"
        response = build_planned_response(
            service, operation, params, lambda name: self.create_placeholder(f"{name} of {call_name}")
        )
        if overlay:
            overlay.apply_write(operation, params, response)
        return response


@dataclass(frozen=True)
class _LiveCaller:
    live: LiveAccount

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return deepcopy(self.live.read(service, operation, params))
