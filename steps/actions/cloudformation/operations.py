"""Operations on stacks: statuses, events, progress, deletion, confirmation of lost calls."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aws.apis.cloudformation import (
    REASON_CHARACTERS,
    SUCCESS_STATUSES,
    CloudFormationClient,
    Stack,
    StackEvent,
)
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
    """Return whether no operation is in progress."""
    return bool(status) and not status.endswith("_IN_PROGRESS")


def get_status_help(status: str) -> str:
    """Return the remedy for a stack in this state."""
    return _STATUS_HELP.get(status, "Check it in CloudFormation.")


def get_stack_region(context: StepContext, name: str) -> str:
    """Return the region of a stack. Raises `ActionFailed` while it is unknown."""
    if not context.region:
        raise ActionFailed(
            "REGION_MISSING",
            f"Nothing says in which region the stack {name} is: the infrastructure gets its region from what "
            "is provisioned. Write region under the spec of the step.",
        )
    return context.region


# Rollback key of the time at which this run changed the stack, saved if its events are denied.
STACK_CHANGED = "stack changed"
_NEWEST_EVENT_KEY, _STATUS_KEY, _FAILURE_KEY = "newest event", "status", "first failure"
_BEGUN_KEY, _DENIED_KEY, _OPERATION_KEY = "begun", "events denied", "operation"


@dataclass(frozen=True)
class StackProgress:
    """Progress of an operation on a stack: the stack's status, and its first failure as a sentence."""

    status: str
    failure: str


def get_newest_event_id(context: StepContext, client: CloudFormationClient, stack: str) -> str:
    """Return the id of the newest event of a stack; empty if it does not exist."""
    try:
        return next((event.id for event in client.list_events(stack)), "")
    except Denied as denied:
        _log_denied(context, denied)
        return ""


def get_last_token(context: StepContext, client: CloudFormationClient, stack: str) -> str | None:
    """Return the token of the last operation on the stack as a whole; None if events are denied."""
    try:
        return next((event.token for event in client.list_events(stack) if event.is_stack_event), "")
    except Denied as denied:
        _log_denied(context, denied)
        return None


def has_event_with_token(context: StepContext, client: CloudFormationClient, stack: str, token: str) -> bool:
    """Return whether a request with this token had an effect: its events carry the token.

    False if events are denied: AWS executes a repeated request with the same token only once.
    """
    try:
        return any(event.token == token for event in client.list_events(stack))
    except Denied as denied:
        _log_denied(context, denied)
        return False


def follow_operation(
    context: StepContext, client: CloudFormationClient, stack: str, token: str, *, after: str, before: str
) -> StackProgress:
    """Log the new events and return the progress of the operation with this token.

    A token that ends with `-` is a prefix. `after` is the newest event before the operation, `before` the
    time of the stack's last change before it. The stack's status decides if events are denied.
    """
    _begin_operation(context, token)
    try:
        new_events = list(
            reversed(
                list(_list_newer_events(client, stack, context.progress.get(_NEWEST_EVENT_KEY) or after))
            )
        )
    except Denied as denied:
        _log_denied(context, denied)
        return _get_progress_by_status(context, client.describe(stack), before)
    for event in new_events:
        context.log(format_event(event), "error" if event.is_failure else "event")
        if not _concerns_operation(event, token):
            continue
        if event.is_stack_event:
            context.progress[_STATUS_KEY] = event.status
        elif event.is_cause:
            _record_failure(context, event)
    if new_events:
        context.progress[_NEWEST_EVENT_KEY] = new_events[-1].id
    return StackProgress(context.progress.get(_STATUS_KEY, ""), context.progress.get(_FAILURE_KEY, ""))


def _concerns_operation(event: StackEvent, token: str) -> bool:
    """Return whether an event is one of the operation, or its end because somebody deleted the stack."""
    if event.is_stack_event and event.status == DELETED_STATUS:
        return True
    return event.token.startswith(token) if token.endswith("-") else event.token == token


def _begin_operation(context: StepContext, token: str) -> None:
    """Forget the result of an earlier operation: that of a change is not that of its undo."""
    if context.progress.get(_OPERATION_KEY) != token:
        context.progress[_OPERATION_KEY] = token
        for key in (_STATUS_KEY, _FAILURE_KEY, _BEGUN_KEY):
            context.progress.pop(key, None)


def _get_progress_by_status(context: StepContext, live: Stack | None, before: str) -> StackProgress:
    """Return the progress according to the stack's status; empty while it shows the earlier state."""
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


def _list_newer_events(client: CloudFormationClient, stack: str, after: str) -> Iterator[StackEvent]:
    for event in client.list_events(stack):
        if event.id == after:
            return
        yield event


def _record_failure(context: StepContext, event: StackEvent) -> None:
    if _FAILURE_KEY in context.progress:
        return
    text = event.describe_failure()
    context.progress[_FAILURE_KEY] = text
    context.log(f"First failure: {text}", "error")


def format_event(event: StackEvent) -> str:
    """Return an event as a log line."""
    resource = "" if event.is_stack_event or not event.physical_id else f" {event.physical_id}"
    reason = f": {event.reason[:REASON_CHARACTERS]}" if event.reason else ""
    return f"# {event.status} {event.type} {event.logical_id}{resource}{reason}"


def confirm_stack_write(context: StepContext, client: CloudFormationClient, call: CallRecord) -> Confirmation:
    """Confirm a CreateStack, UpdateStack, DeleteStack, CancelUpdateStack or ContinueUpdateRollback."""
    late = is_past_read_lag(context, call)
    stack, token = call.params["StackName"], call.params["ClientRequestToken"]
    live = client.describe(stack)
    if live is None:
        # A deleted stack is not found by name, so the deletion took effect.
        if call.operation == "DeleteStack":
            return Applied({})
        return NotApplied() if late else Unconfirmed()
    if has_event_with_token(context, client, live.id, token) or _is_proven_by_status(call.operation, live):
        return Applied({"StackId": live.id})
    return NotApplied() if late else Unconfirmed()


def _is_proven_by_status(operation: str, live: Stack) -> bool:
    """Return whether the status of a stack alone proves that the operation took effect."""
    if operation == "CancelUpdateStack":
        return live.status.startswith("UPDATE_ROLLBACK")
    return operation == "DeleteStack" and live.status in ("DELETE_IN_PROGRESS", "DELETE_COMPLETE")


def start_deletion(context: StepContext, live: Stack, key: str, *, role: str, message: str) -> None:
    """Delete a stack; save its id and its newest event under the rollback key `note`."""
    client = context.cloudformation
    newest = get_newest_event_id(context, client, live.id)
    context.save_for_rollback(f"{key} {context.intent}", [live.id, newest, live.changed_at])
    context.log(message)
    client.delete(live.id, context.intent, role)


def get_deletion_progress(context: StepContext, key: str) -> StackProgress | None:
    """Return the progress of the deletion started under `key`; None if there is none."""
    deletion = context.load_for_rollback(f"{key} {context.intent}")
    if deletion is None:
        return None
    return follow_operation(
        context, context.cloudformation, deletion[0], context.intent, after=deletion[1], before=deletion[-1]
    )


SAVED_STACK = "stack before"
