"""Documents of a preview: planned writes, task definition diffs, IAM permissions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from aws.apis.iam import IamClient, IamDecision, StsClient, parse_principal_arn
from aws.errors import AwsError, Denied, NotFound
from aws.operations import list_required_actions
from aws.policies import IamPolicy, get_action_purpose, get_policy_title, list_policies
from aws.preview import PlannedCall, PreviewCaller, PreviewLimitReached
from delegates.access.aws_access import ConnectorUnavailable
from deployments.preview.change_summaries import summarize_write
from deployments.preview.dry_run import PreviewedStep, PreviewFailure
from guards.masks import EMPTY_MASK, HIDDEN, SecretMask, redact_parameters, redact_sensitive_options
from policies.evaluation import Violation
from steps.actions.ecs_service.snapshots import GONE_STATUSES
from steps.actions.non_aws_calls import DELEGATE_SERVICE
from steps.actions.task_definitions import normalize_definition
from web.text_diffs import TextDiff, compare_texts

_WORST_FIRST = (IamDecision.DENIED, IamDecision.UNKNOWN, IamDecision.ALLOWED)


def check_permissions(steps: Sequence[PreviewedStep]) -> tuple[dict[str, IamDecision], list[str]]:
    """Return IAM's decision on each action, the worst of several principals, and reasons for missing ones."""
    decisions_by_action: dict[str, list[IamDecision]] = {}
    reasons: list[str] = []
    for caller in {id(step.caller): step.caller for step in steps if step.calls}.values():
        required = list_required_actions(
            (call.service, call.operation, call.params)
            for call in caller.calls
            if call.service != DELEGATE_SERVICE
        )
        simulated, reason = _simulate_policies(caller, required)
        reasons += [reason] if reason else []
        for action in required:
            decisions_by_action.setdefault(action, []).append(simulated.get(action, IamDecision.UNKNOWN))
    return {
        action: _get_worst_decision(decisions) for action, decisions in decisions_by_action.items()
    }, reasons


def _simulate_policies(
    caller: PreviewCaller, actions: Sequence[str]
) -> tuple[Mapping[str, IamDecision], str]:
    try:
        identity = StsClient(caller.live_caller).get_identity().arn
        principal = parse_principal_arn(identity)
        if not principal:
            return {}, f"IAM cannot be asked about {identity}: it is neither a user nor a role."
        return IamClient(caller.live_caller).simulate_actions(principal, actions), ""
    except Denied as denied:
        return {}, f"IAM could not be asked what is allowed: {denied.action} is not."
    except AwsError as error:
        return {}, f"IAM could not be asked what is allowed: {error.display_message}"
    except (ConnectorUnavailable, PreviewLimitReached) as stopped:
        return {}, f"IAM was not asked what is allowed: {stopped}"


def _get_worst_decision(decisions: Iterable[IamDecision]) -> IamDecision:
    unique = set(decisions)
    return next(decision for decision in _WORST_FIRST if decision in unique)


_VALUES = ("environment", "environmentFiles")


def compare_task_definitions(
    old: Mapping[str, Any], new: Mapping[str, Any], mask: SecretMask = EMPTY_MASK
) -> TextDiff:
    """Return the difference of two task definitions in normal form, with values redacted."""
    before, after = normalize_definition(old), normalize_definition(new)
    changed = _list_changed_values(before, after)
    return compare_texts(
        _format_json(mask.mask_json(_redact_definition(before, frozenset()))),
        _format_json(mask.mask_json(_redact_definition(after, changed))),
    )


def find_live_definition(step: PreviewedStep, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the live task definition of the family, else its newest revision.

    Empty if there is none. Raises `AwsError`.
    """
    family = params["family"]
    snapshots = [step.step_data.load_for_rollback(name) or {} for name in ("blue before", "service before")]
    running = [
        str(item.get("task_definition", "")) for item in snapshots if item.get("status") not in GONE_STATUSES
    ]
    name = next((item for item in running if f"/{family}:" in item), family)
    try:
        answer = step.caller.live_caller.call("ecs", "DescribeTaskDefinition", {"taskDefinition": name})
    except NotFound:
        return {}
    return dict(answer.get("taskDefinition", {}))


RedactedValues = dict[tuple[str, str, str], Any]


def _list_changed_values(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> frozenset[tuple[str, str, str]]:
    old, new = _collect_values(before), _collect_values(after)
    return frozenset(key for key, value in new.items() if key in old and old[key] != value)


def _collect_values(definition: Mapping[str, Any]) -> RedactedValues:
    return {
        (container.get("name", ""), kind, variable.get("name", "")): variable.get("value")
        for container in definition.get("containerDefinitions", ())
        for kind in _VALUES
        for variable in container.get(kind, ())
        if isinstance(variable, Mapping)
    }


def _redact_definition(
    definition: Mapping[str, Any], changed: frozenset[tuple[str, str, str]]
) -> dict[str, Any]:
    containers = [
        {
            key: [
                _redact_value(variable, (container.get("name", ""), key, variable.get("name", "")) in changed)
                for variable in value
            ]
            if key in _VALUES
            else redact_sensitive_options(value)
            if key == "logConfiguration"
            else value
            for key, value in container.items()
        }
        for container in definition.get("containerDefinitions", ())
    ]
    return {**definition, **({"containerDefinitions": containers} if containers else {})}


def _redact_value(item: Mapping[str, Any], is_changed: bool) -> dict[str, Any]:
    return {**item, "value": f"{HIDDEN} (changed)" if is_changed else HIDDEN}


def _format_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str) if value else ""


@dataclass(frozen=True)
class PreviewedCall:
    """A write with redacted environment values."""

    service: str
    operation: str
    params: dict[str, Any]
    change: str

    @property
    def text(self) -> str:
        """Return the parameters as indented JSON."""
        return json.dumps(self.params, indent=2, ensure_ascii=False, default=str)

    def to_json(self) -> dict[str, Any]:
        return {"service": self.service, "operation": self.operation, "params": self.params}


@dataclass(frozen=True)
class DefinitionDiff:
    """Difference of a new task definition to the running one; `old` is empty if none runs."""

    old: str
    new: str
    diff: TextDiff

    @property
    def unified(self) -> str:
        return (
            f"--- {self.old or '/dev/null'}\n+++ {self.new}\n{self.diff.unified}" if self.diff.hunks else ""
        )


@dataclass(frozen=True)
class PreviewedStepDetails:
    """Preview of one step."""

    identifier: str
    name: str
    type: str
    stage: str
    calls: tuple[PreviewedCall, ...]
    diffs: tuple[DefinitionDiff, ...]
    permissions: tuple[str, ...]
    reads: tuple[str, ...]
    log: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    failure: PreviewFailure | None
    is_reached: bool
    skipped: str = ""
    """Reason why it is skipped."""
    depends: tuple[str, ...] = ()
    """Conditions that only a run can evaluate."""

    @property
    def changes(self) -> list[str]:
        """Return the writes as sentences."""
        return [call.change for call in self.calls if call.change]

    def to_json(self) -> dict[str, Any]:
        return {
            "identifier": self.identifier,
            "name": self.name,
            "type": self.type,
            "stage": self.stage,
            "calls": [call.to_json() for call in self.calls],
            "diff": "\n".join(difference.unified for difference in self.diffs if difference.unified),
            "permissions": list(self.permissions),
            "changes": self.changes,
            "reads": list(self.reads),
            "log": [{"level": level, "text": text} for level, text in self.log],
            "warnings": list(self.warnings),
            "failure": asdict(self.failure) if self.failure else None,
            "reached": self.is_reached,
            "skipped": self.skipped,
            "depends": list(self.depends),
        }


@dataclass(frozen=True)
class PreviewedPermission:
    """Required IAM action with IAM's decision: allowed, denied or unknown."""

    action: str
    purpose: str
    policy: str
    allowed: str


@dataclass(frozen=True)
class PreviewDetails:
    """Preview of a run, and the permissions that its connectors' principals need."""

    artifact: dict[str, str]
    steps: tuple[PreviewedStepDetails, ...]
    permissions: tuple[PreviewedPermission, ...]
    unchecked_reasons: tuple[str, ...] = ()
    """Reasons for permissions without a decision."""
    policy_violations: tuple[Violation, ...] = ()
    """Policy rules that a run would violate."""

    @property
    def policies(self) -> tuple[IamPolicy, ...]:
        """Return the policies that contain these permissions."""
        return list_policies(permission.action for permission in self.permissions)

    @property
    def is_complete(self) -> bool:
        """Return whether no step fails in the preview."""
        return all(step.failure is None for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        return {
            "artifact": self.artifact,
            "complete": self.is_complete,
            "steps": [step.to_json() for step in self.steps],
            "permissions": [asdict(item) for item in self.permissions],
            "unasked": list(self.unchecked_reasons),
            "policies": [item.identifier for item in self.policies],
            "policy_violations": [violation.to_json() for violation in self.policy_violations],
        }


def build_preview_details(artifact: dict[str, str], steps: Sequence[PreviewedStep]) -> PreviewDetails:
    """Return the preview of all steps with IAM's decisions on their actions."""
    details = tuple(build_step_details(step) for step in steps)
    decisions, unchecked_reasons = check_permissions(steps)
    required = sorted({action for step in details for action in step.permissions})
    permissions = tuple(
        PreviewedPermission(
            action,
            get_action_purpose(action),
            get_policy_title(action),
            decisions.get(action, IamDecision.UNKNOWN),
        )
        for action in required
    )
    return PreviewDetails(artifact, details, permissions, tuple(unchecked_reasons))


def build_step_details(step: PreviewedStep) -> PreviewedStepDetails:
    """Return the preview of a step, with its task definitions compared with the running ones."""
    diffs, unread_notes = _build_diffs(step)
    warnings = [text for level, text in step.step_data.lines if level == "warning"]
    return PreviewedStepDetails(
        identifier=step.step.identifier,
        name=step.step.name,
        type=step.step.type,
        stage=step.step.stage.identifier,
        calls=tuple(_build_call(call, step.mask) for call in step.writes),
        diffs=diffs,
        permissions=tuple(
            list_required_actions(
                (call.service, call.operation, call.params)
                for call in step.calls
                if call.service != DELEGATE_SERVICE
            )
        ),
        reads=tuple(sorted({f"{call.service}:{call.operation}" for call in step.calls if not call.is_write})),
        log=tuple(step.step_data.lines),
        warnings=(*map(step.mask.mask_text, (*step.warnings, *unread_notes)), *warnings),
        failure=_mask_failure(step),
        is_reached=step.is_reached,
        skipped=step.verdict.skipped,
        depends=step.verdict.run_conditions,
    )


def _mask_failure(step: PreviewedStep) -> PreviewFailure | None:
    failure = step.failure
    return replace(failure, message=step.mask.mask_text(failure.message)) if failure else None


def _build_call(call: PlannedCall, mask: SecretMask) -> PreviewedCall:
    change = mask.mask_text(summarize_write(call))
    return PreviewedCall(call.service, call.operation, redact_parameters(call.params, mask), change)


def _build_diffs(step: PreviewedStep) -> tuple[tuple[DefinitionDiff, ...], list[str]]:
    """Return the diffs of registered task definitions, and sentences about unreadable ones."""
    diffs, unread_notes = [], []
    for call in step.writes:
        if call.operation != "RegisterTaskDefinition":
            continue
        family = call.params["family"]
        try:
            live = find_live_definition(step, call.params)
        except (AwsError, PreviewLimitReached) as error:
            unread_notes.append(
                f"Nothing is compared with the task definition {family} that runs now: {error}"
            )
            continue
        name, diff = step.mask.mask_text(family), compare_task_definitions(live, call.params, step.mask)
        old = f"{name}:{live.get('revision', '?')}" if live else ""
        diffs.append(DefinitionDiff(old, f"{name} (new)", diff))
    return tuple(diffs), unread_notes
