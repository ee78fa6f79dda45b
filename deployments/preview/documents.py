"""Documents of a preview: planned writes, task definition diffs, IAM permissions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aws.apis.iam import IamClient, IamDecision, StsClient, parse_principal_arn
from aws.errors import AwsError, Denied, NotFound
from aws.operations import list_required_actions
from aws.policies import IamPolicy, get_action_purpose, get_policy_title, list_policies
from aws.preview import PlannedCall, PreviewCaller, PreviewLimitReached
from delegates.access.aws_access import ConnectorUnavailable
from deployments.preview.change_summaries import summarize_write
from deployments.preview.dry_run import PreviewedStep, PreviewFailure
from guards.masks import HIDDEN, SecretMask, redact_parameters
from steps.actions.ecs_service.snapshots import GONE_STATUSES
from steps.actions.non_aws_calls import DELEGATE_SERVICE
from steps.actions.task_definitions import normalize_definition
from web.text_diffs import TextDiff, compare_texts

_WORST_FIRST = (IamDecision.DENIED, IamDecision.UNKNOWN, IamDecision.ALLOWED)


def check_permissions(steps: Sequence[PreviewedStep]) -> tuple[dict[str, IamDecision], list[str]]:
    """What IAM says of each action, the worst of several principals; and why it says nothing."""
    found: dict[str, list[IamDecision]] = {}
    reasons: list[str] = []
    for caller in {id(step.caller): step.caller for step in steps if step.calls}.values():
        needed = list_required_actions(
            (call.service, call.operation, call.params)
            for call in caller.calls
            if call.service != DELEGATE_SERVICE
        )
        said, reason = _simulate_policies(caller, needed)
        reasons += [reason] if reason else []
        for action in needed:
            found.setdefault(action, []).append(said.get(action, IamDecision.UNKNOWN))
    return {action: _get_worst_decision(decisions) for action, decisions in found.items()}, reasons


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
    given = set(decisions)
    return next(one for one in _WORST_FIRST if one in given)


_VALUES = ("environment", "environmentFiles")


def compare_task_definitions(old: Mapping[str, Any], new: Mapping[str, Any]) -> TextDiff:
    """What differs, without AWS's own fields and defaults, in an order that does not depend on the author."""
    before, after = normalize_definition(old), normalize_definition(new)
    changed = _list_changed_values(before, after)
    return compare_texts(
        _text(_redact_definition(before, frozenset())), _text(_redact_definition(after, changed))
    )


def find_live_definition(step: PreviewedStep, params: Mapping[str, Any]) -> dict[str, Any]:
    """What production runs, else the ECS service of the step, if of this family; else its newest revision.

    Empty if there is none. Raises `AwsError`.
    """
    family = params["family"]
    known = [step.step_data.load_for_rollback(name) or {} for name in ("blue before", "service before")]
    running = [str(one.get("task_definition", "")) for one in known if one.get("status") not in GONE_STATUSES]
    named = next((one for one in running if f"/{family}:" in one), family)
    try:
        answer = step.caller.live_caller.call("ecs", "DescribeTaskDefinition", {"taskDefinition": named})
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
        (container.get("name", ""), kind, one.get("name", "")): one.get("value")
        for container in definition.get("containerDefinitions", ())
        for kind in _VALUES
        for one in container.get(kind, ())
        if isinstance(one, Mapping)
    }


def _redact_definition(
    definition: Mapping[str, Any], changed: frozenset[tuple[str, str, str]]
) -> dict[str, Any]:
    containers = [
        {
            key: [
                _hide(one, (container.get("name", ""), key, one.get("name", "")) in changed) for one in value
            ]
            if key in _VALUES
            else value
            for key, value in container.items()
        }
        for container in definition.get("containerDefinitions", ())
    ]
    return {**definition, **({"containerDefinitions": containers} if containers else {})}


def _hide(item: Mapping[str, Any], is_changed: bool) -> dict[str, Any]:
    return {**item, "value": f"{HIDDEN} (changed)" if is_changed else HIDDEN}


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str) if value else ""


@dataclass(frozen=True)
class PreviewedCall:
    """A write, with the values of environments hidden."""

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
    """A task definition that would be registered, beside the one that runs; `old` is empty if none does."""

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
    """What one step would do."""

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
    """Why it would not run."""
    depends: tuple[str, ...] = ()
    """The conditions that only a run can answer."""

    @property
    def changes(self) -> list[str]:
        """What the writes come to, in words."""
        return [call.change for call in self.calls if call.change]

    def to_json(self) -> dict[str, Any]:
        return {
            "identifier": self.identifier,
            "name": self.name,
            "type": self.type,
            "stage": self.stage,
            "calls": [call.to_json() for call in self.calls],
            "diff": "\n".join(one.unified for one in self.diffs if one.unified),
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
    """An IAM action that is needed; `allowed` is what IAM says of it: allowed, denied or unknown."""

    action: str
    purpose: str
    policy: str
    allowed: str


@dataclass(frozen=True)
class PreviewDetails:
    """What a run would do, and what its connectors' principals must be allowed."""

    artifact: dict[str, str]
    steps: tuple[PreviewedStepDetails, ...]
    permissions: tuple[PreviewedPermission, ...]
    unasked: tuple[str, ...] = ()
    """Why IAM says nothing of some of them."""

    @property
    def policies(self) -> tuple[IamPolicy, ...]:
        """Return the policies that hold these permissions."""
        return list_policies(one.action for one in self.permissions)

    @property
    def is_complete(self) -> bool:
        """Return whether no step would fail before its end, as far as a preview sees."""
        return all(step.failure is None for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        return {
            "artifact": self.artifact,
            "complete": self.is_complete,
            "steps": [step.to_json() for step in self.steps],
            "permissions": [asdict(one) for one in self.permissions],
            "unasked": list(self.unasked),
            "policies": [one.identifier for one in self.policies],
        }


def build_preview_details(artifact: dict[str, str], steps: Sequence[PreviewedStep]) -> PreviewDetails:
    """Return all steps, and what IAM says of what they need."""
    shown = tuple(build_step_details(step) for step in steps)
    decisions, unasked = check_permissions(steps)
    needed = sorted({action for step in shown for action in step.permissions})
    permissions = tuple(
        PreviewedPermission(
            one, get_action_purpose(one), get_policy_title(one), decisions.get(one, IamDecision.UNKNOWN)
        )
        for one in needed
    )
    return PreviewDetails(artifact, shown, permissions, tuple(unasked))


def build_step_details(step: PreviewedStep) -> PreviewedStepDetails:
    """Return a step as it is shown; its task definitions are compared with what runs now."""
    diffs, unread = _build_diffs(step)
    said = [text for level, text in step.step_data.lines if level == "warning"]
    return PreviewedStepDetails(
        identifier=step.step.identifier,
        name=step.step.name,
        type=step.step.type,
        stage=step.step.stage.identifier,
        calls=tuple(_build_call(call) for call in step.writes),
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
        warnings=(*step.warnings, *said, *unread),
        failure=step.failure,
        is_reached=step.is_reached,
        skipped=step.verdict.skipped,
        depends=step.verdict.depends,
    )


def _build_call(call: PlannedCall) -> PreviewedCall:
    return PreviewedCall(
        call.service, call.operation, redact_parameters(call.params, SecretMask()), summarize_write(call)
    )


def _build_diffs(step: PreviewedStep) -> tuple[tuple[DefinitionDiff, ...], list[str]]:
    """What is registered beside what runs, and sentences about what could not be read."""
    found, unread = [], []
    for call in step.writes:
        if call.operation != "RegisterTaskDefinition":
            continue
        family = call.params["family"]
        try:
            live = find_live_definition(step, call.params)
        except (AwsError, PreviewLimitReached) as error:
            unread.append(f"Nothing is compared with the task definition {family} that runs now: {error}")
            continue
        old = f"{family}:{live.get('revision', '?')}" if live else ""
        found.append(DefinitionDiff(old, f"{family} (new)", compare_task_definitions(live, call.params)))
    return tuple(found), unread
