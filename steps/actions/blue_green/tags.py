"""The actions that tag which ECS service is live: tags explain, they never decide against traffic (R238)."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws.errors import Denied
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
from steps.actions.blue_green.identity import BLUE, GREEN, TAG
from steps.actions.blue_green.traffic import traffic_of
from steps.actions.known_service import existed_before
from steps.actions.timing import is_old_enough_to_deny


def adopt_tags(rollout: Rollout, call: CallRecord) -> Verdict:
    """Whether a TagResource or UntagResource took effect."""
    late = is_old_enough_to_deny(rollout, call)
    try:
        tags = rollout.ecs.tags(call.params["resourceArn"])
    except Denied:
        return DidNot()  # The same tag twice is the same tag.
    wanted = {tag["key"]: tag["value"] for tag in call.params.get("tags", ())}
    has_all = all(tags.get(key) == value for key, value in wanted.items())
    if has_all and not any(key in tags for key in call.params.get("tagKeys", ())):
        return Happened({})
    return DidNot() if late else AskAgain()


def write_tag(rollout: Rollout, arn: str, name: str, value: str) -> bool:
    """Tag a service; where that is denied, say so and go on: traffic decides, not the tag."""
    try:
        rollout.ecs.tag(arn, {TAG: value})
    except Denied as denied:
        rollout.log(
            f"{denied.sentence} Service {name} stays without tag [{TAG}, {value}]; Slipway goes by traffic.",
            "warning",
        )
        return False
    return True


def put_back_tags(rollout: Rollout, arn: str, name: str, now: Mapping[str, str]) -> None:
    """Make the tag of a service what it was when the deployment began; `now` is what it is."""
    known = rollout.recall("pair")["tags"].get(name)
    if known is None:
        return
    try:
        if not now:  # A service made anew has none of its tags.
            _tag_all(rollout, arn, known)
        elif TAG in known:
            rollout.ecs.tag(arn, {TAG: known[TAG]})
        else:
            rollout.ecs.untag(arn, [TAG])
    except Denied as denied:
        rollout.log(f"{denied.sentence} The tags of Service {name} are not as before.", "warning")
        return
    rollout.log(f"Tag of Service {name} is as before: {known.get(TAG, 'none')}")


def _tag_all(rollout: Rollout, arn: str, tags: Mapping[str, str]) -> None:
    if tags:
        rollout.ecs.tag(arn, tags)


def tag_check(rollout: Rollout, name: str) -> list[Check]:
    """The tag of a service before, beside what it is now."""
    known = rollout.recall("pair")["tags"].get(name)
    service = rollout.ecs.describe_service(rollout.cluster, name)
    if known is None or service is None or not service.is_active:
        return []
    expected = known.get(TAG, "none")
    try:
        found = rollout.ecs.tags(service.arn).get(TAG, "none")
    except Denied as denied:
        return [Check(f"Tag {TAG} of Service {name}", expected, "not known", ok=True, note=denied.sentence)]
    return [Check(f"Tag {TAG} of Service {name}", expected, found, expected == found)]


def tag_words(known: Earlier, name: str) -> tuple[str, ...]:
    """What putting the tag of a service back comes to, for a person who decides about it."""
    tags = known.recall("pair")["tags"].get(name)
    return () if tags is None else (f"Tag {TAG} of Service {name}: back to {tags.get(TAG, 'none')}",)


@action
@dataclass(frozen=True)
class TagStageService(Action):
    """Tag the new service GREEN, and say in which target group it is (R236)."""

    has_undo = True

    update: bool = False

    @property
    def title(self) -> str:
        return "Tag the stage service"

    def start(self, rollout: Rollout) -> None:
        name, arn = rollout.know("serviceName"), rollout.know("serviceArn")
        rollout.log("")
        for group in traffic_of(rollout).stage_groups:
            rollout.log(f"Target Group with Arn: {group} is associated with Stage Service {name}")
        if write_tag(rollout, arn, name, GREEN):
            rollout.log(f"Tag: [{TAG}, {GREEN}] is associated with Stage Service {name}")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_tags(rollout, call)

    def undo(self, rollout: Rollout) -> None:
        if self.update and existed_before(rollout):
            put_back_tags(rollout, rollout.know("serviceArn"), rollout.know("serviceName"), now={TAG: GREEN})

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        return tag_words(known, known.know("serviceName")) if self.update else ()

    def checklist(self, rollout: Rollout) -> list[Check]:
        return tag_check(rollout, rollout.know("serviceName")) if existed_before(rollout) else []


@action
@dataclass(frozen=True)
class CorrectBlueTag(Action):
    """Where traffic shows a service to be live and its tag does not, correct the tag (R246)."""

    has_undo = True

    @property
    def title(self) -> str:
        return "Correct the tag of the live service"

    def start(self, rollout: Rollout) -> None:
        pair = rollout.recall("pair")
        name = pair["blue"]
        known = pair["tags"].get(name)
        if known is None or known.get(TAG) == BLUE:
            return
        rollout.log(f"Service {name} receives production traffic, its tag {TAG} is {known.get(TAG, 'none')}")
        if write_tag(rollout, rollout.recall("blue before")["arn"], name, BLUE):
            rollout.log(f"Tag: [{TAG}, {BLUE}] is associated with Service {name}")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_tags(rollout, call)

    def undo(self, rollout: Rollout) -> None:
        blue = rollout.recall("blue before")
        put_back_tags(rollout, blue["arn"], blue["name"], now={TAG: BLUE})

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        return tag_words(known, known.recall("pair")["blue"])

    def checklist(self, rollout: Rollout) -> list[Check]:
        return tag_check(rollout, rollout.recall("pair")["blue"])


@action
@dataclass(frozen=True)
class TagSwappedServices(Action):
    """After the swap the new service is BLUE and the one from before is GREEN (R238, R243)."""

    has_undo = True

    @property
    def title(self) -> str:
        return "Tag the services after the swap"

    def start(self, rollout: Rollout) -> None:
        pair = rollout.recall("pair")
        self._tag(rollout, "new", pair["green"], rollout.know("serviceArn"), BLUE)
        if pair["blue"]:
            self._tag(rollout, "old", pair["blue"], rollout.recall("blue before")["arn"], GREEN)
        rollout.log("Swapping Successful.", "success")

    def _tag(self, rollout: Rollout, which: str, name: str, arn: str, value: str) -> None:
        rollout.log(f"Updating tag of {which} service: {name}")
        rollout.log(f"Updating service: {name} with tag: [{TAG}, {value}]")
        if write_tag(rollout, arn, name, value):
            rollout.log("Successfully updated tag")
        rollout.log("")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_tags(rollout, call)

    def undo(self, rollout: Rollout) -> None:
        pair = rollout.recall("pair")
        new = rollout.know("serviceArn")
        if write_tag(rollout, new, pair["green"], GREEN):
            rollout.log(f"Tag of Service {pair['green']} is {GREEN} again")
        if pair["blue"]:
            put_back_tags(rollout, rollout.recall("blue before")["arn"], pair["blue"], now={TAG: GREEN})

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        pair = known.recall("pair")
        green = f"Tag {TAG} of Service {pair['green']}: back to {GREEN}"
        return (green, *tag_words(known, pair["blue"]))

    def checklist(self, rollout: Rollout) -> list[Check]:
        blue = rollout.recall("pair")["blue"]
        return tag_check(rollout, blue) if blue else []
