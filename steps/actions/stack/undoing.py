"""Taking back what a run did to a stack: back to the template before, or deleted where the run created it."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from aws.cloudformation import HIDDEN, Stack, changes_nothing, parameters_to_aws, tags_to_stack
from aws.errors import AwsError, Invalid
from steps.actions.base import ActionFailed, Check, Earlier, NotOurs, Rollout
from steps.actions.stack.events import CHANGED, follow, last_token
from steps.actions.stack.ready import BEFORE
from steps.actions.stack.states import GONE, GOOD, STUCK_GOING_BACK, WENT_BACK, is_over

_UNCHANGED = "stackRestored"
# What a template shows of itself in 51,200 bytes; a larger one can only be handed over by a URL.
LARGEST_BODY = 51_200


def may_undo(rollout: Rollout, name: str) -> bool:
    """Whether the stack is at rest, or can be deleted as it is. Raises `NotOurs`."""
    client, before = rollout.cloudformation, rollout.recall(BEFORE) or {}
    live = client.describe(_id_of(rollout, name))
    if live is None or live.status == GONE:
        if before.get("exists"):
            _refuse_deleted(rollout, name, live)
        return True
    if (is_ours := _is_of_this_run(rollout, live)) is None:
        raise NotOurs(
            f"Without the events of stack {name} nobody can tell whether somebody else has changed it since "
            f"({live.status}). It stays as it is."
        )
    if not is_ours:
        raise NotOurs(f"Somebody else has changed stack {name} since ({live.status}). It stays as it is.")
    return not live.is_busy or (not before.get("exists") and live.status == "CREATE_IN_PROGRESS")


def _refuse_deleted(rollout: Rollout, name: str, live: Stack | None) -> None:
    """Say whether this run or somebody else has deleted a stack that was there before."""
    if live is not None and _is_of_this_run(rollout, live):
        raise ActionFailed(
            "STACK_DELETED", f"A later step of this run has deleted stack {name}: there is no way back."
        )
    raise NotOurs(f"Stack {name} is no longer there: somebody has deleted it.")


def cancel(rollout: Rollout, name: str) -> None:
    """Let an update of ours that still goes on turn back."""
    client = rollout.cloudformation
    live = client.describe(_id_of(rollout, name))
    if live is None or live.status != "UPDATE_IN_PROGRESS":
        return
    if not _is_of_this_run(rollout, live):
        return
    rollout.log(f"Cancelling the update of stack {name}")
    try:
        client.cancel_update(live.id, _token(rollout))
    except Invalid as over:
        rollout.log(f"{over.sentence} The update is over already.")


def undo(rollout: Rollout, name: str, role: str) -> None:
    """Delete what this run created, or update the stack back."""
    client, before = rollout.cloudformation, rollout.recall(BEFORE) or {}
    live = client.describe(_id_of(rollout, name))
    if live is None or live.status in (GONE, "DELETE_IN_PROGRESS"):
        rollout.log(f"Stack {name} is deleted already")
    elif not before.get("exists"):
        rollout.log(f"Deleting stack {name}, which this run created")
        client.delete(live.id, _token(rollout), role)
    elif live.status == WENT_BACK:
        rollout.log(f"AWS has put stack {name} back already")
    elif live.status == STUCK_GOING_BACK:
        rollout.log(f"Continuing the rollback of the update of stack {name}")
        client.continue_rollback(live.id, _token(rollout))
    else:
        _update_back(rollout, name, live, before)


def _update_back(rollout: Rollout, name: str, live: Stack, before: Mapping[str, Any]) -> None:
    hidden = [name for name, value in before["parameters"].items() if value == HIDDEN]
    kept = [name for name in hidden if name in live.parameters]
    if hidden:
        rollout.log(
            f"AWS does not show the values before of {', '.join(hidden)}: they stay as this run set them",
            "warning",
        )
    if len(before["template"].encode()) > LARGEST_BODY:
        raise ActionFailed(
            "TEMPLATE_TOO_LARGE",
            f"The template that stack {name} had is larger than {LARGEST_BODY} bytes, which "
            "CloudFormation takes from a URL only: update the stack from where that template lies.",
        )
    request = {
        "StackName": live.id,
        "TemplateBody": before["template"],
        "Parameters": parameters_to_aws(
            {k: v for k, v in before["parameters"].items() if k in kept or k not in hidden}, kept
        ),
        "Tags": tags_to_stack(before["tags"]),
    }
    request |= {"Capabilities": before["capabilities"]} if before["capabilities"] else {}
    request |= {"RoleARN": before["role"]} if before["role"] else {}
    rollout.log(f"Updating stack {name} back to the template and the parameters before")
    try:
        rollout.cloudformation.update(request, _token(rollout))
    except AwsError as error:
        if not changes_nothing(error):
            raise
        rollout.learn(**{_UNCHANGED: True})
        rollout.log(f"Stack {name} is as it was before")


def is_undone(rollout: Rollout, name: str) -> bool:
    """Whether the stack has come back. Raises `ActionFailed` with what keeps it from that."""
    client, before = rollout.cloudformation, rollout.recall(BEFORE) or {}
    named = _id_of(rollout, name)
    live = client.describe(named)
    if live is None or live.status == GONE:
        return True
    if before.get("exists") and rollout.know(_UNCHANGED):
        return True
    if before.get("exists") and live.status == WENT_BACK and not _was_undone(rollout, live):
        return True
    ours = str(rollout.recall(CHANGED) or "")
    course = follow(rollout, client, live.id, f"{_ours(rollout)}undo-", after="", before=ours)
    if not is_over(course.status):
        return False
    if course.status in (*GOOD, WENT_BACK) and before.get("exists") and course.status == live.status:
        if course.status == WENT_BACK and course.failure:
            raise _stays(name, course.status, course.failure)
        return True
    if course.status == live.status:
        raise _stays(name, course.status, course.failure)
    return False


def _was_undone(rollout: Rollout, live: Stack) -> bool:
    token = last_token(rollout, rollout.cloudformation, live.id)
    if token is None:
        return bool(live.changed != rollout.recall(CHANGED))
    return token.startswith(f"{_ours(rollout)}undo-")


def _is_of_this_run(rollout: Rollout, live: Stack) -> bool | None:
    """Whether this execution was the last to change the stack; None if nothing that may be seen tells."""
    token = last_token(rollout, rollout.cloudformation, live.id)
    if token is not None:
        return token.startswith(_ours(rollout))
    before = rollout.recall(BEFORE) or {}
    was_made_here = not before.get("exists") and live.id == rollout.know("stackId")
    if was_made_here and not live.status.startswith("UPDATE_"):
        return True
    ours = rollout.recall(CHANGED)
    return bool(live.changed == ours) if ours else None


def _stays(name: str, status: str, failure: str) -> ActionFailed:
    return ActionFailed("STACK_NOT_RESTORED", f"Stack {name} is {status}. {failure}".strip())


def words(name: str, known: Earlier) -> tuple[str, ...]:
    """What `undo` would do."""
    before = known.recall(BEFORE)
    if before is None:
        return ()
    if not before.get("exists"):
        return (f"Stack {name}: deleted, as this run created it",)
    return (f"Stack {name}: back to the template and the parameters before",)


def checklist(rollout: Rollout, name: str) -> list[Check]:
    """The stack as it was before, beside the stack as it is."""
    client, before = rollout.cloudformation, rollout.recall(BEFORE) or {}
    live = client.describe(_id_of(rollout, name))
    subject = f"Stack {name}"
    status = live.status if live and live.status != GONE else "not there"
    if not before.get("exists"):
        return [Check(subject, "not there", status, status == "not there")]
    if live is None or status == "not there":
        return [Check(subject, "there", status, ok=False)]
    same = client.template(live.id) == before["template"]
    checks = [Check(f"Template of {subject}", "as before", "as before" if same else "another one", same)]
    for name, value in before["parameters"].items():
        if value != HIDDEN:
            found = live.parameters.get(name, "")
            checks.append(Check(f"Parameter {name} of {subject}", value, found, found == value))
    return checks


def _id_of(rollout: Rollout, name: str) -> str:
    return str(rollout.know("stackId") or name)


def _ours(rollout: Rollout) -> str:
    """What the tokens of all requests of this execution begin with."""
    return f"{rollout.intent.split('-', 1)[0]}-"


def _token(rollout: Rollout) -> str:
    """Each try of an undo has a token of its own: AWS answers one that it knows without doing anything."""
    return str(rollout.remember("token", f"{_ours(rollout)}undo-{uuid4().hex[:12]}"))
