"""The action that gives an ECS service the tags of its definition, which no update takes."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws.errors import Denied
from aws.types import tags_from_aws
from steps.actions.base import (
    Action,
    AskAgain,
    CallRecord,
    Check,
    DidNot,
    Earlier,
    Happened,
    Rollout,
    Verdict,
    action,
)
from steps.actions.known_service import existed_before
from steps.actions.timing import is_old_enough_to_deny

_MEMORY = "service tags before"


@action
@dataclass(frozen=True)
class TagService(Action):
    """Tag an ECS service that existed before as its definition says; tags that it does not name stay."""

    has_undo = True

    @property
    def title(self) -> str:
        return "Tag the ECS service"

    def start(self, rollout: Rollout) -> None:
        wanted = _wanted(rollout)
        if not wanted or not existed_before(rollout):
            return
        arn = rollout.know("serviceArn")
        try:
            before = rollout.ecs.tags(arn)
            rollout.remember(_MEMORY, before)
            missing = {key: value for key, value in wanted.items() if before.get(key) != value}
            if missing:
                rollout.ecs.tag(arn, missing)
                rollout.log(f"Tagged Service {rollout.know('serviceName')} with {', '.join(sorted(missing))}")
        except Denied as denied:
            rollout.log(f"{denied.sentence} The tags of the service stay as they are.", "warning")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        late = is_old_enough_to_deny(rollout, call)
        now = rollout.ecs.tags(call.params["resourceArn"])
        if call.operation == "UntagResource":
            is_so = not set(call.params["tagKeys"]) & set(now)
        else:
            is_so = all(now.get(key) == value for key, value in tags_from_aws(call.params["tags"]).items())
        return Happened({}) if is_so else DidNot() if late else AskAgain()

    def undo(self, rollout: Rollout) -> None:
        arn, wanted = rollout.know("serviceArn"), _wanted(rollout)
        before: Mapping[str, str] = rollout.recall(_MEMORY) or {}
        changed = {key: before[key] for key, value in wanted.items() if before.get(key, value) != value}
        added = sorted(key for key in wanted if key not in before)
        if changed:
            rollout.ecs.tag(arn, changed)
        if added:
            rollout.ecs.untag(arn, added)
        rollout.log(f"The tags of Service {rollout.know('serviceName')} are as they were before")

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        return (
            f"Tags of Service {known.know('serviceName')}: back to {_words(known.recall(_MEMORY) or {})}",
        )

    def checklist(self, rollout: Rollout) -> list[Check]:
        before: Mapping[str, str] = rollout.recall(_MEMORY) or {}
        now = rollout.ecs.tags(rollout.know("serviceArn"))
        expected, found = _words(before), _words(now)
        return [Check(f"Tags of Service {rollout.know('serviceName')}", expected, found, expected == found)]


def _wanted(rollout: Rollout) -> dict[str, str]:
    return tags_from_aws(rollout.recall("service definition").get("tags"))


def _words(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(tags.items())) or "none"
