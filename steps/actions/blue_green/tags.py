"""Actions that tag the live and the stage ECS service; traffic decides, never the tag (R238)."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws.errors import Denied
from steps.actions.base import Action, ChecklistEntry, action
from steps.actions.blue_green.identity import BLUE, GREEN, VERSION_TAG
from steps.actions.blue_green.traffic import load_traffic
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import EarlierStep, StepContext
from steps.actions.ecs_service.snapshots import has_existed_before


def confirm_tag_write(context: StepContext, call: CallRecord) -> Confirmation:
    """Confirm a TagResource or UntagResource."""
    late = is_past_read_lag(context, call)
    try:
        tags = context.ecs.list_tags(call.params["resourceArn"])
    except Denied:
        return NotApplied()  # Tagging is idempotent.
    expected = {tag["key"]: tag["value"] for tag in call.params.get("tags", ())}
    is_tagged = all(tags.get(key) == value for key, value in expected.items())
    if is_tagged and not any(key in tags for key in call.params.get("tagKeys", ())):
        return Applied({})
    return NotApplied() if late else Unconfirmed()


def write_tag(context: StepContext, arn: str, name: str, value: str) -> bool:
    """Tag a service and return whether it succeeded; a denial is only logged, as traffic decides."""
    try:
        context.ecs.add_tags(arn, {VERSION_TAG: value})
    except Denied as denied:
        context.log(
            f"{denied.display_message} Service {name} stays without tag [{VERSION_TAG}, {value}]; Slipway "
            f"uses traffic instead.",
            "warning",
        )
        return False
    return True


def restore_tags(context: StepContext, arn: str, name: str, now: Mapping[str, str]) -> None:
    """Restore the tag of a service from when the deployment began; `now` are its current tags."""
    saved = context.load_for_rollback("pair")["tags"].get(name)
    if saved is None:
        return
    try:
        if not now:  # A recreated service has none of its tags.
            _write_tags(context, arn, saved)
        elif VERSION_TAG in saved:
            context.ecs.add_tags(arn, {VERSION_TAG: saved[VERSION_TAG]})
        else:
            context.ecs.remove_tags(arn, [VERSION_TAG])
    except Denied as denied:
        context.log(f"{denied.display_message} The tags of Service {name} are not restored.", "warning")
        return
    context.log(f"Tag of Service {name} is restored: {saved.get(VERSION_TAG, 'none')}")


def _write_tags(context: StepContext, arn: str, tags: Mapping[str, str]) -> None:
    if tags:
        context.ecs.add_tags(arn, tags)


def build_tag_check(context: StepContext, name: str) -> list[ChecklistEntry]:
    """Return checklist entries with the saved and the current tag of a service."""
    saved = context.load_for_rollback("pair")["tags"].get(name)
    service = context.ecs.describe_service(context.cluster, name)
    if saved is None or service is None or not service.is_active:
        return []
    expected = saved.get(VERSION_TAG, "none")
    try:
        actual = context.ecs.list_tags(service.arn).get(VERSION_TAG, "none")
    except Denied as denied:
        return [
            ChecklistEntry(
                f"Tag {VERSION_TAG} of Service {name}",
                expected,
                "not known",
                ok=True,
                note=denied.display_message,
            )
        ]
    return [ChecklistEntry(f"Tag {VERSION_TAG} of Service {name}", expected, actual, expected == actual)]


def describe_tag_restore(saved: EarlierStep, name: str) -> tuple[str, ...]:
    """Return sentences about the restore of a service's tag."""
    tags = saved.load_for_rollback("pair")["tags"].get(name)
    return (
        ()
        if tags is None
        else (f"Tag {VERSION_TAG} of Service {name}: back to {tags.get(VERSION_TAG, 'none')}",)
    )


@action
@dataclass(frozen=True)
class TagStageService(Action):
    """Tag the new service GREEN, and log its target groups (R236)."""

    has_undo = True

    update: bool = False

    @property
    def title(self) -> str:
        return "Tag the stage service"

    def start(self, context: StepContext) -> None:
        name, arn = context.get_output("serviceName"), context.get_output("serviceArn")
        context.log("")
        for group in load_traffic(context).stage_groups:
            context.log(f"Target Group with Arn: {group} is associated with Stage Service {name}")
        if write_tag(context, arn, name, GREEN):
            context.log(f"Tag: [{VERSION_TAG}, {GREEN}] is associated with Stage Service {name}")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_tag_write(context, call)

    def undo(self, context: StepContext) -> None:
        if self.update and has_existed_before(context):
            restore_tags(
                context,
                context.get_output("serviceArn"),
                context.get_output("serviceName"),
                now={VERSION_TAG: GREEN},
            )

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        return describe_tag_restore(saved, saved.get_output("serviceName")) if self.update else ()

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        return (
            build_tag_check(context, context.get_output("serviceName")) if has_existed_before(context) else []
        )


@action
@dataclass(frozen=True)
class CorrectBlueTag(Action):
    """Correct the tag of the live service where it contradicts traffic (R246)."""

    has_undo = True

    @property
    def title(self) -> str:
        return "Correct the tag of the live service"

    def start(self, context: StepContext) -> None:
        pair = context.load_for_rollback("pair")
        name = pair["blue"]
        tags = pair["tags"].get(name)
        if tags is None or tags.get(VERSION_TAG) == BLUE:
            return
        context.log(
            f"Service {name} receives production traffic, its tag {VERSION_TAG} is "
            f"{tags.get(VERSION_TAG, 'none')}"
        )
        if write_tag(context, context.load_for_rollback("blue before")["arn"], name, BLUE):
            context.log(f"Tag: [{VERSION_TAG}, {BLUE}] is associated with Service {name}")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_tag_write(context, call)

    def undo(self, context: StepContext) -> None:
        blue = context.load_for_rollback("blue before")
        restore_tags(context, blue["arn"], blue["name"], now={VERSION_TAG: BLUE})

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        return describe_tag_restore(saved, saved.load_for_rollback("pair")["blue"])

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        return build_tag_check(context, context.load_for_rollback("pair")["blue"])


@action
@dataclass(frozen=True)
class TagSwappedServices(Action):
    """Tag the new service BLUE and the old one GREEN after the swap (R238, R243)."""

    has_undo = True

    @property
    def title(self) -> str:
        return "Tag the services after the swap"

    def start(self, context: StepContext) -> None:
        pair = context.load_for_rollback("pair")
        self._tag(context, "new", pair["green"], context.get_output("serviceArn"), BLUE)
        if pair["blue"]:
            self._tag(context, "old", pair["blue"], context.load_for_rollback("blue before")["arn"], GREEN)
        context.log("Swapping Successful.", "success")

    def _tag(self, context: StepContext, role: str, name: str, arn: str, value: str) -> None:
        context.log(f"Updating tag of {role} service: {name}")
        context.log(f"Updating service: {name} with tag: [{VERSION_TAG}, {value}]")
        if write_tag(context, arn, name, value):
            context.log("Successfully updated tag")
        context.log("")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_tag_write(context, call)

    def undo(self, context: StepContext) -> None:
        pair = context.load_for_rollback("pair")
        new = context.get_output("serviceArn")
        if write_tag(context, new, pair["green"], GREEN):
            context.log(f"Tag of Service {pair['green']} is {GREEN} again")
        if pair["blue"]:
            restore_tags(
                context,
                context.load_for_rollback("blue before")["arn"],
                pair["blue"],
                now={VERSION_TAG: GREEN},
            )

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        pair = saved.load_for_rollback("pair")
        green = f"Tag {VERSION_TAG} of Service {pair['green']}: back to {GREEN}"
        return (green, *describe_tag_restore(saved, pair["blue"]))

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        blue = context.load_for_rollback("pair")["blue"]
        return build_tag_check(context, blue) if blue else []
