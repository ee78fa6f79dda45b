"""The events of a stack as lines of the log, each once, with the first failure explained."""

from collections.abc import Iterator
from dataclasses import dataclass

from aws.cloudformation import CloudFormation, Stack, StackEvent
from aws.errors import Denied
from steps.actions.base import Rollout
from steps.actions.stack.states import GONE, GOOD

# When the operation of this run changed the stack, remembered where its events cannot be seen.
CHANGED = "stack changed"
_NEWEST, _STATUS, _FAILURE = "newest event", "status", "first failure"
_BEGUN, _DENIED = "begun", "events denied"
# What AWS says of resources that it stopped because of another one.
_BECAUSE_OF_ANOTHER = "cancelled"
MOST_REASON = 1_000


@dataclass(frozen=True)
class Course:
    """How far an operation on a stack has come: the state of the stack, and its first failure in words."""

    status: str
    failure: str


def newest_event(rollout: Rollout, client: CloudFormation, named: str) -> str:
    """The id of the last thing that happened to a stack; nothing of one that is not there."""
    try:
        return next((event.id for event in client.events(named)), "")
    except Denied as denied:
        _tell_denied(rollout, denied)
        return ""


def last_token(rollout: Rollout, client: CloudFormation, named: str) -> str | None:
    """The token of whoever last did something to the stack as a whole; None if events are denied."""
    try:
        return next((event.token for event in client.events(named) if event.is_of_stack), "")
    except Denied as denied:
        _tell_denied(rollout, denied)
        return None


def has_event_of(rollout: Rollout, client: CloudFormation, named: str, token: str) -> bool:
    """Whether a request with this token has had an effect: each of its events bears the token.

    Where events are denied, False: AWS carries out a request that is sent again under its token only once.
    """
    try:
        return any(event.token == token for event in client.events(named))
    except Denied as denied:
        _tell_denied(rollout, denied)
        return False


def follow(
    rollout: Rollout, client: CloudFormation, named: str, token: str, *, after: str, before: str
) -> Course:
    """Tell what is new since the last look, and say how far the operation with this token has come.

    A token that ends with `-` stands for all that begin so. `after` is the newest event before it began,
    `before` when the stack was changed last before that: where events are denied, its state decides.
    """
    try:
        fresh = list(reversed(list(_newer(client, named, rollout.progress.get(_NEWEST) or after))))
    except Denied as denied:
        _tell_denied(rollout, denied)
        return _course_by_state(rollout, client.describe(named), before)
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


def _course_by_state(rollout: Rollout, live: Stack | None, before: str) -> Course:
    """How far an operation has come as the stack itself shows it; nothing while it shows what was before."""
    if live is None:
        return Course("", "")
    rollout.progress[_BEGUN] = has_begun = live.is_busy or bool(rollout.progress.get(_BEGUN))
    # A deletion that fails leaves no other trace.
    is_failed_deletion = has_begun and live.status == "DELETE_FAILED"
    if live.changed == before and not (live.is_busy or live.status == GONE or is_failed_deletion):
        return Course("", "")
    if live.changed != before:
        rollout.remember(CHANGED, live.changed)
    return Course(live.status, "" if live.status in GOOD else live.reason[:MOST_REASON])


def _tell_denied(rollout: Rollout, denied: Denied) -> None:
    if not rollout.progress.get(_DENIED):
        rollout.progress[_DENIED] = True
        rollout.log(f"{denied.sentence} Slipway goes by the state of the stack instead.", "warning")


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
