"""Operations on stacks: statuses, events, progress, deletion, confirmation of lost calls."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aws.apis.cloudformation import CloudFormationClient, Stack, StackEvent
from aws.errors import Denied
from steps.actions.base import ActionFailed
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import StepContext

DELETED_STATUS = "DELETE_COMPLETE"
FAILED_CREATION_STATUS = "ROLLBACK_COMPLETE"
SUCCESS_STATUSES = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")
UPDATABLE_STATUSES = (*SUCCESS_STATUSES, "UPDATE_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_COMPLETE")
ROLLED_BACK_STATUS = "UPDATE_ROLLBACK_COMPLETE"
ROLLBACK_FAILED_STATUS = "UPDATE_ROLLBACK_FAILED"
_STATUS_HELP: Mapping[str, str] = {
    "CREATE_FAILED": "It was created without rollback and is incomplete: delete it, then run again.",
    "DELETE_FAILED": "Some of its resources could not be deleted: resolve them and delete it again.",
    "ROLLBACK_FAILED": "Some of its resources could not be deleted: resolve them and delete the stack.",
    "REVIEW_IN_PROGRESS": "A change set waits to be executed, and the stack is empty: execute or delete it.",
    ROLLBACK_FAILED_STATUS: "Its last update could not be rolled back: resolve the errors in its events, "
    "then continue the rollback of the update in CloudFormation.",
}


def is_terminal_status(status: str) -> bool:
    """Return whether nothing more happens by itself."""
    return bool(status) and not status.endswith("_IN_PROGRESS")


def get_status_help(status: str) -> str:
    """What to do about a stack in this state."""
    return _STATUS_HELP.get(status, "Check it in CloudFormation.")


def get_stack_region(context: StepContext, name: str) -> str:
    """Return the region of a stack. Raises `ActionFailed` where nothing says it yet."""
    if not context.region:
        raise ActionFailed(
            "REGION_MISSING",
            f"Nothing says in which region the stack {name} is: the infrastructure gets its region from what "
            "is provisioned. Write region under the spec of the step.",
        )
    return context.region


# When the operation of this run changed the stack, saved where its events cannot be seen.
STACK_CHANGED = "stack changed"
_NEWEST_EVENT_KEY, _STATUS_KEY, _FAILURE_KEY = "newest event", "status", "first failure"
_BEGUN_KEY, _DENIED_KEY = "begun", "events denied"
# What AWS says of resources that it stopped because of another one.
_CANCELLED_REASON = "cancelled"
REASON_CHARACTERS = 1_000


@dataclass(frozen=True)
class StackProgress:
    """How far an operation on a stack has come: the state of the stack, and its first failure in words."""

    status: str
    failure: str


def get_newest_event_id(context: StepContext, client: CloudFormationClient, named: str) -> str:
    """Return the id of the last thing that happened to a stack; nothing of one that is not there."""
    try:
        return next((event.id for event in client.list_events(named)), "")
    except Denied as denied:
        _log_denied(context, denied)
        return ""


def get_last_token(context: StepContext, client: CloudFormationClient, named: str) -> str | None:
    """Return the token of whoever last did something to the stack as a whole; None if events are denied."""
    try:
        return next((event.token for event in client.list_events(named) if event.is_stack_event), "")
    except Denied as denied:
        _log_denied(context, denied)
        return None


def has_event_with_token(context: StepContext, client: CloudFormationClient, named: str, token: str) -> bool:
    """Return whether a request with this token has had an effect: each of its events bears the token.

    Where events are denied, False: AWS carries out a request that is sent again under its token only once.
    """
    try:
        return any(event.token == token for event in client.list_events(named))
    except Denied as denied:
        _log_denied(context, denied)
        return False


def follow_operation(
    context: StepContext, client: CloudFormationClient, named: str, token: str, *, after: str, before: str
) -> StackProgress:
    """Tell what is new since the last look, and say how far the operation with this token has come.

    A token that ends with `-` stands for all that begin so. `after` is the newest event before it began,
    `before` when the stack was changed last before that: where events are denied, its state decides.
    """
    try:
        fresh = list(
            reversed(
                list(_list_newer_events(client, named, context.progress.get(_NEWEST_EVENT_KEY) or after))
            )
        )
    except Denied as denied:
        _log_denied(context, denied)
        return _get_progress_by_status(context, client.describe(named), before)
    for event in fresh:
        context.log(format_event(event), "error" if event.is_failure else "event")
        is_ours = event.token.startswith(token) if token.endswith("-") else event.token == token
        if not is_ours:
            continue
        if event.is_stack_event:
            context.progress[_STATUS_KEY] = event.status
        elif event.is_failure and _CANCELLED_REASON not in event.reason.lower():
            _record_failure(context, event)
    if fresh:
        context.progress[_NEWEST_EVENT_KEY] = fresh[-1].id
    return StackProgress(context.progress.get(_STATUS_KEY, ""), context.progress.get(_FAILURE_KEY, ""))


def _get_progress_by_status(context: StepContext, live: Stack | None, before: str) -> StackProgress:
    """How far an operation has come as the stack itself shows it; nothing while it shows what was before."""
    if live is None:
        return StackProgress("", "")
    context.progress[_BEGUN_KEY] = has_begun = live.is_in_progress or bool(context.progress.get(_BEGUN_KEY))
    # A deletion that fails leaves no other trace.
    is_failed_deletion = has_begun and live.status == "DELETE_FAILED"
    if live.changed_at == before and not (
        live.is_in_progress or live.status == DELETED_STATUS or is_failed_deletion
    ):
        return StackProgress("", "")
    if live.changed_at != before:
        context.save_for_rollback(STACK_CHANGED, live.changed_at)
    return StackProgress(
        live.status, "" if live.status in SUCCESS_STATUSES else live.reason[:REASON_CHARACTERS]
    )


def _log_denied(context: StepContext, denied: Denied) -> None:
    if not context.progress.get(_DENIED_KEY):
        context.progress[_DENIED_KEY] = True
        context.log(f"{denied.display_message} Slipway uses the status of the stack instead.", "warning")


def _list_newer_events(client: CloudFormationClient, named: str, than: str) -> Iterator[StackEvent]:
    for event in client.list_events(named):
        if event.id == than:
            return
        yield event


def _record_failure(context: StepContext, event: StackEvent) -> None:
    if _FAILURE_KEY in context.progress:
        return
    reason = event.reason[:REASON_CHARACTERS].strip() or "AWS gave no reason"
    verb = event.status.removesuffix("_FAILED").lower()
    done = {"create": "created", "update": "updated", "delete": "deleted"}.get(verb, verb)
    text = f"{event.logical_id} ({event.type}) could not be {done}: {reason}"
    context.progress[_FAILURE_KEY] = text
    context.log(f"First failure: {text}", "error")


def format_event(event: StackEvent) -> str:
    """Return an event as a line."""
    where = "" if event.is_stack_event or not event.physical_id else f" {event.physical_id}"
    reason = f": {event.reason[:REASON_CHARACTERS]}" if event.reason else ""
    return f"# {event.status} {event.type} {event.logical_id}{where}{reason}"


def confirm_stack_write(context: StepContext, client: CloudFormationClient, call: CallRecord) -> Confirmation:
    """Judge a CreateStack, UpdateStack, DeleteStack, CancelUpdateStack or ContinueUpdateRollback."""
    late = is_past_read_lag(context, call)
    named, token = call.params["StackName"], call.params["ClientRequestToken"]
    live = client.describe(named)
    if live is None:
        # By name one that is deleted is not found, and so had its effect.
        if call.operation == "DeleteStack":
            return Applied({})
        return NotApplied() if late else Unconfirmed()
    if has_event_with_token(context, client, live.id, token) or _is_proven_by_status(call.operation, live):
        return Applied({"StackId": live.id})
    return NotApplied() if late else Unconfirmed()


def _is_proven_by_status(operation: str, live: Stack) -> bool:
    """What the state of a stack alone proves."""
    if operation == "CancelUpdateStack":
        return live.status.startswith("UPDATE_ROLLBACK")
    return operation == "DeleteStack" and live.status in ("DELETE_IN_PROGRESS", "DELETE_COMPLETE")


def start_deletion(context: StepContext, live: Stack, note: str, *, role: str, said: str) -> None:
    """Delete a stack; save its id and its newest event for rollback as `note`."""
    client = context.cloudformation
    newest = get_newest_event_id(context, client, live.id)
    context.save_for_rollback(f"{note} {context.intent}", [live.id, newest, live.changed_at])
    context.log(said)
    client.delete(live.id, context.intent, role)


def get_deletion_progress(context: StepContext, note: str) -> StackProgress | None:
    """Return how far the deletion has come that was begun under `note`; None where none was."""
    begun = context.load_for_rollback(f"{note} {context.intent}")
    if begun is None:
        return None
    return follow_operation(
        context, context.cloudformation, begun[0], context.intent, after=begun[1], before=begun[-1]
    )


SAVED_STACK = "stack before"
