"""Rollback of a stack: restore of its earlier template, or deletion if this run created it."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from aws.apis.cloudformation import (
    HIDDEN_PARAMETER_VALUE,
    SUCCESS_STATUSES,
    Stack,
    format_stack_parameters,
    format_stack_tags,
    is_no_update_error,
)
from aws.errors import AwsError, Invalid
from steps.actions.base import ActionFailed, ChangedByOthers, ChecklistEntry
from steps.actions.cloudformation.operations import (
    DELETED_STATUS,
    ROLLBACK_FAILED_STATUS,
    ROLLED_BACK_STATUS,
    SAVED_STACK,
    STACK_CHANGED,
    follow_operation,
    get_last_token,
    is_terminal_status,
)
from steps.actions.context import EarlierStep, StepContext

# Outputs of an undo: nothing was left to restore, and AWS continues its own rollback.
_RESTORED_OUTPUT, _CONTINUED_OUTPUT = "stackRestored", "stackRollbackContinued"
# Size limit of an inline template; CloudFormation accepts a larger one only by URL.
TEMPLATE_BODY_BYTES = 51_200


def is_undo_possible(context: StepContext, name: str) -> bool:
    """Return whether the stack is at rest or can be deleted. Raises `ChangedByOthers`."""
    client, before = context.cloudformation, context.load_for_rollback(SAVED_STACK) or {}
    live = client.describe(_get_stack_id(context, name))
    if live is None or live.status == DELETED_STATUS:
        if before.get("exists"):
            _refuse_deleted(context, name, live)
        return True
    if (is_ours := is_changed_by_this_run(context, live)) is None:
        raise ChangedByOthers(
            f"Without the events of stack {name} Slipway cannot determine if it was changed outside Slipway "
            f"({live.status}). It is not changed."
        )
    if not is_ours:
        raise ChangedByOthers(
            f"Somebody else has changed stack {name} since ({live.status}). It is not changed."
        )
    return not live.is_in_progress or (not before.get("exists") and live.status == "CREATE_IN_PROGRESS")


def _refuse_deleted(context: StepContext, name: str, live: Stack | None) -> None:
    """Raise an error about the deleted stack: deleted by this run, or outside it."""
    if live is not None and is_changed_by_this_run(context, live):
        raise ActionFailed(
            "STACK_DELETED", f"A later step of this run has deleted stack {name}: it cannot be restored."
        )
    raise ChangedByOthers(f"Stack {name} was deleted outside Slipway.")


def cancel_update(context: StepContext, name: str) -> None:
    """Cancel an update of ours that is still in progress."""
    client = context.cloudformation
    live = client.describe(_get_stack_id(context, name))
    if live is None or live.status != "UPDATE_IN_PROGRESS":
        return
    if not is_changed_by_this_run(context, live):
        return
    context.log(f"Cancelling the update of stack {name}")
    try:
        client.cancel_update(live.id, _build_token(context, "cancel"))
    except Invalid as refused:
        context.log(f"{refused.display_message} The update is over already.")


def undo_stack_change(context: StepContext, name: str, role: str) -> None:
    """Delete the stack if this run created it, else restore its template."""
    client, before = context.cloudformation, context.load_for_rollback(SAVED_STACK) or {}
    live = client.describe(_get_stack_id(context, name))
    if live is None or live.status in (DELETED_STATUS, "DELETE_IN_PROGRESS"):
        context.log(f"Stack {name} is deleted already")
    elif not before.get("exists"):
        context.log(f"Deleting stack {name}, which this run created")
        client.delete(live.id, _build_token(context), role)
    elif live.status == ROLLED_BACK_STATUS and not _is_restored_status(context, live):
        context.log(f"AWS has already rolled back stack {name}")
    elif live.status == ROLLBACK_FAILED_STATUS:
        context.log(f"Continuing the rollback of the update of stack {name}")
        client.continue_rollback(live.id, _build_token(context))
        context.set_outputs(**{_CONTINUED_OUTPUT: True})
    else:
        _restore_template(context, name, live, before)


def _restore_template(context: StepContext, name: str, live: Stack, before: Mapping[str, Any]) -> None:
    hidden = [name for name, value in before["parameters"].items() if value == HIDDEN_PARAMETER_VALUE]
    kept_names = [name for name in hidden if name in live.parameters]
    if hidden:
        context.log(
            f"AWS does not show the values before of {', '.join(hidden)}: they keep the values of this run",
            "warning",
        )
    if len(before["template"].encode()) > TEMPLATE_BODY_BYTES:
        raise ActionFailed(
            "TEMPLATE_TOO_LARGE",
            f"The template that stack {name} had is larger than {TEMPLATE_BODY_BYTES} bytes, which "
            "CloudFormation takes from a URL only: update the stack from where that template lies.",
        )
    request = {
        "StackName": live.id,
        "TemplateBody": before["template"],
        "Parameters": format_stack_parameters(
            {k: v for k, v in before["parameters"].items() if k in kept_names or k not in hidden}, kept_names
        ),
        "Tags": format_stack_tags(before["tags"]),
    }
    request |= {"Capabilities": before["capabilities"]} if before["capabilities"] else {}
    request |= {"RoleARN": before["role"]} if before["role"] else {}
    context.log(f"Updating stack {name} to restore the previous template and parameters")
    if context.get_output(_CONTINUED_OUTPUT):
        context.set_outputs(**{_CONTINUED_OUTPUT: False})
    try:
        context.cloudformation.update(request, _build_token(context))
    except AwsError as error:
        if not is_no_update_error(error):
            raise
        context.set_outputs(**{_RESTORED_OUTPUT: True})
        context.log(f"Stack {name} is restored")


def is_stack_restored(context: StepContext, name: str) -> bool:
    """Return whether the stack is restored. Raises `ActionFailed` with the obstacle."""
    client, before = context.cloudformation, context.load_for_rollback(SAVED_STACK) or {}
    stack_id = _get_stack_id(context, name)
    live = client.describe(stack_id)
    if live is None or live.status == DELETED_STATUS:
        return True
    if before.get("exists") and context.get_output(_RESTORED_OUTPUT):
        return True
    if before.get("exists") and live.status == ROLLED_BACK_STATUS and not _is_restored_status(context, live):
        return True
    changed_at = str(context.load_for_rollback(STACK_CHANGED) or "")
    progress = follow_operation(
        context, client, live.id, f"{_get_token_prefix(context)}undo-", after="", before=changed_at
    )
    if not is_terminal_status(progress.status):
        return False
    if progress.status != live.status:
        return False
    is_rolled_back = progress.status == ROLLED_BACK_STATUS and not progress.failure
    if before.get("exists") and is_rolled_back and not context.get_output(_CONTINUED_OUTPUT):
        raise ChangedByOthers(
            f"The update that restores stack {name} was cancelled outside Slipway: AWS returned to the "
            "version of this run. It is not changed again."
        )
    if before.get("exists") and (progress.status in SUCCESS_STATUSES or is_rolled_back):
        return True
    raise _build_undo_error(name, progress.status, progress.failure)


def _is_restored_status(context: StepContext, live: Stack) -> bool:
    """Return whether the status is that of an update which an undo sent."""
    token = get_last_token(context, context.cloudformation, live.id)
    if token is None:
        return bool(live.changed_at != context.load_for_rollback(STACK_CHANGED))
    return token.startswith(f"{_get_token_prefix(context)}undo-")


def is_changed_by_this_run(context: StepContext, live: Stack) -> bool | None:
    """Return whether this execution made the last change to the stack; None if unknown."""
    token = get_last_token(context, context.cloudformation, live.id)
    if token is not None:
        return token.startswith(_get_token_prefix(context))
    before = context.load_for_rollback(SAVED_STACK) or {}
    is_created_here = not before.get("exists") and live.id == context.get_output("stackId")
    if is_created_here and not live.status.startswith("UPDATE_"):
        return True
    changed_at = context.load_for_rollback(STACK_CHANGED)
    return bool(live.changed_at == changed_at) if changed_at else None


def _build_undo_error(name: str, status: str, failure: str) -> ActionFailed:
    return ActionFailed("STACK_NOT_RESTORED", f"Stack {name} is {status}. {failure}".strip())


def describe_stack_undo(name: str, saved: EarlierStep) -> tuple[str, ...]:
    """Return sentences about the undo of a stack change."""
    before = saved.load_for_rollback(SAVED_STACK)
    if before is None:
        return ()
    if not before.get("exists"):
        return (f"Stack {name}: deleted, because this run created it",)
    return (f"Stack {name}: restore the previous template and parameters",)


def build_stack_checks(context: StepContext, name: str) -> list[ChecklistEntry]:
    """Return checklist entries with the saved and the current stack."""
    client, before = context.cloudformation, context.load_for_rollback(SAVED_STACK) or {}
    live = client.describe(_get_stack_id(context, name))
    subject = f"Stack {name}"
    status = live.status if live and live.status != DELETED_STATUS else "not there"
    if not before.get("exists"):
        return [ChecklistEntry(subject, "not there", status, status == "not there")]
    if live is None or status == "not there":
        return [ChecklistEntry(subject, "there", status, ok=False)]
    is_same = client.get_template(live.id) == before["template"]
    checks = [
        ChecklistEntry(
            f"Template of {subject}", "as before", "as before" if is_same else "different", is_same
        )
    ]
    for name, value in before["parameters"].items():
        if value != HIDDEN_PARAMETER_VALUE:
            actual = live.parameters.get(name, "")
            checks.append(ChecklistEntry(f"Parameter {name} of {subject}", value, actual, actual == value))
    return checks


def _get_stack_id(context: StepContext, name: str) -> str:
    return str(context.get_output("stackId") or name)


def _get_token_prefix(context: StepContext) -> str:
    """Return the prefix of the tokens of all requests of this execution."""
    return f"{context.intent.split('-', 1)[0]}-"


def _build_token(context: StepContext, purpose: str = "undo") -> str:
    """Return the saved token of this try of the undo; AWS ignores a request with a used token."""
    token = f"{_get_token_prefix(context)}{purpose}-{uuid4().hex[:12]}"
    return str(context.save_for_rollback("token", token))
