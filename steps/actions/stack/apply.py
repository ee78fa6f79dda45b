"""The action that creates or updates a stack, follows it, and takes that back."""

from dataclasses import dataclass, field
from typing import Any

from aws.cloudformation import Stack, changes_nothing, parameters_to_aws, tags_to_stack
from aws.errors import AwsError
from steps.actions.base import Action, ActionFailed, CallRecord, Check, Earlier, Rollout, Verdict, action
from steps.actions.stack import undoing
from steps.actions.stack.adoption import adopt_stack_write
from steps.actions.stack.events import Course, follow, newest_event
from steps.actions.stack.fetch import STACK_TEMPLATE
from steps.actions.stack.place import region_of
from steps.actions.stack.states import FAILED_CREATION, GONE, GOOD, UPDATABLE, help_for, is_over
from steps.variables import SECRET, filled_in, secret_in

NOTHING = "NONE"


@action
@dataclass(frozen=True)
class ApplyStack(Action):
    """Create the stack where there is none, else update it; `values` and `tags` are [name, type, value].

    A template that would change nothing is a success. The value of a parameter of type Secret is the
    reference of the secret, which the journal keeps in its place.
    """

    has_undo = True

    stack: str
    url: str = ""
    values: list[list[str]] = field(default_factory=list)
    capabilities: list[str] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)
    role: str = ""
    accepted: list[str] = field(default_factory=list)
    """States in which a failed operation may leave the stack and the step goes on all the same."""

    @property
    def title(self) -> str:
        return f"Create or update stack {self.stack}"

    def start(self, rollout: Rollout) -> None:
        client, region = rollout.cloudformation, region_of(rollout, self.stack)
        live = client.describe(self.stack)
        request = self._request(rollout)
        rollout.learn(stackName=self.stack, stackRegion=region)
        if live is None:
            rollout.log(f"Creating stack {self.stack} in {region}")
            stack_id = client.create(request, rollout.intent)
            rollout.learn(stackId=stack_id, stackChange="CREATE")
            rollout.log(f"Stack id: {stack_id}")
            return
        _refuse_unusable(live)
        rollout.remember(f"newest event {rollout.intent}", newest_event(rollout, client, live.id))
        rollout.remember(f"changed before {rollout.intent}", live.changed)
        rollout.learn(stackId=live.id)
        rollout.log(f"Updating stack {self.stack} in {region}")
        try:
            client.update(request, rollout.intent)
        except AwsError as error:
            if not changes_nothing(error):
                raise
            rollout.learn(stackChange=NOTHING)
            rollout.log(
                f"Stack {self.stack} is as the template wants it: there is nothing to update", "success"
            )
            return
        rollout.learn(stackChange="UPDATE")

    def _request(self, rollout: Rollout) -> dict[str, Any]:
        template = (
            {"TemplateURL": self.url}
            if self.url
            else {"TemplateBody": rollout.supplies.template(STACK_TEMPLATE).text}
        )
        values = {name: _value(rollout, kind, value) for name, kind, value in self.values}
        tags = {name: filled_in(value, rollout.value_of) for name, _, value in self.tags}
        request = {"StackName": self.stack, **template, "Parameters": parameters_to_aws(values)}
        request |= {"Capabilities": list(self.capabilities)} if self.capabilities else {}
        request |= {"Tags": tags_to_stack(tags)} if tags else {}
        return request | ({"RoleARN": self.role} if self.role else {})

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_stack_write(rollout, rollout.cloudformation, call)

    def is_done(self, rollout: Rollout) -> bool:
        client, stack_id = rollout.cloudformation, str(rollout.know("stackId"))
        if rollout.know("stackChange") == NOTHING:
            return self._hand_over(rollout, client.describe(stack_id), "")
        after = rollout.recall(f"newest event {rollout.intent}") or ""
        before = rollout.recall(f"changed before {rollout.intent}") or ""
        course = follow(rollout, client, stack_id, rollout.intent, after=after, before=before)
        if not is_over(course.status):
            return False
        if course.status not in GOOD and course.status not in self.accepted:
            raise _failed(self.stack, course)
        return self._hand_over(rollout, client.describe(stack_id), course.status)

    def _hand_over(self, rollout: Rollout, live: Stack | None, status: str) -> bool:
        """The outputs; False while AWS still shows the stack as it was before."""
        if live is None or (status and live.status != status):
            return False
        rollout.learn(stackStatus=live.status)
        for name, value in live.outputs.items():
            rollout.learn_output(name, value)
        rollout.log(f"Stack {self.stack} is {live.status}, with {_counted(len(live.outputs))}", "success")
        return True

    def may_undo(self, rollout: Rollout) -> bool:
        return undoing.may_undo(rollout, self.stack)

    def prepare_undo(self, rollout: Rollout) -> None:
        undoing.cancel(rollout, self.stack)

    def undo(self, rollout: Rollout) -> None:
        undoing.undo(rollout, self.stack, self.role)

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_stack_write(rollout, rollout.cloudformation, call)

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        return undoing.words(self.stack, known)

    def is_undone(self, rollout: Rollout) -> bool:
        return undoing.is_undone(rollout, self.stack)

    def checklist(self, rollout: Rollout) -> list[Check]:
        return undoing.checklist(rollout, self.stack)


def _value(rollout: Rollout, kind: str, value: str) -> str:
    """The value of a parameter; of a secret its reference, which becomes the value as the call leaves."""
    if kind == SECRET:
        return f'<+secrets.getValue("{value}")>'
    return value if secret_in(value) else filled_in(value, rollout.value_of)


def _refuse_unusable(live: Stack) -> None:
    if live.status not in UPDATABLE:
        raise ActionFailed("STACK_NOT_USABLE", f"Stack {live.name} is {live.status}. {help_for(live.status)}")


def _failed(name: str, course: Course) -> ActionFailed:
    went = {
        FAILED_CREATION: "AWS took back what it had created.",
        "UPDATE_ROLLBACK_COMPLETE": "AWS put the stack back to what it was.",
        GONE: "It was deleted meanwhile.",
    }.get(course.status, help_for(course.status))
    cause = f" {course.failure.rstrip('.')}." if course.failure else ""
    return ActionFailed("STACK_FAILED", f"Stack {name} is {course.status}.{cause} {went}")


def _counted(number: int) -> str:
    return "no outputs" if not number else f"{number} output{'s' if number > 1 else ''}"
