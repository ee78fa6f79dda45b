"""Stack engine: one resource after the other, with AWS's states, events and rollbacks."""

from collections.abc import Callable, Mapping
from typing import Any

from sandbox.clock import CLOCK
from sandbox.services.cloudformation.internal_client import InternalClient
from sandbox.services.cloudformation.resource_handlers import get_handler
from sandbox.services.cloudformation.resource_types import generate_name
from sandbox.services.cloudformation.stacks import (
    CloudFormationStack,
    StackOperation,
    StackResource,
    StackTarget,
)
from sandbox.services.cloudformation.templates import CloudFormationError, ResourceFailed

RESOURCE_SECONDS = 4.0
SLOW_RESOURCE_SECONDS = 900.0
STABILITY_SECONDS = 2.0
INITIATED = "User Initiated"


class StackEngine:
    """Engine that advances stacks; prefixes of logical ids choose the result.

    `Fails…` cannot be created, `FailsToUpdate…` not updated, `FailsToDelete…` not deleted; `Slow…` takes 15
    minutes.
    """

    def __init__(self, inside: InternalClient) -> None:
        self._inside = inside

    def begin(
        self, stack: CloudFormationStack, kind: str, token: str, target: StackTarget | None = None
    ) -> None:
        """Start an operation: CREATE, UPDATE or DELETE."""
        operation = stack.operation = StackOperation(kind, token, before=stack.target)
        if kind == "UPDATE" and target is not None:
            stack.target, stack.updated_at = target, CLOCK.now()
        if token:
            stack.tokens[token] = kind
        stack.add_event(f"{kind}_IN_PROGRESS", INITIATED)
        operation.todo = self._list_deletions(stack) if kind == "DELETE" else self._list_changes(stack)
        operation.next_at = CLOCK.elapsed + 1.0

    def roll_back(self, stack: CloudFormationStack, reason: str) -> None:
        """Roll back an update, after a failure or CancelUpdateStack."""
        operation = stack.operation
        if operation is None or operation.before is None:
            return
        stack.add_event("UPDATE_ROLLBACK_IN_PROGRESS", reason)
        stack.target = operation.before
        operation.kind, operation.todo, operation.failed = "UPDATE_ROLLBACK", self._list_changes(stack), []
        operation.begun, operation.next_at = False, CLOCK.elapsed + 1.0

    def tick(self, stack: CloudFormationStack) -> bool:
        """Advance a stack, and return whether anything changed."""
        changed = False
        while stack.operation is not None and stack.operation.next_at <= CLOCK.elapsed:
            self._step(stack, stack.operation)
            changed = True
        return changed

    def _list_changes(self, stack: CloudFormationStack) -> list[tuple[str, str]]:
        values = stack.values()
        return [("make", name) for name in stack.target.template.order() if values.is_included(name)]

    def _list_deletions(self, stack: CloudFormationStack) -> list[tuple[str, str]]:
        order = [name for name in stack.target.template.order() if name in stack.resources]
        unordered = [name for name in stack.resources if name not in order]
        return [
            ("delete", name)
            for name in [*unordered, *reversed(order)]
            if stack.resources[name].status != "DELETE_COMPLETE"
        ]

    def _step(self, stack: CloudFormationStack, operation: StackOperation) -> None:
        if not operation.todo:
            self._end(stack, operation)
            return
        verb, name = operation.todo[0]
        act = self._delete if verb == "delete" else self._make_resource
        if not act(stack, operation, name):
            return
        operation.todo.pop(0)
        operation.begun = False
        operation.next_at = CLOCK.elapsed + 0.5

    def _wait(self, operation: StackOperation, name: str) -> None:
        operation.begun = True
        operation.next_at = CLOCK.elapsed + (
            SLOW_RESOURCE_SECONDS if name.startswith("Slow") else RESOURCE_SECONDS
        )

    def _make_resource(self, stack: CloudFormationStack, operation: StackOperation, name: str) -> bool:
        """Create or update one resource, and return whether it is finished."""
        body = stack.target.template.resources[name]
        resource = stack.resources.get(name)
        is_new = resource is None or resource.status == "DELETE_COMPLETE" or not resource.made.physical_id
        if resource is None or (is_new and not operation.begun):
            resource = stack.resources[name] = StackResource(name, body["Type"])
        verb = "CREATE" if is_new else "UPDATE"
        if operation.is_stabilizing:
            verb = resource.status.partition("_")[0]
        try:
            properties = stack.values().resolve(body.get("Properties") or {})
            is_same = not is_new and dict(resource.given) == properties and resource.type == body["Type"]
            if is_same and not operation.is_stabilizing:
                return True
            if not self._advance(stack, operation, resource, verb, properties):
                return False
        except (ResourceFailed, CloudFormationError) as failed:
            operation.is_stabilizing = False
            self._fail(stack, operation, resource, verb, str(failed))
            return False
        operation.is_stabilizing = False
        resource.given = properties
        stack.add_resource_event(resource, f"{verb}_COMPLETE")
        return True

    def _advance(
        self,
        stack: CloudFormationStack,
        operation: StackOperation,
        resource: StackResource,
        verb: str,
        properties: Mapping[str, Any],
    ) -> bool:
        """Begin, make, then wait for one resource; return whether it is stable."""
        if not operation.begun:
            stack.add_resource_event(resource, f"{verb}_IN_PROGRESS")
            self._wait(operation, resource.logical_id)
            return False
        if not operation.is_stabilizing:
            if verb == "CREATE":
                self._create(stack, resource, properties)
            else:
                self._update(stack, operation, resource, properties)
            operation.is_stabilizing = True
        if get_handler(resource.type).is_stable(self._bind_call(stack), resource.made):
            return True
        operation.next_at = CLOCK.elapsed + STABILITY_SECONDS
        return False

    def _create(
        self, stack: CloudFormationStack, resource: StackResource, properties: Mapping[str, Any]
    ) -> None:
        _fail_by_name(resource.logical_id, "Fails", but=("FailsToUpdate", "FailsToDelete"))
        maker = get_handler(resource.type)
        name = generate_name(stack.name, resource.logical_id)
        resource.made = maker.create(self._bind_call(stack), name, properties)
        stack.add_resource_event(resource, "CREATE_IN_PROGRESS", "Resource creation Initiated")

    def _update(
        self,
        stack: CloudFormationStack,
        operation: StackOperation,
        resource: StackResource,
        properties: Mapping[str, Any],
    ) -> None:
        if operation.kind == "UPDATE":
            _fail_by_name(resource.logical_id, "FailsToUpdate")
        maker = get_handler(resource.type)
        changed = {
            key for key in {*resource.given, *properties} if resource.given.get(key) != properties.get(key)
        }
        if not changed & maker.replacing:
            resource.made = maker.update(self._bind_call(stack), resource.made, properties)
            return
        stack.add_resource_event(
            resource,
            "UPDATE_IN_PROGRESS",
            "Requested update requires the creation of a new physical resource; hence creating one.",
        )
        old = StackResource(resource.logical_id, resource.type, resource.made, resource.given)
        made = maker.create(
            self._bind_call(stack), generate_name(stack.name, resource.logical_id), properties
        )
        operation.replaced.append(old)
        resource.made = made

    def _fail(
        self,
        stack: CloudFormationStack,
        operation: StackOperation,
        resource: StackResource,
        verb: str,
        reason: str,
    ) -> None:
        stack.add_resource_event(resource, f"{verb}_FAILED", reason)
        listed = f"[{resource.logical_id}]"
        if operation.kind == "UPDATE_ROLLBACK":
            stack.add_event(
                "UPDATE_ROLLBACK_FAILED", f"The following resource(s) failed to update: {listed}. "
            )
            stack.operation = None
        elif operation.kind == "UPDATE":
            verb_name = "create" if verb == "CREATE" else "update"
            self.roll_back(stack, f"The following resource(s) failed to {verb_name}: {listed}. ")
        else:
            self._fail_creation(stack, operation, listed)

    def _fail_creation(self, stack: CloudFormationStack, operation: StackOperation, listed: str) -> None:
        reason = f"The following resource(s) failed to create: {listed}. "
        if stack.on_failure == "DO_NOTHING":
            stack.add_event("CREATE_FAILED", reason)
            stack.operation = None
            return
        is_deleting = stack.on_failure == "DELETE"
        operation.kind = "DELETE" if is_deleting else "ROLLBACK"
        stack.add_event(
            f"{operation.kind}_IN_PROGRESS",
            f"{reason}{'Delete' if is_deleting else 'Rollback'} requested by user.",
        )
        operation.todo, operation.begun = self._list_deletions(stack), False
        operation.next_at = CLOCK.elapsed + 1.0

    def _delete(self, stack: CloudFormationStack, operation: StackOperation, name: str) -> bool:
        resource = stack.resources[name]
        if not resource.made.physical_id:
            stack.add_resource_event(resource, "DELETE_COMPLETE")
            return True
        if (
            stack.target.template.resources.get(name, {}).get("DeletionPolicy") == "Retain"
            and operation.kind == "DELETE"
        ):
            stack.add_resource_event(resource, "DELETE_SKIPPED")
            return True
        if not operation.begun:
            stack.add_resource_event(resource, "DELETE_IN_PROGRESS")
            self._wait(operation, name)
            return False
        try:
            _fail_by_name(name, "FailsToDelete")
            get_handler(resource.type).delete(self._bind_call(stack), resource.made)
        except ResourceFailed as failed:
            operation.failed.append(name)
            stack.add_resource_event(resource, "DELETE_FAILED", str(failed))
            return True
        stack.add_resource_event(resource, "DELETE_COMPLETE")
        return True

    def _end(self, stack: CloudFormationStack, operation: StackOperation) -> None:
        if operation.kind in ("UPDATE", "UPDATE_ROLLBACK") and not stack.status.endswith(
            "CLEANUP_IN_PROGRESS"
        ):
            self._clean_up(stack, operation)
            return
        if operation.kind in ("DELETE", "ROLLBACK") and operation.failed:
            listed = ", ".join(operation.failed)
            stack.add_event(
                f"{operation.kind}_FAILED", f"The following resource(s) failed to delete: [{listed}]. "
            )
            stack.operation = None
            return
        makes = operation.kind in ("CREATE", "UPDATE", "UPDATE_ROLLBACK")
        stack.outputs = _build_outputs(stack) if makes else []
        if operation.kind == "DELETE":
            stack.deleted_at = CLOCK.now()
        stack.add_event(f"{operation.kind}_COMPLETE")
        stack.operation = None

    def _clean_up(self, stack: CloudFormationStack, operation: StackOperation) -> None:
        """Delete replaced resources and those that the template no longer has."""
        stack.add_event(f"{operation.kind}_COMPLETE_CLEANUP_IN_PROGRESS")
        values = stack.values()
        for name, resource in list(stack.resources.items()):
            if name not in stack.target.template.resources or not values.is_included(name):
                self._delete_resource(stack, resource)
                stack.resources.pop(name)
        for old in operation.replaced:
            self._delete_resource(stack, old)
        operation.next_at = CLOCK.elapsed + RESOURCE_SECONDS

    def _delete_resource(self, stack: CloudFormationStack, resource: StackResource) -> None:
        if resource.status == "DELETE_COMPLETE" or not resource.made.physical_id:
            return
        stack.add_resource_event(resource, "DELETE_IN_PROGRESS")
        try:
            get_handler(resource.type).delete(self._bind_call(stack), resource.made)
        except ResourceFailed as failed:
            stack.add_resource_event(resource, "DELETE_FAILED", str(failed))
            return
        stack.add_resource_event(resource, "DELETE_COMPLETE")

    def _bind_call(
        self, stack: CloudFormationStack
    ) -> Callable[[str, str, Mapping[str, Any]], dict[str, Any]]:
        return lambda service, operation, params: self._inside.call(
            stack.key, stack.region, service, operation, params
        )


def _fail_by_name(name: str, begins: str, but: tuple[str, ...] = ()) -> None:
    if name.startswith(begins) and not name.startswith(but or ("\0",)):
        raise ResourceFailed(
            f'Resource handler returned message: "{name} fails by its name" '
            "(HandlerErrorCode: GeneralServiceException)"
        )


def _build_outputs(stack: CloudFormationStack) -> list[dict[str, str]]:
    values = stack.values()
    outputs = []
    for name, body in stack.target.template.outputs.items():
        if "Condition" in body and not values.evaluate_condition(body["Condition"]):
            continue
        value = values.resolve(body["Value"])
        output = {"OutputKey": str(name), "OutputValue": value if isinstance(value, str) else str(value)}
        if body.get("Description"):
            output["Description"] = str(body["Description"])
        if body.get("Export"):
            output["ExportName"] = str(values.resolve(body["Export"]["Name"]))
        outputs.append(output)
    return outputs
