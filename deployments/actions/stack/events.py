"""The events of a stack as lines of the log, each once, with the first failure explained."""

from collections.abc import Iterator
from dataclasses import dataclass

from aws.cloudformation import CloudFormation, StackEvent
from deployments.actions.base import Rollout

_NEWEST, _STATUS, _FAILURE = "newest event", "status", "first failure"
# What AWS says of resources that it stopped because of another one.
_BECAUSE_OF_ANOTHER = "cancelled"
MOST_REASON = 1_000


@dataclass(frozen=True)
class Course:
    """How far an operation on a stack has come: the state of the stack, and its first failure in words."""

    status: str
    failure: str


def newest_event(client: CloudFormation, named: str) -> str:
    """The id of the last thing that happened to a stack; nothing of one that is not there."""
    return next((event.id for event in client.events(named)), "")


def last_token(client: CloudFormation, named: str) -> str:
    """The token of whoever last did something to the stack as a whole."""
    return next((event.token for event in client.events(named) if event.is_of_stack), "")


def has_event_of(client: CloudFormation, named: str, token: str) -> bool:
    """Whether a request with this token has had an effect: each of its events bears the token."""
    return any(event.token == token for event in client.events(named))


def follow(rollout: Rollout, client: CloudFormation, named: str, token: str, *, after: str) -> Course:
    """Tell what is new since the last look, and say how far the operation with this token has come.

    A token that ends with `-` stands for all that begin so. `after` is the newest event before it began.
    """
    fresh = list(reversed(list(_newer(client, named, rollout.progress.get(_NEWEST) or after))))
    for event in fresh:
        rollout.log(in_words(event), "error" if event.is_failure else "event")
        is_ours = event.token.startswith(token) if token.endswith("-") else event.token == token
        if not is_ours:
            continue
        if event.is_of_stack:
            rollout.progress[_STATUS] = event.status
        elif event.is_failure and _BECAUSE_OF_ANOTHER not in event.reason.lower():
            _note_failure(rollout, event)
    if fresh:
        rollout.progress[_NEWEST] = fresh[-1].id
    return Course(rollout.progress.get(_STATUS, ""), rollout.progress.get(_FAILURE, ""))


def _newer(client: CloudFormation, named: str, than: str) -> Iterator[StackEvent]:
    for event in client.events(named):
        if event.id == than:
            return
        yield event


def _note_failure(rollout: Rollout, event: StackEvent) -> None:
    if _FAILURE in rollout.progress:
        return
    reason = event.reason[:MOST_REASON].strip() or "AWS gave no reason"
    verb = event.status.removesuffix("_FAILED").lower()
    done = {"create": "created", "update": "updated", "delete": "deleted"}.get(verb, verb)
    text = f"{event.logical_id} ({event.type}) could not be {done}: {reason}"
    rollout.progress[_FAILURE] = text
    rollout.log(f"First failure: {text}", "error")


def in_words(event: StackEvent) -> str:
    """An event as a line."""
    where = "" if event.is_of_stack or not event.physical_id else f" {event.physical_id}"
    reason = f": {event.reason[:MOST_REASON]}" if event.reason else ""
    return f"# {event.status} {event.type} {event.logical_id}{where}{reason}"
