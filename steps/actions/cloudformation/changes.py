"""Actions that fetch a template, save a stack, create, update and delete it."""

from dataclasses import dataclass, field
from typing import Any

from aws.apis.cloudformation import (
    SUCCESS_STATUSES,
    CloudFormationClient,
    Stack,
    format_stack_parameters,
    format_stack_tags,
    is_no_update_error,
)
from aws.errors import AwsError
from connectors.secret_expressions import parse_secret_reference
from steps.actions.base import Action, ActionFailed, ChecklistEntry, action
from steps.actions.cloudformation import rollback
from steps.actions.cloudformation.operations import (
    DELETED_STATUS,
    FAILED_CREATION_STATUS,
    SAVED_STACK,
    UPDATABLE_STATUSES,
    StackProgress,
    confirm_stack_write,
    follow_operation,
    get_deletion_progress,
    get_last_token,
    get_newest_event_id,
    get_stack_region,
    get_status_help,
    is_terminal_status,
    start_deletion,
)
from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import EarlierStep, StepContext
from steps.expressions import render_expressions
from steps.variables import SECRET_TYPE

STACK_TEMPLATE = "CloudFormationTemplate"


@action
@dataclass(frozen=True)
class FetchStackTemplate(Action):
    """Fetch the template first, so that its problems are reported first; AWS fetches one from a URL."""

    repeats = True
    url: str = ""

    @property
    def title(self) -> str:
        return "Fetch the template"

    def start(self, context: StepContext) -> None:
        if self.url:
            context.log(f"CloudFormation fetches the template from {self.url}")
            return
        source = context.step_inputs.list_sources(STACK_TEMPLATE)[0]
        context.log(f"Fetching the template from {source.store}")
        context.step_inputs.load_template(STACK_TEMPLATE)
        for path in source.paths:
            context.log(f"- {path}")


_LOGGED_STATUS_KEY = "logged status"
_FAILED_STACK_KEY = "failed stack"


@action
@dataclass(frozen=True)
class WaitForStack(Action):
    """Wait while another operation on the stack is in progress."""

    repeats = True
    stack: str

    @property
    def title(self) -> str:
        return f"Wait for stack {self.stack} to be idle"

    def is_done(self, context: StepContext) -> bool:
        live = context.cloudformation.describe(self.stack)
        if live is None or not live.is_in_progress:
            return True
        if context.progress.get(_LOGGED_STATUS_KEY) != live.status:
            context.progress[_LOGGED_STATUS_KEY] = live.status
            context.log(f"Stack {self.stack} is {live.status}: waiting for it to finish", "warning")
        return False


@action
@dataclass(frozen=True)
class SaveStack(Action):
    """Save the stack: its template, the parameters that AWS shows, its tags.

    With `only_expected`, a stack whose id is not among the expected ones is refused before anything changes.
    """

    repeats = True
    stack: str
    only_expected: bool = False
    expected: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"Save stack {self.stack}"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters; workers of the release before know none but the stack."""
        parameters = super().parameters()
        return {name: value for name, value in parameters.items() if value or name == "stack"}

    def start(self, context: StepContext) -> None:
        client = context.cloudformation
        live = client.describe(self.stack)
        is_first = context.load_for_rollback(SAVED_STACK) is None
        # A retry may find the stack that its first attempt created.
        if live is not None and is_first and self.only_expected and live.id not in self.expected:
            raise ActionFailed(
                "STACK_NOT_EXPECTED",
                f"There is a stack {self.stack} already, {live.id}, which is not an expected one: it is not "
                "changed. Use another name, or delete that stack in AWS if it is not needed. The stack of a "
                "delegate that Slipway deployed is updated by its install page.",
            )
        if live is not None and live.status not in (*UPDATABLE_STATUSES, FAILED_CREATION_STATUS):
            raise ActionFailed(
                "STACK_NOT_USABLE", f"Stack {self.stack} is {live.status}. {get_status_help(live.status)}"
            )
        exists = live is not None and live.status != FAILED_CREATION_STATUS
        if is_first:
            context.save_for_rollback(
                SAVED_STACK, _build_snapshot(client, live) if live and exists else {"exists": False}
            )
        context.log(_describe_stack(self.stack, live))


def _build_snapshot(client: CloudFormationClient, live: Stack) -> dict[str, Any]:
    return {
        "exists": True,
        "id": live.id,
        "status": live.status,
        "template": client.get_template(live.id),
        "parameters": dict(live.parameters),
        "tags": dict(live.tags),
        "capabilities": list(live.capabilities),
        "role": live.role,
    }


def _describe_stack(name: str, live: Stack | None) -> str:
    if live is None:
        return f"There is no stack {name} yet: it will be created"
    if live.status == FAILED_CREATION_STATUS:
        return f"Stack {name} is {live.status}: an earlier creation failed and it has no resources"
    return f"Stack {name} is {live.status}: it will be updated"


@action
@dataclass(frozen=True)
class DeleteFailedStack(Action):
    """Delete a stack whose creation failed: it has no resources, and AWS allows nothing else."""

    repeats = True
    stack: str

    @property
    def title(self) -> str:
        return f"Delete stack {self.stack} if its creation failed"

    def start(self, context: StepContext) -> None:
        live = context.cloudformation.describe(self.stack)
        if live is not None and live.status == FAILED_CREATION_STATUS:
            message = f"Deleting stack {self.stack}, whose creation failed earlier"
            start_deletion(context, live, _FAILED_STACK_KEY, role=live.role, message=message)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_stack_write(context, context.cloudformation, call)

    def is_done(self, context: StepContext) -> bool:
        progress = get_deletion_progress(context, _FAILED_STACK_KEY)
        if progress is None:
            return True
        if progress.status == "DELETE_FAILED":
            raise ActionFailed(
                "STACK_NOT_DELETED", f"Stack {self.stack} is DELETE_FAILED. {progress.failure}"
            )
        return progress.status == DELETED_STATUS


NO_CHANGE = "NONE"


@action
@dataclass(frozen=True)
class ApplyStack(Action):
    """Create the stack if there is none, else update it; `values` and `tags` are [name, type, value].

    A template that changes nothing is a success. The value of a parameter of type Secret is the reference of
    the secret, which the journal stores instead of the value.
    """

    has_undo = True

    stack: str
    url: str = ""
    values: list[list[str]] = field(default_factory=list)
    capabilities: list[str] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)
    role: str = ""
    accepted: list[str] = field(default_factory=list)
    """Statuses of a failed operation that the step accepts."""

    @property
    def title(self) -> str:
        return f"Create or update stack {self.stack}"

    def start(self, context: StepContext) -> None:
        client, region = context.cloudformation, get_stack_region(context, self.stack)
        live = client.describe(self.stack)
        request = self._build_request(context)
        context.set_outputs(stackName=self.stack, stackRegion=region)
        # Decided once: a repeated call with the same token may already have taken effect.
        creates = context.save_for_rollback(f"creates {context.intent}", live is None)
        if live is None or creates:
            context.log(f"Creating stack {self.stack} in {region}")
            stack_id = client.create(request, context.intent)
            context.set_outputs(stackId=stack_id, stackChange="CREATE")
            context.log(f"Stack id: {stack_id}")
            return
        if context.load_for_rollback(f"changed before {context.intent}") is None:
            _refuse_unusable(live)
            _refuse_created_meanwhile(context, live)
        context.save_for_rollback(
            f"newest event {context.intent}", get_newest_event_id(context, client, live.id)
        )
        context.save_for_rollback(f"changed before {context.intent}", live.changed_at)
        context.set_outputs(stackId=live.id)
        context.log(f"Updating stack {self.stack} in {region}")
        try:
            client.update(request, context.intent)
        except AwsError as error:
            if not is_no_update_error(error):
                raise
            context.set_outputs(stackChange=NO_CHANGE)
            context.log(f"Stack {self.stack} is up to date: nothing to update", "success")
            return
        context.set_outputs(stackChange="UPDATE")

    def _build_request(self, context: StepContext) -> dict[str, Any]:
        template = (
            {"TemplateURL": self.url}
            if self.url
            else {"TemplateBody": context.step_inputs.load_template(STACK_TEMPLATE).text}
        )
        values = {name: _resolve_parameter(context, kind, value) for name, kind, value in self.values}
        tags = {name: render_expressions(value, context.resolve_expression) for name, _, value in self.tags}
        request = {"StackName": self.stack, **template, "Parameters": format_stack_parameters(values)}
        request |= {"Capabilities": list(self.capabilities)} if self.capabilities else {}
        request |= {"Tags": format_stack_tags(tags)} if tags else {}
        return request | ({"RoleARN": self.role} if self.role else {})

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_stack_write(context, context.cloudformation, call)

    def is_done(self, context: StepContext) -> bool:
        client, stack_id = context.cloudformation, str(context.get_output("stackId"))
        if context.get_output("stackChange") == NO_CHANGE:
            return self._set_outputs(context, client.describe(stack_id), "")
        after = context.load_for_rollback(f"newest event {context.intent}") or ""
        before = context.load_for_rollback(f"changed before {context.intent}") or ""
        progress = follow_operation(context, client, stack_id, context.intent, after=after, before=before)
        if not is_terminal_status(progress.status):
            return False
        if progress.status not in SUCCESS_STATUSES and progress.status not in self.accepted:
            raise _build_failure(self.stack, progress)
        return self._set_outputs(context, client.describe(stack_id), progress.status)

    def _set_outputs(self, context: StepContext, live: Stack | None, status: str) -> bool:
        """Set the outputs; return False while AWS still shows the earlier state of the stack."""
        if live is None:
            return False
        if status and live.status != status:
            token = get_last_token(context, context.cloudformation, live.id)
            if token is None or token == context.intent:
                return False
            context.add_note(
                f"Stack {self.stack} was changed outside Slipway right after it was {status}: it is "
                f"{live.status}"
            )
        context.set_outputs(stackStatus=live.status)
        for name, value in live.outputs.items():
            context.set_output(name, value)
        context.log(
            f"Stack {self.stack} is {live.status}, with {_format_parameter_count(len(live.outputs))}",
            "success",
        )
        return True

    def may_undo(self, context: StepContext) -> bool:
        return rollback.is_undo_possible(context, self.stack)

    def prepare_undo(self, context: StepContext) -> None:
        rollback.cancel_update(context, self.stack)

    def undo(self, context: StepContext) -> None:
        rollback.undo_stack_change(context, self.stack, self.role)

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_stack_write(context, context.cloudformation, call)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        return rollback.describe_stack_undo(self.stack, saved)

    def is_undone(self, context: StepContext) -> bool:
        return rollback.is_stack_restored(context, self.stack)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        return rollback.build_stack_checks(context, self.stack)


def _resolve_parameter(context: StepContext, kind: str, value: str) -> str:
    """Return the value of a parameter; for a secret its reference, replaced when the call is sent."""
    if kind == SECRET_TYPE:
        return f'<+secrets.getValue("{value}")>'
    return value if parse_secret_reference(value) else render_expressions(value, context.resolve_expression)


def _refuse_created_meanwhile(context: StepContext, live: Stack) -> None:
    """Refuse a stack that others created after this step saw none: a rollback would delete it.

    Raises `ActionFailed`.
    """
    saved = context.load_for_rollback(SAVED_STACK) or {}
    if saved.get("exists") or live.id == context.get_output("stackId"):
        return
    if not rollback.is_changed_by_this_run(context, live):
        raise ActionFailed(
            "SUPERSEDED",
            f"Stack {live.name} did not exist when this step began, but was created since. "
            "It is not changed. Run the pipeline again to update it.",
            outcome="SUPERSEDED",
        )


def _refuse_unusable(live: Stack) -> None:
    if live.status not in UPDATABLE_STATUSES:
        raise ActionFailed(
            "STACK_NOT_USABLE", f"Stack {live.name} is {live.status}. {get_status_help(live.status)}"
        )


def _build_failure(name: str, progress: StackProgress) -> ActionFailed:
    consequence = {
        FAILED_CREATION_STATUS: "AWS deleted the created resources.",
        "UPDATE_ROLLBACK_COMPLETE": "AWS restored the stack.",
        DELETED_STATUS: "It was deleted meanwhile.",
    }.get(progress.status, get_status_help(progress.status))
    cause = f" {progress.failure.rstrip('.')}." if progress.failure else ""
    return ActionFailed("STACK_FAILED", f"Stack {name} is {progress.status}.{cause} {consequence}")


def _format_parameter_count(number: int) -> str:
    return "no outputs" if not number else f"{number} output{'s' if number > 1 else ''}"


_STACK_TO_DELETE_KEY = "stack to delete"


@action
@dataclass(frozen=True)
class DeleteStack(Action):
    """Delete the stack and wait until it is gone; a missing stack is a success. It has no undo.

    A stack without one of the `tags`, each as a name and a value, stays; so does one whose id is not
    expected, if ids are.
    """

    stack: str
    role: str = ""
    tags: list[list[str]] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"Delete stack {self.stack}"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters; workers of the release before know none but these."""
        parameters = super().parameters()
        return {name: value for name, value in parameters.items() if value or name in ("stack", "role")}

    def start(self, context: StepContext) -> None:
        live = context.cloudformation.describe(self.stack)
        context.set_outputs(stackName=self.stack)
        if live is None:
            context.log(f"There is no stack {self.stack}: nothing to delete", "success")
            return
        self._refuse_other_stack(live)
        context.set_outputs(stackId=live.id)
        message = f"Deleting stack {self.stack}, which is {live.status}"
        start_deletion(context, live, _STACK_TO_DELETE_KEY, role=self.role, message=message)

    def _refuse_other_stack(self, live: Stack) -> None:
        reasons = [
            f"does not have the tag {name}={value}"
            for name, value in self.tags
            if live.tags.get(name) != value
        ]
        if self.expected and live.id not in self.expected:
            reasons.append(f"is {live.id}, which is not the expected one")
        if reasons:
            raise ActionFailed(
                "STACK_NOT_EXPECTED",
                f"Stack {self.stack} {reasons[0]}: it stays. Check it, and delete it in AWS if it is not "
                "needed.",
            )

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_stack_write(context, context.cloudformation, call)

    def is_done(self, context: StepContext) -> bool:
        progress = get_deletion_progress(context, _STACK_TO_DELETE_KEY)
        if progress is None:
            return True
        if progress.status == "DELETE_FAILED":
            raise ActionFailed(
                "STACK_NOT_DELETED",
                f"Stack {self.stack} is DELETE_FAILED. {progress.failure or 'Its events say why'}. Resolve "
                f"what blocks the deletion of its resources, and run again.",
            )
        if progress.status == DELETED_STATUS:
            context.log(f"Stack {self.stack} is deleted", "success")
        return progress.status == DELETED_STATUS
