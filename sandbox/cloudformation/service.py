"""The CloudFormation API: one method for each operation, over the stacks of all accounts and regions."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from moto.iam.models import get_account_id_from

from sandbox.cloudformation import parameters, views
from sandbox.cloudformation.errors import Refusal, ResourceFailed
from sandbox.cloudformation.inside import Inside
from sandbox.cloudformation.machine import INITIATED, Machine
from sandbox.cloudformation.makers import TYPES
from sandbox.cloudformation.records import Stack, Wanted
from sandbox.cloudformation.templates import LARGEST_BODY, Template, read_template
from sandbox.cloudformation.wire import answered, asked, refused
from sandbox.journal import changed_nothing
from sandbox.wire import Answer, Call

NAME = r"[a-zA-Z][-a-zA-Z0-9]*"
UPDATABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")
NO_UPDATES = "No updates are to be performed."
Given = Mapping[str, Any]


class CloudFormation:
    """The stacks, and what can be asked of them."""

    def __init__(self, inside: Inside) -> None:
        self.stacks: list[Stack] = []
        self._inside = inside
        self._machine = Machine(inside)
        self._operations: dict[str, Callable[[Call, Given], Any]] = {
            "CancelUpdateStack": self._cancel,
            "ContinueUpdateRollback": self._continue,
            "CreateStack": self._create,
            "DeleteStack": self._delete,
            "DescribeStackEvents": self._events,
            "DescribeStackResources": self._resources,
            "DescribeStacks": self._describe,
            "GetTemplate": self._template,
            "ListStackResources": self._list_resources,
            "ListStacks": self._list,
            "UpdateStack": self._update,
            "ValidateTemplate": self._validate,
        }

    def answer(self, call: Call, body: bytes) -> Answer:
        """Answer one request."""
        operation = self._operations.get(call.operation)
        try:
            if operation is None:
                raise Refusal(f"The sandbox does not know {call.operation}.", "InvalidAction")
            return answered(call, operation(call, asked(call, body)))
        except Refusal as no:
            return refused(call, no)

    def tick(self) -> bool:
        """Let every stack do what is due; whether anything changed."""
        moved = [self._machine.tick(stack) for stack in self.stacks if stack.operation is not None]
        return any(moved)

    # --- finding ------------------------------------------------------------------------------------

    def _of(self, call: Call) -> list[Stack]:
        account = get_account_id_from(call.access_key)
        return [one for one in self.stacks if (one.account, one.region) == (account, call.region)]

    def _find(self, call: Call, named: str) -> Stack | None:
        """By id also one that is gone, by name only one that is there."""
        for one in reversed(self._of(call)):
            if named == one.id or (named == one.name and not one.is_gone):
                return one
        return None

    def _known(self, call: Call, named: str) -> Stack:
        found = self._find(call, named)
        if found is None:
            raise Refusal(f"Stack with id {named} does not exist")
        return found

    # --- changing -----------------------------------------------------------------------------------

    def _create(self, call: Call, given: Given) -> Any:
        name = str(given.get("StackName", ""))
        if not re.fullmatch(NAME, name) or len(name) > 128:
            raise Refusal(
                f"1 validation error detected: Value '{name}' at 'stackName' failed to satisfy constraint: "
                f"Member must satisfy regular expression pattern: {NAME}"
            )
        token = str(given.get("ClientRequestToken", ""))
        existing = self._find(call, name)
        if existing is not None:
            if token and existing.tokens.get(token) == "CREATE":
                changed_nothing()
                return {"StackId": existing.id}
            raise Refusal(f"Stack [{name}] already exists", "AlreadyExistsException")
        template = self._read(call, given)
        wanted = Wanted(template, parameters.settled(template, given.get("Parameters") or ()), _tags(given))
        self._check_agreed(template, given)
        stack = Stack(
            name,
            get_account_id_from(call.access_key),
            call.region,
            call.access_key,
            wanted,
            list(given.get("Capabilities") or ()),
            self._role(call, given),
            "DO_NOTHING" if given.get("DisableRollback") else str(given.get("OnFailure") or "ROLLBACK"),
        )
        self.stacks.append(stack)
        self._machine.begin(stack, "CREATE", token)
        return {"StackId": stack.id}

    def _update(self, call: Call, given: Given) -> Any:
        name, token = str(given.get("StackName", "")), str(given.get("ClientRequestToken", ""))
        stack = self._find(call, name)
        if stack is None or stack.is_gone:
            raise Refusal(f"Stack [{name}] does not exist")
        if token and token in stack.tokens:
            changed_nothing()
            return {"StackId": stack.id}
        if stack.status not in UPDATABLE:
            raise Refusal(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
        is_same_text = bool(given.get("UsePreviousTemplate"))
        template = stack.wanted.template if is_same_text else self._read(call, given)
        before = stack.wanted.parameters
        said = parameters.settled(template, given.get("Parameters") or (), before)
        self._check_agreed(template, given)
        wanted = Wanted(template, said, _tags(given) if "Tags" in given else stack.wanted.tags)
        if wanted.is_same(stack.wanted):
            raise Refusal(NO_UPDATES)
        stack.role = self._role(call, given) or stack.role
        stack.capabilities = list(given.get("Capabilities") or ())
        self._machine.begin(stack, "UPDATE", token, wanted)
        return {"StackId": stack.id}

    def _delete(self, call: Call, given: Given) -> Any:
        name, token = str(given.get("StackName", "")), str(given.get("ClientRequestToken", ""))
        stack = self._find(call, name)
        if stack is None or stack.is_gone or stack.status == "DELETE_IN_PROGRESS":
            changed_nothing()
            return {}
        if stack.status == "UPDATE_ROLLBACK_IN_PROGRESS":
            raise Refusal(f"Stack [{name}] cannot be deleted while in status {stack.status}")
        stack.role = self._role(call, given) or stack.role
        self._machine.begin(stack, "DELETE", token)
        return {}

    def _cancel(self, call: Call, given: Given) -> Any:
        stack = self._known(call, str(given.get("StackName", "")))
        if stack.status != "UPDATE_IN_PROGRESS":
            raise Refusal("CancelUpdateStack cannot be called from current stack status")
        self._machine.turn_back(stack, INITIATED)
        return {}

    def _continue(self, call: Call, given: Given) -> Any:
        stack = self._known(call, str(given.get("StackName", "")))
        if stack.status != "UPDATE_ROLLBACK_FAILED":
            raise Refusal(
                f"Stack:{stack.id} is in {stack.status} state and can not continue an update rollback."
            )
        self._machine.begin(stack, "UPDATE_ROLLBACK", str(given.get("ClientRequestToken", "")))
        return {}

    # --- looking ------------------------------------------------------------------------------------

    def _describe(self, call: Call, given: Given) -> Any:
        named = given.get("StackName")
        found = [self._known(call, named)] if named else [one for one in self._of(call) if not one.is_gone]
        return views.page([views.stack(one) for one in found], given, "Stacks")

    def _events(self, call: Call, given: Given) -> Any:
        stack = self._known(call, str(given.get("StackName", "")))
        return views.page([views.event(stack, one) for one in reversed(stack.events)], given, "StackEvents")

    def _resources(self, call: Call, given: Given) -> Any:
        stack = self._known(call, str(given.get("StackName", "")))
        wanted = given.get("LogicalResourceId")
        found = [one for one in stack.resources.values() if wanted in (None, one.logical_id)]
        return {"StackResources": [views.resource(stack, one) for one in found]}

    def _list_resources(self, call: Call, given: Given) -> Any:
        stack = self._known(call, str(given.get("StackName", "")))
        found = [views.resource_summary(one) for one in stack.resources.values()]
        return views.page(found, given, "StackResourceSummaries")

    def _list(self, call: Call, given: Given) -> Any:
        wanted = given.get("StackStatusFilter")
        found = [one for one in self._of(call) if not wanted or one.status in wanted]
        return views.page([views.summary(one) for one in found], given, "StackSummaries")

    def _template(self, call: Call, given: Given) -> Any:
        stack = self._known(call, str(given.get("StackName", "")))
        return {"TemplateBody": stack.wanted.template.text, "StagesAvailable": ["Original", "Processed"]}

    def _validate(self, call: Call, given: Given) -> Any:
        return views.validated(self._read(call, given))

    # --- what is given ------------------------------------------------------------------------------

    def _read(self, call: Call, given: Given) -> Template:
        body, url = given.get("TemplateBody"), given.get("TemplateURL")
        if (body is None) == (url is None):
            raise Refusal("Either Template URL or Template Body must be specified.")
        if body is not None and len(str(body).encode()) > LARGEST_BODY:
            raise Refusal(
                "1 validation error detected: Value at 'templateBody' failed to satisfy constraint: "
                f"Member must have length less than or equal to {LARGEST_BODY}"
            )
        return read_template(str(body) if body is not None else self._fetched(call, str(url)), TYPES)

    def _fetched(self, call: Call, url: str) -> str:
        place = _object_of(url)
        if place is None:
            raise Refusal("TemplateURL must be a supported URL.")
        bucket, key = place
        try:
            found = self._inside.call(
                call.access_key, call.region, "s3", "GetObject", {"Bucket": bucket, "Key": key}
            )
        except ResourceFailed as failed:
            text = "Access Denied" if "NoSuchKey" not in str(failed) else "The specified key does not exist."
            raise Refusal(f"S3 error: {text}") from failed
        return bytes(found["Body"]).decode("utf-8", "replace")

    def _check_agreed(self, template: Template, given: Given) -> None:
        agreed = set(given.get("Capabilities") or ())
        wanted = template.capabilities
        if wanted and not agreed & {*wanted, "CAPABILITY_NAMED_IAM"}:
            raise Refusal(f"Requires capabilities : [{wanted[0]}]", "InsufficientCapabilitiesException")

    def _role(self, call: Call, given: Given) -> str:
        arn = str(given.get("RoleARN") or "")
        if arn:
            try:
                name = arn.rpartition("/")[2]
                self._inside.call(call.access_key, call.region, "iam", "GetRole", {"RoleName": name})
            except ResourceFailed as failed:
                raise Refusal(f"Role {arn} is invalid or cannot be assumed") from failed
        return arn


def _tags(given: Given) -> dict[str, str]:
    listed: Sequence[Given] = given.get("Tags") or ()
    return {str(one["Key"]): str(one["Value"]) for one in listed}


def _object_of(url: str) -> tuple[str, str] | None:
    """Bucket and key of a URL of S3, with the bucket in the host or in the path."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", unquote(parts.path.lstrip("/"))
    if found := re.fullmatch(r"(.+)\.s3[.-](?:[\w-]+\.)?amazonaws\.com(?:\.cn)?", host):
        return (found[1], path) if path else None
    if re.fullmatch(r"s3[.-](?:[\w-]+\.)?amazonaws\.com", host) or host in ("127.0.0.1", "localhost"):
        bucket, _, key = path.partition("/")
        return (bucket, key) if key else None
    return None
