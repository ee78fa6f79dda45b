"""Action that sets the tags of the service definition on an ECS service."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws.apis.ecs_types import parse_tags
from aws.errors import Denied
from steps.actions.base import Action, ChecklistEntry, action
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

_SAVED_TAGS = "service tags before"


@action
@dataclass(frozen=True)
class TagService(Action):
    """Add the tags of its definition to an ECS service that existed before; other tags stay."""

    has_undo = True

    @property
    def title(self) -> str:
        return "Tag the ECS service"

    def start(self, context: StepContext) -> None:
        tags = _get_definition_tags(context)
        if not tags or not has_existed_before(context):
            return
        arn = context.get_output("serviceArn")
        try:
            before = context.ecs.list_tags(arn)
            context.save_for_rollback(_SAVED_TAGS, before)
            missing = {key: value for key, value in tags.items() if before.get(key) != value}
            if missing:
                context.ecs.add_tags(arn, missing)
                context.log(
                    f"Tagged Service {context.get_output('serviceName')} with {', '.join(sorted(missing))}"
                )
        except Denied as denied:
            context.log(f"{denied.display_message} The tags of the service are not changed.", "warning")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        late = is_past_read_lag(context, call)
        now = context.ecs.list_tags(call.params["resourceArn"])
        if call.operation == "UntagResource":
            is_applied = not set(call.params["tagKeys"]) & set(now)
        else:
            is_applied = all(now.get(key) == value for key, value in parse_tags(call.params["tags"]).items())
        return Applied({}) if is_applied else NotApplied() if late else Unconfirmed()

    def undo(self, context: StepContext) -> None:
        arn, tags = context.get_output("serviceArn"), _get_definition_tags(context)
        before: Mapping[str, str] = context.load_for_rollback(_SAVED_TAGS) or {}
        changed = {key: before[key] for key, value in tags.items() if before.get(key, value) != value}
        added = sorted(key for key in tags if key not in before)
        if changed:
            context.ecs.add_tags(arn, changed)
        if added:
            context.ecs.remove_tags(arn, added)
        context.log(f"The tags of Service {context.get_output('serviceName')} are restored")

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        return (
            f"Tags of Service {saved.get_output('serviceName')}: back to "
            f"{_format_tags(saved.load_for_rollback(_SAVED_TAGS) or {})}",
        )

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        before: Mapping[str, str] = context.load_for_rollback(_SAVED_TAGS) or {}
        now = context.ecs.list_tags(context.get_output("serviceArn"))
        # Of the tags that the step has set or found: others may have added more since.
        keys = {*before, *_get_definition_tags(context)}
        actual = _format_tags({key: value for key, value in now.items() if key in keys})
        expected = _format_tags(before)
        return [
            ChecklistEntry(
                f"Tags of Service {context.get_output('serviceName')}", expected, actual, expected == actual
            )
        ]


def _get_definition_tags(context: StepContext) -> dict[str, str]:
    return parse_tags(context.load_for_rollback("service definition").get("tags"))


def _format_tags(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(tags.items())) or "none"
