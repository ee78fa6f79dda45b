"""Restore of a stack that AWS rolled back: each try of the undo sends its own update."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from steps.actions.cloudformation.operations import ROLLED_BACK_STATUS, SAVED_STACK
from steps.actions.cloudformation.rollback import undo_stack_change
from steps.actions.context import StepContext


@dataclass
class _Context:
    """A stack that AWS rolled back after the request with this token."""

    last_token: str
    intent: str = "run-1"
    updates: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def cloudformation(self) -> Any:
        stack = SimpleNamespace(id="arn:stack/shop", status=ROLLED_BACK_STATUS, parameters={})
        event = SimpleNamespace(token=self.last_token, is_stack_event=True)
        return SimpleNamespace(
            describe=lambda name: stack,
            list_events=lambda name: [event],
            update=lambda request, token: self.updates.append(token),
        )

    def get_output(self, name: str) -> str:
        return ""

    def load_for_rollback(self, name: str) -> Any:
        snapshot = {"exists": True, "template": "{}", "parameters": {}, "tags": {}}
        return {**snapshot, "capabilities": [], "role": ""} if name == SAVED_STACK else None

    def save_for_rollback(self, name: str, value: Any) -> Any:
        return value

    def log(self, text: str, level: str = "info") -> None:
        self.lines.append(text)


@pytest.mark.parametrize("token", ["run-undo-1", "run-1"])
def test_a_restore_that_aws_rolled_back_is_sent_again(token: str) -> None:
    context = _Context(token)
    undo_stack_change(cast(StepContext, context), "shop", "")
    is_own_restore = token == "run-undo-1"
    assert len(context.updates) == is_own_restore
    assert ("AWS has already rolled back stack shop" in context.lines) is not is_own_restore
