"""Registration, deregistration and normal form of task definitions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aws.apis.ecs_types import TaskDefinition, format_tags, parse_tags
from aws.errors import AwsError, Denied, NotFound
from aws.shapes import get_parameter_names
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
from steps.actions.manifests import TASK_DEFINITION_ARN

_AWS_FIELDS = (
    "taskDefinitionArn",
    "revision",
    "status",
    "requiresAttributes",
    "compatibilities",
    "registeredAt",
    "registeredBy",
    "deregisteredAt",
    "tags",
)
# What AWS fills in where nothing was said.
_DEFAULTS = {"cpu": 0, "essential": True, "protocol": "tcp"}


def normalize_definition(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition as two that mean the same both are."""
    kept = {key: value for key, value in definition.items() if key not in _AWS_FIELDS}
    # Where tasks have addresses of their own, a container's port is the host's; elsewhere it is a choice.
    is_same = kept.get("networkMode") in ("awsvpc", "host")
    plain: dict[str, Any] = _drop_defaults(kept, is_same)
    return plain


def _drop_defaults(value: Any, is_same: bool) -> Any:
    if isinstance(value, Mapping):
        found = {key: _drop_defaults(inner, is_same) for key, inner in value.items()}
        if found.get("hostPort") == (found.get("containerPort") if is_same else 0):
            found.pop("hostPort", None)
        return {
            key: inner
            for key, inner in found.items()
            if inner not in ({}, [], None, "") and (key not in _DEFAULTS or inner != _DEFAULTS[key])
        }
    if isinstance(value, list | tuple):
        inner = [_drop_defaults(one, is_same) for one in value]
        return sorted(inner, key=_get_sort_key) if _is_named(value) else inner
    return value


def _is_named(items: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(item, Mapping) and "name" in item for item in items)


def _get_sort_key(item: Mapping[str, Any]) -> str:
    return str(item["name"])


INTENT_TAG = "slipway:intent"
# How far AWS's clock and ours may differ.
CLOCK_SKEW = timedelta(minutes=5)
# Remembered: a revision below those that this step registers; without our tag, the newest before it.
_OLDER, _OLDER_UNTAGGED = "newest revision", "newest revision before untagged"


@action
@dataclass(frozen=True)
class RegisterTaskDefinition(Action):
    """Register a revision, always a new one, tagged so that a lost answer can be found again (rule 9).

    With `compares` it says where nothing differs from the revision that the ECS service runs; a run that
    asks not to replace tasks then goes on with that one.
    """

    has_undo = True

    compares: bool = False

    @property
    def title(self) -> str:
        return "Register the task definition"

    def start(self, context: StepContext) -> None:
        definition = context.load_for_rollback("task definition")
        if arn := context.load_for_rollback(TASK_DEFINITION_ARN):
            _use_existing_revision(context, arn, definition)
            return
        family = definition["family"]
        if self.compares and _reuse_running_revision(context, definition):
            return
        context.log(f"Creating Task Definition with family {family}")
        # Saved before the write, so that confirm knows which revisions can be ours.
        context.save_for_rollback(_OLDER, _find_older_revision(context, family))
        registered = _register(context, definition)
        context.log(f"Created Task Definition {family}:{registered.revision} with Arn {registered.arn}..")
        context.set_outputs(
            taskDefinitionArn=registered.arn, taskDefinitionFamily=family, version=str(registered.revision)
        )

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        if call.operation != "RegisterTaskDefinition":
            return _confirm_deregistration(context, call)
        return confirm_registration(context, call)

    def undo(self, context: StepContext) -> None:
        deregister_task_definition(context)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        arn = saved.get_output("taskDefinitionArn")
        return (f"Deregister task definition {arn.rsplit('/', 1)[-1]}",) if arn else ()

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        arn = context.get_output("taskDefinitionArn")
        if not arn:
            return []
        expected = "used by no deployment of the service"
        used = _describe_use(context, arn)
        found = _describe(context, arn)
        state = "ACTIVE" if found is not None and found.is_active else "deregistered"
        words = f"{state}, {used or expected}"
        return [ChecklistEntry(f"Task definition {arn}", expected, words, ok=not used)]


def _reuse_running_revision(context: StepContext, definition: Mapping[str, Any]) -> bool:
    """Whether the revision that runs is used again, because nothing differs; says what becomes of tasks."""
    arn = _get_running_arn(context, definition["family"])
    force = context.force_new_deployment
    if not arn or context.get_output("deploymentId"):
        return False
    try:
        running = context.ecs.describe_task_definition(arn, with_tags=True)
    except (Denied, NotFound):
        return False
    tags = {key: value for key, value in running.tags.items() if key != INTENT_TAG}
    is_same = normalize_definition(running.raw) == normalize_definition(definition) and tags == parse_tags(
        definition.get("tags")
    )
    if not running.is_active or not is_same:
        return False
    same = f"Nothing changed compared with {running.family}:{running.revision}, which is running"
    if force is False:
        context.add_note(f"{same}: it is reused, and its tasks are kept.")
        _use_existing_revision(context, arn, running.raw)
        return True
    if force is None:
        context.add_note(
            f"{same}. Its tasks are replaced anyway; run with forceNewDeployment: false to keep them."
        )
    return False


def _use_existing_revision(context: StepContext, arn: str, definition: Mapping[str, Any]) -> None:
    """AWS has the task definition already: nothing is registered, and nothing will be deregistered (R161)."""
    context.log(f"Using Task Definition with Arn {arn}")
    context.set_outputs(
        taskDefinitionArn=arn, taskDefinitionFamily=definition["family"], version=str(definition["revision"])
    )


def deregister_task_definition(context: StepContext) -> None:
    """Make the revision that a step registered inactive, unless the service still uses it.

    Where that fails, say so and go on.
    """
    arn = context.get_output("taskDefinitionArn")
    if not arn:
        return
    try:
        used = _describe_use(context, arn)
    except AwsError as error:
        used = f"its usage is unknown. {error.display_message}"
    if used:
        context.log(f"Task Definition {arn} stays registered: {used}", "warning")
        return
    try:
        context.ecs.deregister_task_definition(arn)
        context.log(f"Deregistered Task Definition {arn}")
    except NotFound:
        context.log(f"Task Definition {arn} is already deregistered")
    except AwsError as error:
        # The revision runs nowhere; leaving it behind harms nobody, a failed rollback would.
        context.log(f"Task Definition {arn} stays registered: {error.display_message}", "warning")


def _register(context: StepContext, definition: Mapping[str, Any]) -> TaskDefinition:
    """Register a revision with our tag, or without it where tagging is denied."""
    try:
        return context.ecs.register_task_definition(definition, tags={INTENT_TAG: context.intent})
    except Denied as denied:
        if "TagResource" not in denied.action:
            raise
        context.log(
            f"{denied.display_message} The task definition is registered without Slipway's tag.", "warning"
        )
        # Without the tag only contents tell, and an older revision may have the same.
        context.save_for_rollback(_OLDER_UNTAGGED, context.ecs.get_latest_revision(definition["family"]))
        return context.ecs.register_task_definition(definition, tags={})


def confirm_registration(context: StepContext, call: CallRecord) -> Confirmation:
    """Return whether a registration whose answer was lost took effect."""
    late = is_past_read_lag(context, call)
    older = int(context.load_for_rollback(_OLDER if _get_intent(call.params) else _OLDER_UNTAGGED) or 0)
    family = call.params["family"]
    for revision in range(context.ecs.get_latest_revision(family), older, -1):
        found = _describe(context, f"{family}:{revision}")
        if found is not None and _is_ours(found, call.params):
            return Applied({"taskDefinition": found.raw, "tags": list(call.params.get("tags", []))})
        if found is not None and _is_older(found, call):
            break
    return NotApplied() if late else Unconfirmed()


def reregister_task_definition(context: StepContext, arn: str) -> str:
    """Register what an inactive revision says as a new one; its ARN. AWS still describes inactive ones."""
    old = context.ecs.describe_task_definition(arn, with_tags=True)
    fields = get_parameter_names("ecs", "RegisterTaskDefinition")
    definition = {
        key: value for key, value in old.raw.items() if key in fields and value not in (None, [], "")
    }
    definition["tags"] = format_tags({key: value for key, value in old.tags.items() if key != INTENT_TAG})
    context.save_for_rollback(_OLDER, context.ecs.get_latest_revision(old.family))
    registered = _register(context, definition)
    context.add_note(
        f"Task Definition {arn} was deregistered outside Slipway. The rollback registered it again as "
        f"{registered.arn}"
    )
    return registered.arn


def _describe_use(context: StepContext, arn: str) -> str:
    """Which deployment of the step's ECS service uses a task definition, in words; empty if none does."""
    name = context.get_output("serviceName")
    service = context.ecs.describe_service(context.cluster, name) if name else None
    for deployment in service.deployments if service is not None and service.status != "INACTIVE" else ():
        if deployment.task_definition == arn:
            return f"used by deployment {deployment.id} of Service {name}"
    return ""


def _confirm_deregistration(context: StepContext, call: CallRecord) -> Confirmation:
    late = is_past_read_lag(context, call)
    found = _describe(context, call.params["taskDefinition"])
    if found is None or not found.is_active:
        return Applied({"taskDefinition": found.raw if found else {}})
    return NotApplied() if late else Unconfirmed()


def _describe(context: StepContext, name: str) -> TaskDefinition | None:
    try:
        return context.ecs.describe_task_definition(name, with_tags=True)
    except NotFound:
        return None


def _find_older_revision(context: StepContext, family: str) -> int:
    """Return a revision that is older than any this step registers: the one that runs, else the newest."""
    if running := _get_running_arn(context, family):
        return int(running.rpartition(":")[2])
    return context.ecs.get_latest_revision(family)


def _get_running_arn(context: StepContext, family: str) -> str:
    """The ARN of the revision of this family that the ECS service ran when the step began; or nothing."""
    before = context.load_for_rollback("service before") or {}
    arn = str(before.get("task_definition") or "")
    name, _, revision = arn.rpartition("/")[2].rpartition(":")
    is_live = name == family and revision.isdecimal() and before.get("status") == "ACTIVE"
    return arn if is_live else ""


def _get_intent(params: Mapping[str, Any]) -> str | None:
    return next((tag["value"] for tag in params.get("tags", []) if tag["key"] == INTENT_TAG), None)


def _is_older(found: TaskDefinition, call: CallRecord) -> bool:
    """Whether a revision was registered well before the call was sent, so that ours is none below it."""
    try:
        registered = datetime.fromisoformat(str(found.raw.get("registeredAt")))
        return registered < call.sent_at - CLOCK_SKEW
    except (ValueError, TypeError):
        return False


def _is_ours(found: TaskDefinition, params: Mapping[str, Any]) -> bool:
    if intent := _get_intent(params):
        return bool(found.tags.get(INTENT_TAG) == intent)
    # Tagging was denied: contents are the only evidence. AWS adds keys, it changes none that was given.
    return all(_contains(found.raw.get(key), value) for key, value in params.items() if key != "tags")


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(_contains(found.get(k), v) for k, v in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return False
        return all(_contains(f, w) for f, w in zip(found, wanted, strict=True))
    return bool(found == wanted)
