"""The action that deletes a stack with all that it made."""

from dataclasses import dataclass

from steps.actions.base import Action, ActionFailed, CallRecord, Rollout, Verdict, action
from steps.actions.stack.adoption import adopt_stack_write
from steps.actions.stack.deletion import begin_deletion, course_of_deletion
from steps.actions.stack.states import GONE

_FOUND = "stack to delete"


@action
@dataclass(frozen=True)
class DeleteStack(Action):
    """Delete the stack and wait until it is gone; one that is not there is no failure. Not undone."""

    stack: str
    role: str = ""

    @property
    def title(self) -> str:
        return f"Delete stack {self.stack}"

    def start(self, rollout: Rollout) -> None:
        live = rollout.cloudformation.describe(self.stack)
        rollout.learn(stackName=self.stack)
        if live is None:
            rollout.log(f"There is no stack {self.stack}: nothing to delete", "success")
            return
        rollout.learn(stackId=live.id)
        said = f"Deleting stack {self.stack}, which is {live.status}"
        begin_deletion(rollout, live, _FOUND, role=self.role, said=said)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_stack_write(rollout, rollout.cloudformation, call)

    def is_done(self, rollout: Rollout) -> bool:
        course = course_of_deletion(rollout, _FOUND)
        if course is None:
            return True
        if course.status == "DELETE_FAILED":
            raise ActionFailed(
                "STACK_NOT_DELETED",
                f"Stack {self.stack} is DELETE_FAILED. {course.failure or 'Its events say why'}. See to what "
                "keeps its resources, and run again.",
            )
        if course.status == GONE:
            rollout.log(f"Stack {self.stack} is deleted", "success")
        return course.status == GONE
