"""Action that follows a service deployment of ECS through its lifecycle stages.

Shapes: ECS API, ServiceDeployment. ECS itself moves the traffic, so that nothing here touches a listener.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from aws.apis.ecs_types import EcsService, LifecycleHook, ServiceDeployment, get_arn_name
from aws.errors import Invalid
from steps.actions.approvals import APPROVAL_REJECTED, describe_rejection
from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import ApprovalRequest, StepContext
from steps.actions.ecs_service.check_intervals import (
    LONG_INTERVAL,
    MEDIUM_INTERVAL,
    OPEN_STATUSES,
    PAUSED,
    STARTING_STAGES,
    get_interval,
)
from steps.actions.ecs_service.deployment_health import FailFast
from steps.actions.ecs_service.desired_count import describe_lost_tasks, note_changed_count
from steps.actions.ecs_service.diagnosis import Diagnosis
from steps.actions.ecs_service.snapshots import has_existed_before
from steps.actions.ecs_service.task_failures import (
    build_failure,
    build_own_deployment,
    diagnose_if_suspicious,
    fail_fast,
)

# The output that names the service deployment.
SERVICE_DEPLOYMENT: Final = "serviceDeploymentArn"
ENDED_STATUSES: Final = ("SUCCESSFUL", "STOPPED", "ROLLBACK_SUCCESSFUL", "ROLLBACK_FAILED")
STAGE_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "RECONCILE_SERVICE": "earlier revisions are removed",
    "PRE_SCALE_UP": "before new tasks start",
    "SCALE_UP": "new tasks start",
    "POST_SCALE_UP": "all new tasks run",
    "TEST_TRAFFIC_SHIFT": "test traffic shifts to the new revision",
    "POST_TEST_TRAFFIC_SHIFT": "the new revision has the test traffic",
    "PRE_PRODUCTION_TRAFFIC_SHIFT": "before production traffic shifts",
    "PRODUCTION_TRAFFIC_SHIFT": "production traffic shifts to the new revision",
    "POST_PRODUCTION_TRAFFIC_SHIFT": "the new revision has the production traffic",
    "BAKE_TIME": "both revisions run",
    "CLEAN_UP": "tasks that no longer have traffic stop",
}
# Log lines of a new stage and of new weights.
STAGE_LINE: Final = re.compile(r"Lifecycle stage (\w+): ")
TRAFFIC_LINE: Final = re.compile(r"(?:Test|Production) traffic: [\d.e+-]+ % to the new revision\Z")
# Time in which tasks usually start: nobody looks for failed ones before, unless ECS counts some.
USUAL_START = timedelta(seconds=45)
MISSING_SECONDS: Final = 60
# Of the id of a hook, which has 53 characters.
APPROVAL_KEY_CHARACTERS: Final = 128
# Progress keys: the pause whose approval is requested, its decision, and the sentence of a rejection.
_REQUESTED_KEY, _DECISION_KEY, _REJECTION_KEY = "requested pause", "decided pause", "rejection"
# Progress keys, seconds of the epoch: when the step began to follow, and when a check first saw the stage.
_FOLLOWED_SINCE_KEY, _STAGE_SINCE_KEY = "followed since", "stage since"
_HOOK_ACTIONS: Final = {"APPROVED": "CONTINUE", "REJECTED": "ROLLBACK"}


@action
@dataclass(frozen=True)
class FollowServiceDeployment(Action):
    """Follow the service deployment that the update started, until ECS reports its end.

    Members of the `groups` approve what a PAUSE hook holds; without groups it is continued in ECS.
    """

    repeated_with = ("UpdateNativeService",)

    fail_fast: FailFast = field(default_factory=FailFast)
    groups: list[str] = field(default_factory=list)
    minimum: int = 1
    without_executor: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.fail_fast, Mapping):  # as a stored row has it
            object.__setattr__(self, "fail_fast", FailFast(**self.fail_fast))

    @property
    def title(self) -> str:
        return "Follow the service deployment"

    def start(self, context: StepContext) -> None:
        name, arn = context.get_output("serviceName"), context.get_output(SERVICE_DEPLOYMENT)
        if not arn:
            service = context.ecs.describe_service(context.cluster, name)
            arn = str((service.raw if service else {}).get("currentServiceDeployment") or "")
        if not arn:
            raise ActionFailed(
                "UNKNOWN",
                f"ECS names no current service deployment of Service {name}. Its state is unknown: look at "
                "the service in ECS.",
            )
        context.set_outputs(**{SERVICE_DEPLOYMENT: arn})
        context.log(f"Service deployment {get_arn_name(arn)} of Service {name} started")

    def is_done(self, context: StepContext) -> bool:
        if _postpone_first_check(context):
            return False
        deployment = _read_deployment(context)
        if deployment is None:
            return False
        log_deployment_changes(context, deployment, shows_command=not self.groups)
        _withdraw_ended_pause(context, find_pause(deployment))
        if deployment.status == "SUCCESSFUL":
            # The last events of the service belong to the log.
            service = context.observe_service(context.get_output("serviceName")).service
            _require_tasks(context, deployment, service)
            self._log_success(context)
            return True
        diagnosis = self._look_at_tasks(context, deployment)
        if deployment.status in ENDED_STATUSES:
            self._refuse_rejected(context, deployment)
            raise build_failure(*_describe_end(context, deployment), diagnosis, context)
        sleep_until_next_check(context, deployment)
        if self.groups:
            self._decide_pause(context, deployment)
        return False

    def _decide_pause(self, context: StepContext, deployment: ServiceDeployment) -> None:
        """Request an approval for an open pause, and the write that ends it once that is decided."""
        progress, pause = context.progress, find_pause(deployment)
        if pause is None or pause.id in (progress.get(_DECISION_KEY) or ()):
            return
        key = _build_approval_key(pause)
        if _REQUESTED_KEY not in progress:
            progress[_REQUESTED_KEY] = key
            context.request_approval(self._build_request(deployment, pause))
            context.sleep(context.now())
            return
        state = context.get_approval_state(key)
        if state.verdict == "WAITING":
            return
        del progress[_REQUESTED_KEY]
        if state.verdict in _HOOK_ACTIONS:
            progress[_DECISION_KEY] = [pause.id, _HOOK_ACTIONS[state.verdict]]
            progress[_REJECTION_KEY] = describe_rejection(state) if state.verdict == "REJECTED" else ""
            context.request_write()
        else:
            progress[_DECISION_KEY] = [pause.id, ""]
            context.log("The approval expired. ECS ends the pause at its own timeout", "warning")

    def _build_request(self, deployment: ServiceDeployment, pause: LifecycleHook) -> ApprovalRequest:
        weight = format_percent(deployment.target.production_weight or 0)
        return ApprovalRequest(
            message=f"ECS paused the deployment at {deployment.stage}. The new revision has {weight} of the "
            "production traffic. Continue it? A rejection rolls it back.",
            groups=tuple(self.groups),
            minimum=self.minimum,
            without_executor=self.without_executor,
            inputs=(),
            key=_build_approval_key(pause),
            expires_at=pause.expires_at,
        )

    def write(self, context: StepContext) -> None:
        hook_id, hook_action = context.progress[_DECISION_KEY]
        try:
            arn = context.get_output(SERVICE_DEPLOYMENT)
            context.ecs.continue_service_deployment(arn, hook_id, hook_action)
        except Invalid as refused:
            # Somebody else ended the pause; the next check shows how.
            context.log(f"ECS did not take the decision: {refused.display_message}", "warning")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        """Return whether the pause has ended."""
        late = is_past_read_lag(context, call)
        deployment = find_service_deployment(context)
        hooks = deployment.hooks if deployment else ()
        if any(hook.id == call.params["hookId"] and hook.status != PAUSED for hook in hooks):
            return Applied({"serviceDeploymentArn": call.params["serviceDeploymentArn"]})
        return NotApplied() if late else Unconfirmed()

    def _look_at_tasks(self, context: StepContext, deployment: ServiceDeployment) -> Diagnosis | None:
        """Read the service if its tasks start slowly or ECS gave up; fail on a fatal sign before ECS does."""
        is_open = deployment.status in OPEN_STATUSES
        if is_open and not _may_be_failing(context, deployment):
            return None
        service = context.observe_service(context.get_output("serviceName")).service
        own_deployment = build_own_deployment(context)
        diagnosis = diagnose_if_suspicious(context, service, own_deployment, self.fail_fast)
        if is_open and service is not None and diagnosis is not None:
            fail_fast(context, service, own_deployment, diagnosis, self.fail_fast)
        return diagnosis

    def _refuse_rejected(self, context: StepContext, deployment: ServiceDeployment) -> None:
        if (rejection := context.progress.get(_REJECTION_KEY)) and deployment.status == "ROLLBACK_SUCCESSFUL":
            raise ActionFailed(APPROVAL_REJECTED, rejection, outcome="ROLLED_BACK_BY_AWS")

    def check_at_timeout(self, context: StepContext) -> ActionFailed | bool:
        deployment = find_service_deployment(context)
        if deployment is None:
            return False
        if deployment.status in ENDED_STATUSES:
            # The end may be newer than the last regular check.
            context.progress.setdefault(_FOLLOWED_SINCE_KEY, context.now().timestamp())
            return self.is_done(context)
        reason = "It is paused by a hook" if find_pause(deployment) else "ECS goes on with it"
        stage = f" at {deployment.stage}" if deployment.stage else ""
        return ActionFailed(
            "TIMED_OUT",
            f"The service deployment is {deployment.status}{stage} at the timeout of the step. {reason}.",
            outcome="TIMED_OUT",
        )

    def _log_success(self, context: StepContext) -> None:
        verb = "Updated" if has_existed_before(context) else "Created"
        name, arn = context.get_output("serviceName"), context.get_output("serviceArn")
        context.log(f"{verb} Service {name} with Arn {arn}")
        context.log("")
        context.log(" Deployment Successful.", "success")


def _postpone_first_check(context: StepContext) -> bool:
    """Return whether the service deployment has only just been started, so that no read shows progress."""
    if _FOLLOWED_SINCE_KEY in context.progress:
        return False
    context.progress[_FOLLOWED_SINCE_KEY] = context.now().timestamp()
    if not _has_new_deployment(context):
        return False
    context.sleep(context.now() + LONG_INTERVAL)
    return True


def _require_tasks(context: StepContext, deployment: ServiceDeployment, service: EcsService | None) -> None:
    """Note a changed count; fail if no task shows that the new version works, as ECS succeeds with none."""
    requested = context.get_output("desiredCount")
    if service is None:
        return
    note_changed_count(context, service, requested)
    if requested and not (service.desired and deployment.target.running):
        raise build_failure("FAILED", describe_lost_tasks(service, requested), None, context)


def _get_age(context: StepContext, key: str) -> timedelta:
    now = context.now().timestamp()
    return timedelta(seconds=now - context.progress.setdefault(key, now))


def sleep_until_next_check(context: StepContext, deployment: ServiceDeployment) -> None:
    """Wait as long as the lifecycle stage allows."""
    context.sleep(context.now() + get_interval(deployment, _get_age(context, _STAGE_SINCE_KEY)))


def _may_be_failing(context: StepContext, deployment: ServiceDeployment) -> bool:
    if deployment.stage not in STARTING_STAGES:
        return False
    return deployment.failed_tasks > 0 or _get_age(context, _FOLLOWED_SINCE_KEY) >= USUAL_START


def _withdraw_ended_pause(context: StepContext, pause: LifecycleHook | None) -> None:
    """Withdraw the approval of a pause that ended without it: by its timeout, or by another client."""
    requested = context.progress.get(_REQUESTED_KEY)
    if requested and (pause is None or _build_approval_key(pause) != requested):
        del context.progress[_REQUESTED_KEY]
        context.withdraw_approval(requested)


def _build_approval_key(pause: LifecycleHook) -> str:
    return pause.id[:APPROVAL_KEY_CHARACTERS]


def find_pause(deployment: ServiceDeployment) -> LifecycleHook | None:
    """Return the first hook that awaits an action."""
    return next((hook for hook in deployment.hooks if hook.status == PAUSED), None)


def format_percent(value: float) -> str:
    return f"{value:g} %"


def find_service_deployment(context: StepContext) -> ServiceDeployment | None:
    """Return the service deployment that the step follows; None before it is known, or if ECS forgot it."""
    arn = context.get_output(SERVICE_DEPLOYMENT)
    return context.ecs.describe_service_deployment(arn) if arn else None


def find_own_deployment(context: StepContext) -> ServiceDeployment | None:
    """Return the service deployment that this step started; None if it follows one from before."""
    if not _has_new_deployment(context):
        return None
    deployment = find_service_deployment(context)
    return deployment if deployment is not None and _has_own_revision(context, deployment) else None


def _has_new_deployment(context: StepContext) -> bool:
    before = context.load_for_rollback("service before") or {}
    return bool(context.get_output("deploymentId") != before.get("primary"))


def _has_own_revision(context: StepContext, deployment: ServiceDeployment) -> bool:
    """Return whether a service deployment is that of our update."""
    own_id, task_definition = context.get_output("deploymentId"), context.get_output("taskDefinitionArn")
    return has_revision(context, deployment, own_id, task_definition)


def has_revision(
    context: StepContext, deployment: ServiceDeployment, deployment_id: str, task_definition: str
) -> bool:
    """Return whether a service deployment is that of an update; mostly the ids of the revision show it."""
    if get_arn_name(deployment.target_revision) == get_arn_name(deployment_id):
        return True
    revisions = context.ecs.describe_service_revisions([deployment.target_revision])
    return any(revision.task_definition == task_definition for revision in revisions)


def _read_deployment(context: StepContext) -> ServiceDeployment | None:
    """Return our service deployment; None while reads do not show it. Fails if it stays missing."""
    deployment = find_service_deployment(context)
    if deployment is not None:
        _refuse_foreign(context, deployment)
        return deployment
    now = context.now()
    first = context.progress.setdefault("missing since", now.timestamp())
    if now.timestamp() - first >= MISSING_SECONDS:
        raise ActionFailed(
            "UNKNOWN",
            "ECS does not know this service deployment any more. Its outcome is unknown: look at the "
            "service in ECS.",
        )
    context.sleep(now + MEDIUM_INTERVAL)
    return None


def _refuse_foreign(context: StepContext, deployment: ServiceDeployment) -> None:
    """Fail if the service deployment is not that of our update: somebody else updated right after it."""
    if context.progress.get("is ours"):
        return
    if not _has_own_revision(context, deployment):
        raise ActionFailed(
            "SUPERSEDED",
            "Somebody else deployed this service right after this deployment started.",
            outcome="SUPERSEDED",
        )
    context.progress["is ours"] = True


def log_deployment_changes(
    context: StepContext, deployment: ServiceDeployment, *, shows_command: bool = True
) -> None:
    """Log status, stage, traffic and hooks where they differ from the last check.

    `shows_command` adds the command that ends a pause.
    """
    progress, target = context.progress, deployment.target
    context.show_counts(running=target.running, desired=target.requested, pending=target.pending)
    if deployment.stage and progress.get("stage") != deployment.stage:
        progress["stage"], progress[_STAGE_SINCE_KEY] = deployment.stage, context.now().timestamp()
        description = STAGE_DESCRIPTIONS.get(deployment.stage, "a stage that this version does not know")
        context.log(f"Lifecycle stage {deployment.stage}: {description}")
    for kind, weight in (("Test", target.test_weight), ("Production", target.production_weight)):
        if weight is not None and progress.setdefault(f"{kind} weight", 0.0) != weight:
            progress[f"{kind} weight"] = weight
            context.log(f"{kind} traffic: {format_percent(weight)} to the new revision")
    for hook in deployment.hooks:
        if progress.get(f"hook {hook.id}") != hook.status:
            progress[f"hook {hook.id}"] = hook.status
            _log_hook(context, hook)
            if shows_command and hook.status == PAUSED:
                _log_command(context, deployment, hook)
    if progress.get("status", "IN_PROGRESS") != deployment.status:
        is_bad = deployment.status not in (*OPEN_STATUSES, "SUCCESSFUL")
        reason = f". {get_reason(deployment)}" if is_bad else ""
        context.log(f"Service deployment is {deployment.status}{reason}", "warning" if is_bad else "info")
    progress["status"] = deployment.status


def _log_hook(context: StepContext, hook: LifecycleHook) -> None:
    if hook.status == PAUSED:
        until = f" until {hook.expires_at:%Y-%m-%d %H:%M:%S} UTC" if hook.expires_at else ""
        then = "goes on" if hook.timeout_action == "CONTINUE" else "rolls back"
        context.log(f"Paused by a lifecycle hook{until}, then ECS {then}", "warning")
        return
    name = f"function {hook.target.rsplit(':', 1)[-1]}" if hook.target else "pause"
    is_bad = hook.status in ("FAILED", "TIMED_OUT")
    context.log(f"Lifecycle hook, {name}: {hook.status}", "warning" if is_bad else "info")


def _log_command(context: StepContext, deployment: ServiceDeployment, hook: LifecycleHook) -> None:
    context.log(
        f"aws ecs continue-service-deployment --service-deployment-arn {deployment.arn} --hook-id {hook.id} "
        "--action CONTINUE  # or ROLLBACK"
    )


def describe_failed_rollback(deployment: ServiceDeployment) -> str:
    """Return the sentence for a rollback that ECS could not complete."""
    return (
        f"ECS tried to roll back service deployment {get_arn_name(deployment.arn)} and failed. "
        f"{get_reason(deployment)} Which revision has the traffic is unknown: look at the service in ECS."
    )


def get_reason(deployment: ServiceDeployment) -> str:
    """Return why a service deployment did not succeed, as a sentence."""
    if deployment.triggered_alarms:
        return f"Alarms in state ALARM: {', '.join(deployment.triggered_alarms)}."
    return deployment.rollback_reason or deployment.status_reason or "ECS gives no reason."


def _describe_end(context: StepContext, deployment: ServiceDeployment) -> tuple[str, str]:
    """Return the outcome of a service deployment that did not succeed, and the sentence for it."""
    reason = get_reason(deployment)
    if deployment.status == "ROLLBACK_SUCCESSFUL":
        return "ROLLED_BACK_BY_AWS", f"ECS rolled back this deployment. {reason}"
    if deployment.status == "ROLLBACK_FAILED":
        return "FAILED", describe_failed_rollback(deployment)
    service = context.ecs.describe_service(context.cluster, context.get_output("serviceName"))
    if _has_newer_deployment(service, deployment.arn):
        return "SUPERSEDED", f"Somebody else deployed this service meanwhile. {reason}"
    return "FAILED", f"ECS stopped this deployment. {reason}"


def _has_newer_deployment(service: EcsService | None, arn: str) -> bool:
    raw: Mapping[str, Any] = service.raw if service else {}
    return bool(raw.get("currentServiceDeployment")) and raw["currentServiceDeployment"] != arn
