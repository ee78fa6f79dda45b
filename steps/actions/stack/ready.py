"""The actions before a stack is changed: it must be at rest, what it was is remembered, a failed one goes."""

from dataclasses import dataclass
from typing import Any

from aws.cloudformation import CloudFormation, Stack
from steps.actions.base import Action, ActionFailed, CallRecord, Rollout, Verdict, action
from steps.actions.stack.adoption import adopt_stack_write
from steps.actions.stack.deletion import begin_deletion, course_of_deletion
from steps.actions.stack.states import FAILED_CREATION, GONE, UPDATABLE, help_for

BEFORE = "stack before"
_TOLD = "told"
_FAILED = "failed stack"


@action
@dataclass(frozen=True)
class AwaitStack(Action):
    """Wait while somebody else's operation on the stack goes on."""

    repeats = True
    stack: str

    @property
    def title(self) -> str:
        return f"Wait until stack {self.stack} is at rest"

    def is_done(self, rollout: Rollout) -> bool:
        live = rollout.cloudformation.describe(self.stack)
        if live is None or not live.is_busy:
            return True
        if rollout.progress.get(_TOLD) != live.status:
            rollout.progress[_TOLD] = live.status
            rollout.log(f"Stack {self.stack} is {live.status}: waiting for the end of that", "warning")
        return False


@action
@dataclass(frozen=True)
class RememberStack(Action):
    """Remember the stack as it is: its template, its parameters as far as AWS shows them, its tags."""

    repeats = True
    stack: str

    @property
    def title(self) -> str:
        return f"Remember stack {self.stack}"

    def start(self, rollout: Rollout) -> None:
        client = rollout.cloudformation
        live = client.describe(self.stack)
        if live is not None and live.status not in (*UPDATABLE, FAILED_CREATION):
            raise ActionFailed(
                "STACK_NOT_USABLE", f"Stack {self.stack} is {live.status}. {help_for(live.status)}"
            )
        is_there = live is not None and live.status != FAILED_CREATION
        first = rollout.recall(BEFORE) is None
        if first:
            rollout.remember(BEFORE, _snapshot(client, live) if live and is_there else {"exists": False})
        rollout.log(_said(self.stack, live))


def _snapshot(client: CloudFormation, live: Stack) -> dict[str, Any]:
    return {
        "exists": True,
        "id": live.id,
        "status": live.status,
        "template": client.template(live.id),
        "parameters": dict(live.parameters),
        "tags": dict(live.tags),
        "capabilities": list(live.capabilities),
        "role": live.role,
    }


def _said(name: str, live: Stack | None) -> str:
    if live is None:
        return f"There is no stack {name} yet: it will be created"
    if live.status == FAILED_CREATION:
        return f"Stack {name} is {live.status}: an earlier creation failed and left nothing in it"
    return f"Stack {name} is {live.status}: it will be updated"


@action
@dataclass(frozen=True)
class ClearFailedStack(Action):
    """Delete a stack whose creation failed: AWS lets nothing else be done with it, and it holds nothing."""

    repeats = True
    stack: str

    @property
    def title(self) -> str:
        return f"Clear away stack {self.stack} if its creation failed"

    def start(self, rollout: Rollout) -> None:
        live = rollout.cloudformation.describe(self.stack)
        if live is not None and live.status == FAILED_CREATION:
            said = f"Deleting stack {self.stack}, whose creation failed earlier"
            begin_deletion(rollout, live, _FAILED, role=live.role, said=said)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_stack_write(rollout, rollout.cloudformation, call)

    def is_done(self, rollout: Rollout) -> bool:
        course = course_of_deletion(rollout, _FAILED)
        if course is None:
            return True
        if course.status == "DELETE_FAILED":
            raise ActionFailed("STACK_NOT_DELETED", f"Stack {self.stack} is DELETE_FAILED. {course.failure}")
        return course.status == GONE
