"""Registration, deregistration and comparison of task definitions."""

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
from steps.actions.ecs_service.confirmation import EARLIER_SERVICE_DEPLOYMENTS
from steps.actions.ecs_service.desired_count import SAVED_SERVICE
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
# Defaults that AWS fills in.
_DEFAULTS = {"cpu": 0, "essential": True, "protocol": "tcp"}


def normalize_definition(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition in a normal form, equal for equivalent definitions."""
    fields = {key: value for key, value in definition.items() if key not in _AWS_FIELDS}
    # In these network modes the host port equals the container port; elsewhere it may differ.
    is_port_shared = fields.get("networkMode") in ("awsvpc", "host")
    normalized: dict[str, Any] = _drop_defaults(fields, is_port_shared)
    return normalized


def _drop_defaults(value: Any, is_port_shared: bool) -> Any:
    if isinstance(value, Mapping):
        fields = {key: _drop_defaults(inner, is_port_shared) for key, inner in value.items()}
        if fields.get("hostPort") == (fields.get("containerPort") if is_port_shared else 0):
            fields.pop("hostPort", None)
        return {
            key: inner
            for key, inner in fields.items()
            if inner not in ({}, [], None, "") and (key not in _DEFAULTS or inner != _DEFAULTS[key])
        }
    if isinstance(value, list | tuple):
        inner = [_drop_defaults(item, is_port_shared) for item in value]
        return sorted(inner, key=_get_sort_key) if _is_named(value) else inner
    return value


def _is_named(items: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(item, Mapping) and "name" in item for item in items)


def _get_sort_key(item: Mapping[str, Any]) -> str:
    return str(item["name"])


INTENT_TAG = "slipway:intent"
# How far AWS's clock and ours may differ.
CLOCK_SKEW = timedelta(minutes=5)
_KNOWN_DEPLOYMENTS = 10
# Rollback key of the running revision that the step uses instead of registering one.
REUSED_REVISION = "reused revision"
# Rollback key of the live service beside which a canary is created.
LIVE_SERVICE = "live service before"
# Rollback keys of a revision below those that this step registers; the second is for untagged ones.
_OLDER, _OLDER_UNTAGGED = "newest revision", "newest revision before untagged"


@action
@dataclass(frozen=True)
class RegisterTaskDefinition(Action):
    """Register a new revision, tagged so that a lost answer can be confirmed (rule 9).

    `compares` logs if nothing differs from the running revision; a run that keeps unchanged tasks then reuses
    that revision. `reuses` does so in every run that may list service deployments: then the update forces a
    new deployment. `live` is the rollback key of the live service beside which the step creates another one,
    which uses the same revision if nothing differs. A step that updates such a service registers, and so does
    ECS's own strategy: there the revision identifies the deployment.
    """

    has_undo = True

    compares: bool = False
    reuses: bool = False
    live: str = ""

    @property
    def title(self) -> str:
        return "Register the task definition"

    def start(self, context: StepContext) -> None:
        definition = context.load_for_rollback("task definition")
        if arn := context.load_for_rollback(TASK_DEFINITION_ARN):
            _use_existing_revision(context, arn, definition)
            return
        family = definition["family"]
        if self.compares and _reuse_running_revision(context, definition, replaces=self.reuses):
            return
        if self.live and _use_live_revision(context, definition, self.live):
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
        if arn == saved.load_for_rollback(REUSED_REVISION):
            return ()
        return (f"Deregister task definition {arn.rsplit('/', 1)[-1]}",) if arn else ()

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        arn = context.get_output("taskDefinitionArn")
        if not arn or is_reused_revision(context, arn):
            return []
        expected = "used by no deployment of the service"
        usage = _describe_use(context, arn)
        definition = _describe(context, arn)
        state = "ACTIVE" if definition is not None and definition.is_active else "deregistered"
        actual = f"{state}, {usage or expected}"
        return [ChecklistEntry(f"Task definition {arn}", expected, actual, ok=not usage)]


def is_reused_revision(context: StepContext, arn: str) -> bool:
    """Return whether the step found this revision running, with equal content, and did not register it."""
    return bool(arn) and context.load_for_rollback(REUSED_REVISION) == arn


def _reuse_running_revision(context: StepContext, definition: Mapping[str, Any], *, replaces: bool) -> bool:
    """Reuse the running revision if nothing differs; return whether it did.

    Without `replaces`, only a run that keeps unchanged tasks reuses it.
    """
    running = _find_same_revision(context, definition, SAVED_SERVICE)
    if running is None:
        return False
    force = context.force_new_deployment
    name = f"{running.family}:{running.revision}"
    message = f"Nothing changed compared with {name}, which is running"
    if force is None:
        context.add_note(
            f"{message}. Its tasks are replaced anyway; to keep them, run with Keep tasks if nothing changed "
            "(forceNewDeployment: false)."
        )
    if force is False:
        context.add_note(f"{message}: it is reused, and its tasks are kept.")
    elif replaces and _save_service_deployments(context):
        context.log(f"Reusing revision {running.revision}: nothing changed compared with {name}")
    else:
        return False
    _use_running_revision(context, running)
    return True


def _use_live_revision(context: StepContext, definition: Mapping[str, Any], live: str) -> bool:
    """Use the revision of the live service for one beside it if nothing differs; return whether it did."""
    running = _find_same_revision(context, definition, live)
    if running is None:
        return False
    name = f"{running.family}:{running.revision}"
    context.log(f"Reusing revision {running.revision}: nothing changed compared with {name}")
    _use_running_revision(context, running)
    return True


def _use_running_revision(context: StepContext, running: TaskDefinition) -> None:
    """Use a revision that this step did not register, so that no undo deregisters it."""
    context.save_for_rollback(REUSED_REVISION, running.arn)
    _use_existing_revision(context, running.arn, running.raw)


def _save_service_deployments(context: StepContext) -> bool:
    """Save the service deployments that a lost answer is compared with; return whether they may be read."""
    name = context.load_for_rollback(SAVED_SERVICE)["name"]
    try:
        deployments = context.ecs.list_service_deployments(context.cluster, name)
    except Denied:
        return False
    newest = [deployment.arn for deployment in deployments[:_KNOWN_DEPLOYMENTS]]
    context.save_for_rollback(EARLIER_SERVICE_DEPLOYMENTS, newest)
    return True


def _find_same_revision(
    context: StepContext, definition: Mapping[str, Any], service: str
) -> TaskDefinition | None:
    """Return the revision of a saved service if it is active and equals the definition, tags included."""
    arn = _get_running_arn(context, definition["family"], service)
    if not arn or context.get_output("deploymentId"):
        return None
    try:
        running = context.ecs.describe_task_definition(arn, with_tags=True)
    except (Denied, NotFound):
        return None
    tags = {key: value for key, value in running.tags.items() if key != INTENT_TAG}
    is_same = normalize_definition(running.raw) == normalize_definition(definition) and tags == parse_tags(
        definition.get("tags")
    )
    return running if running.is_active and is_same else None


def _use_existing_revision(context: StepContext, arn: str, definition: Mapping[str, Any]) -> None:
    """Use a registered task definition: nothing is registered or deregistered (R161)."""
    context.log(f"Using Task Definition with Arn {arn}")
    context.set_outputs(
        taskDefinitionArn=arn, taskDefinitionFamily=definition["family"], version=str(definition["revision"])
    )


def deregister_task_definition(context: StepContext) -> None:
    """Deregister the revision that a step registered, unless the service still uses it.

    A failure is only logged.
    """
    arn = context.get_output("taskDefinitionArn")
    if not arn or is_reused_revision(context, arn):
        return
    try:
        usage = _describe_use(context, arn)
    except AwsError as error:
        usage = f"its usage is unknown. {error.display_message}"
    if usage:
        context.log(f"Task Definition {arn} stays registered: {usage}", "warning")
        return
    try:
        context.ecs.deregister_task_definition(arn)
        context.log(f"Deregistered Task Definition {arn}")
    except NotFound:
        context.log(f"Task Definition {arn} is already deregistered")
    except AwsError as error:
        # The revision runs nowhere, so leaving it is harmless; a failed rollback is not.
        context.log(f"Task Definition {arn} stays registered: {error.display_message}", "warning")


def _register(context: StepContext, definition: Mapping[str, Any]) -> TaskDefinition:
    """Register a revision with our tag, or without it if tagging is denied."""
    try:
        return context.ecs.register_task_definition(definition, tags={INTENT_TAG: context.intent})
    except Denied as denied:
        if "TagResource" not in denied.action:
            raise
        context.log(
            f"{denied.display_message} The task definition is registered without Slipway's tag.", "warning"
        )
        # Without the tag only contents can be compared, and an older revision may have the same.
        context.save_for_rollback(_OLDER_UNTAGGED, context.ecs.get_latest_revision(definition["family"]))
        return context.ecs.register_task_definition(definition, tags={})


def confirm_registration(context: StepContext, call: CallRecord) -> Confirmation:
    """Confirm a registration whose answer was lost."""
    late = is_past_read_lag(context, call)
    older_revision = int(
        context.load_for_rollback(_OLDER if _get_intent(call.params) else _OLDER_UNTAGGED) or 0
    )
    family = call.params["family"]
    for revision in range(context.ecs.get_latest_revision(family), older_revision, -1):
        definition = _describe(context, f"{family}:{revision}")
        if definition is not None and _is_ours(definition, call.params):
            return Applied({"taskDefinition": definition.raw, "tags": list(call.params.get("tags", []))})
        if definition is not None and _is_older(definition, call):
            break
    return NotApplied() if late else Unconfirmed()


def reregister_task_definition(context: StepContext, arn: str) -> str:
    """Register an inactive revision anew and return its ARN; AWS still describes inactive ones."""
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
    """Return a sentence on the deployment that uses a task definition; empty if none does."""
    name = context.get_output("serviceName")
    service = context.ecs.describe_service(context.cluster, name) if name else None
    for deployment in service.deployments if service is not None and service.status != "INACTIVE" else ():
        if deployment.task_definition == arn:
            return f"used by deployment {deployment.id} of Service {name}"
    return ""


def _confirm_deregistration(context: StepContext, call: CallRecord) -> Confirmation:
    late = is_past_read_lag(context, call)
    definition = _describe(context, call.params["taskDefinition"])
    if definition is None or not definition.is_active:
        return Applied({"taskDefinition": definition.raw if definition else {}})
    return NotApplied() if late else Unconfirmed()


def _describe(context: StepContext, name: str) -> TaskDefinition | None:
    try:
        return context.ecs.describe_task_definition(name, with_tags=True)
    except NotFound:
        return None


def _find_older_revision(context: StepContext, family: str) -> int:
    """Return a revision older than any that this step registers: the running one, else the newest."""
    if running := _get_running_arn(context, family):
        return int(running.rpartition(":")[2])
    return context.ecs.get_latest_revision(family)


def _get_running_arn(context: StepContext, family: str, service: str = SAVED_SERVICE) -> str:
    """Return the ARN of this family's revision that a saved service ran; empty if it ran none."""
    before = context.load_for_rollback(service) or {}
    arn = str(before.get("task_definition") or "")
    name, _, revision = arn.rpartition("/")[2].rpartition(":")
    is_live = name == family and revision.isdecimal() and before.get("status") == "ACTIVE"
    return arn if is_live else ""


def _get_intent(params: Mapping[str, Any]) -> str | None:
    return next((tag["value"] for tag in params.get("tags", []) if tag["key"] == INTENT_TAG), None)


def _is_older(definition: TaskDefinition, call: CallRecord) -> bool:
    """Return whether a revision was registered well before the call, so that ours is newer."""
    try:
        registered_at = datetime.fromisoformat(str(definition.raw.get("registeredAt")))
        return registered_at < call.sent_at - CLOCK_SKEW
    except (ValueError, TypeError):
        return False


def _is_ours(definition: TaskDefinition, params: Mapping[str, Any]) -> bool:
    if intent := _get_intent(params):
        return bool(definition.tags.get(INTENT_TAG) == intent)
    # Tagging was denied, so contents are the only evidence. AWS adds keys but changes none.
    return all(_contains(definition.raw.get(key), value) for key, value in params.items() if key != "tags")


def _contains(actual: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            _contains(actual.get(key), value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return False
        return all(
            _contains(part, expected_part) for part, expected_part in zip(actual, expected, strict=True)
        )
    return bool(actual == expected)
