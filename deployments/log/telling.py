"""Tells watchers of an execution about news; a lost message is found by its number."""

from typing import Any
from uuid import UUID

from deployments.log.blocks import Block
from web.telling import tell_group


def tell(execution_id: UUID, *messages: dict[str, Any]) -> None:
    """Send messages to whoever watches this execution; nobody depends on their arrival."""
    tell_group(group_of(execution_id), *messages)


def tell_blocks(execution_id: UUID, blocks: list[Block]) -> None:
    """Send new lines."""
    tell(
        execution_id,
        *({"type": "log.block", "first": one.first, "last": one.last, "body": one.body} for one in blocks),
    )


def group_of(execution_id: UUID | str) -> str:
    """The channel group of those who watch an execution."""
    return f"execution.{execution_id}"
