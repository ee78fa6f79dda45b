"""CloudFormation stacks after the planned writes."""

from collections.abc import Mapping
from typing import Any

from aws.errors import Invalid
from aws.preview.live_reads import ExistsOnlyInPreview, LiveAccount

_SERVICE = "cloudformation"


class StackOverlay:
    """Overlay of the stacks that the preview changed; None means deleted."""

    def __init__(self, live: LiveAccount) -> None:
        self._live = live
        self._stacks: dict[str, dict[str, Any] | None] = {}

    def get_state_before(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return None: a write contains its complete effect."""
        return {}

    def apply_write(self, operation: str, params: Mapping[str, Any], response: dict[str, Any]) -> None:
        """Apply a write to the overlay, and complete its response."""
        name = _parse_stack_name(params)
        if operation == "DeleteStack":
            self._stacks[name] = None
        elif operation == "CreateStack":
            self._stacks[name] = {
                "StackId": response["StackId"],
                "StackName": name,
                "StackStatus": "CREATE_COMPLETE",
            }

    def answer_read(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a read. Raises `AwsError`."""
        name = _parse_stack_name(params)
        if name not in self._stacks:
            return self._live.read(_SERVICE, operation, params)
        stack = self._stacks[name]
        if stack is None:
            raise Invalid("ValidationError", f"Stack with id {name} does not exist", _SERVICE, operation)
        if operation != "DescribeStacks":
            raise ExistsOnlyInPreview(_SERVICE, operation)
        return {"Stacks": [stack]}


def _parse_stack_name(params: Mapping[str, Any]) -> str:
    """Return the stack name of a name or an id, arn:…:stack/name/unique."""
    text = str(params.get("StackName", ""))
    return text.split("/")[1] if text.count("/") > 1 else text
