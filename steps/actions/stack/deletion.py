"""The deletion of a stack: begun with what its events are followed by, and followed to its end."""

from aws.cloudformation import Stack
from steps.actions.base import Rollout
from steps.actions.stack.events import Course, follow, newest_event


def begin_deletion(rollout: Rollout, live: Stack, note: str, *, role: str, said: str) -> None:
    """Delete a stack; under `note` is remembered which one, and what was the newest of its events."""
    client = rollout.cloudformation
    newest = newest_event(rollout, client, live.id)
    rollout.remember(f"{note} {rollout.intent}", [live.id, newest, live.changed])
    rollout.log(said)
    client.delete(live.id, rollout.intent, role)


def course_of_deletion(rollout: Rollout, note: str) -> Course | None:
    """How far the deletion has come that was begun under `note`; None where none was."""
    begun = rollout.recall(f"{note} {rollout.intent}")
    if begun is None:
        return None
    return follow(rollout, rollout.cloudformation, begun[0], rollout.intent, after=begun[1], before=begun[-1])
