"""Action that follows a deployment to its outcome and explains a failure (P01-P03)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aws.apis.ecs_types import EcsService
from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import RECHECK_INTERVAL, clear_observation, is_observed_twice
from steps.actions.context import ServiceObservation, StepContext
from steps.actions.ecs_service.daemons import describe_missing_instances, is_daemon
from steps.actions.ecs_service.deployment_health import (
    FailFast,
    HealthVerdict,
    OwnDeployment,
    enforce_health_deadline,
    evaluate_deployment,
    find_deployment,
    get_health_deadline,
    is_verdict_certain,
    was_rolled_back_by_aws,
)
from steps.actions.ecs_service.desired_count import describe_lost_tasks, note_changed_count
from steps.actions.ecs_service.diagnosis import Diagnosis
from steps.actions.ecs_service.snapshots import has_existed_before
from steps.actions.ecs_service.task_failures import (
    EARLIER_FAILURES_KEY,
    FAILURES_KEY,
    LIFETIME_KEY,
    build_failure,
    build_failure_from_notes,
    build_own_deployment,
    diagnose_if_suspicious,
    fail_after_completed,
    fail_fast,
    log_first_diagnosis,
)

_UNCERTAIN_VERDICTS = (
    HealthVerdict.MAYBE_FAILED,
    HealthVerdict.MAYBE_BACK,
    HealthVerdict.MAYBE_SUPERSEDED,
    HealthVerdict.MAYBE_NO_TASKS,
    HealthVerdict.MAYBE_GONE,
)
# Time in which AWS begins the rollback of a failed deployment, if there is a completed one.
_ROLLBACK_DELAY = timedelta(minutes=1)


# Progress keys of the time after ECS reported completion.
_COMPLETED_AT_KEY, _FAILED_AT_COMPLETION_KEY, _WATCHED_KEY = (
    "completed at",
    "failed when completed",
    "watched for",
)
# Longest lifetime of a failed task that counts, in seconds.
LONGEST_TASK_LIFETIME = 300


@action
@dataclass(frozen=True)
class WaitForSteadyState(Action):
    """Check until our deployment, by its id, is COMPLETED; fail as soon as it cannot be (P01-P03)."""

    repeated_with = ("CreateOrUpdateService", "CreateCanary")

    fail_fast: FailFast = field(default_factory=FailFast)

    def __post_init__(self) -> None:
        if isinstance(self.fail_fast, Mapping):  # as a stored row has it
            object.__setattr__(self, "fail_fast", FailFast(**self.fail_fast))

    @property
    def title(self) -> str:
        return "Wait for steady state"

    def start(self, context: StepContext) -> None:
        context.wait_for_service(context.get_output("serviceName"))
        context.wait_for_change()

    def is_done(self, context: StepContext) -> bool:
        name = context.get_output("serviceName")
        own_deployment = build_own_deployment(context)
        observation = context.observe_service(name)
        service = observation.service
        if find_deployment(service, own_deployment.deployment_id) is not None:
            context.progress["seen"] = True
        verdict = evaluate_deployment(service, own_deployment)
        if service is not None:
            _log_progress(context, service, own_deployment)
        if (
            verdict is HealthVerdict.COMPLETED
            and service is not None
            and not self._is_watched(context, service)
        ):
            return self._succeed(context, name)
        diagnosis = diagnose_if_suspicious(context, service, own_deployment, self.fail_fast)
        if verdict is HealthVerdict.COMPLETED and service is not None:
            return self._is_stable(context, observation) and self._succeed(context, name)
        context.progress.pop(_COMPLETED_AT_KEY, None)
        _fail_on_verdict(context, verdict, observation, own_deployment, diagnosis)
        if service is not None and diagnosis is not None:
            fail_fast(context, service, own_deployment, diagnosis, self.fail_fast)
        minutes = self.fail_fast.minutesWithoutHealthyTask
        if service is not None and verdict is HealthVerdict.GOING:
            enforce_health_deadline(context, service, own_deployment.deployment_id, minutes)
            context.wait_for_change(until=get_health_deadline(context, minutes))
        return False

    def _is_watched(self, context: StepContext, service: EcsService) -> bool:
        """Return whether completion is verified for a while: only ECS itself reports on the tasks."""
        return bool(
            self.fail_fast.stableSeconds and service.desired and not _has_health_check(context, service)
        )

    def _succeed(self, context: StepContext, name: str) -> bool:
        _log_stability_window(context, name)
        context.log(f"Service {name} reached steady state")
        self.log_success(context, name)
        return True

    def _is_stable(self, context: StepContext, observation: ServiceObservation) -> bool:
        """Return whether the service stayed completed for long enough; a failed task restarts the time."""
        _log_stability_window(context, observation.name)
        progress, failures = context.progress, context.progress.get(FAILURES_KEY, 0)
        progress.setdefault(EARLIER_FAILURES_KEY, failures)
        fail_after_completed(context, self.fail_fast)
        if _COMPLETED_AT_KEY not in progress or failures > progress[_FAILED_AT_COMPLETION_KEY]:
            # The lifetime of a task that failed since then is the time to watch.
            lived = progress.get(LIFETIME_KEY, 0) if failures > progress[EARLIER_FAILURES_KEY] else 0
            seconds = self.fail_fast.stableSeconds + min(lived, LONGEST_TASK_LIFETIME)
            began = observation.read_started_at.isoformat()
            progress.update(
                {_COMPLETED_AT_KEY: began, _FAILED_AT_COMPLETION_KEY: failures, _WATCHED_KEY: seconds}
            )
            context.log(f"ECS reports completed, watching for {seconds} s")
        until = datetime.fromisoformat(progress[_COMPLETED_AT_KEY]) + timedelta(
            seconds=progress[_WATCHED_KEY]
        )
        if observation.read_started_at >= until:
            return True
        context.sleep(until)
        return False

    def check_at_timeout(self, context: StepContext) -> ActionFailed | bool:
        progress, name = context.progress, context.get_output("serviceName")
        own_deployment = build_own_deployment(context)
        service = context.observe_service(name).service
        if (
            evaluate_deployment(service, own_deployment) is HealthVerdict.COMPLETED
            and service is not None
            and self._may_end_watch(context, service)
        ):
            context.log("The step timeout has passed, so the service is no longer watched")
            return self._succeed(context, name)
        if service is not None and "first failure" not in progress:
            log_first_diagnosis(context, service, own_deployment, self.fail_fast)
        failure = progress.get("first failure")
        return build_failure_from_notes(failure, "TIMED_OUT") if failure else False

    def _may_end_watch(self, context: StepContext, service: EcsService) -> bool:
        """Return whether completion needs no proof: no task failed since, or a health check reports it."""
        progress = context.progress
        is_calm = progress.get(FAILURES_KEY, 0) == progress.get(EARLIER_FAILURES_KEY, 0)
        return is_calm or not self._is_watched(context, service)

    def log_success(self, context: StepContext, name: str) -> None:
        """Log the last lines of the step."""
        verb = "Updated" if has_existed_before(context) else "Created"
        context.log(f"{verb} Service {name} with Arn {context.get_output('serviceArn')}")
        context.log("")
        context.log(" Deployment Successful.", "success")


def _log_stability_window(context: StepContext, name: str) -> None:
    if not context.progress.get("settling"):
        context.progress["settling"] = True
        context.log(f"Waiting for Service {name} to reach steady state")


def _has_health_check(context: StepContext, service: EcsService) -> bool:
    """Return whether a load balancer or a container health check reports on the tasks."""
    containers = (context.load_for_rollback("task definition") or {}).get("containerDefinitions", [])
    is_behind_balancer = any(entry.get("targetGroupArn") for entry in service.raw.get("loadBalancers", []))
    return is_behind_balancer or any(entry.get("healthCheck") for entry in containers)


def _log_progress(context: StepContext, service: EcsService, own_deployment: OwnDeployment) -> None:
    """Log one line per change of the counts, and one when only the rollout is unfinished (R199, R200)."""
    deployment = find_deployment(service, own_deployment.deployment_id)
    if deployment is None:
        return
    context.show_counts(running=deployment.running, desired=deployment.desired, pending=deployment.pending)
    note_changed_count(context, service, own_deployment.desired_count)
    counts = f"{deployment.running}/{deployment.desired}"
    if context.progress.get("counts") != counts:
        context.progress["counts"] = counts
        context.log(f"Waiting for pending tasks to finish. {counts} running ...")
    if deployment.running >= deployment.desired and not context.progress.get("settling"):
        context.progress["settling"] = True
        context.log(f"Waiting for Service {service.name} to reach steady state")


def _fail_on_verdict(
    context: StepContext,
    verdict: HealthVerdict,
    observation: ServiceObservation,
    own_deployment: OwnDeployment,
    diagnosis: Diagnosis | None,
) -> None:
    if verdict is HealthVerdict.FAILED:
        sentence = _quote_reason("AWS marked this deployment as failed", observation, own_deployment)
        raise build_failure("FAILED", sentence, diagnosis, context)
    if verdict is HealthVerdict.ROLLED_BACK_BY_AWS:
        sentence = _quote_reason("AWS rolled this deployment back", observation, own_deployment)
        raise build_failure("ROLLED_BACK_BY_AWS", sentence, diagnosis, context)
    for uncertain in _UNCERTAIN_VERDICTS:
        if verdict is not uncertain:
            clear_observation(context, uncertain.value)
            continue
        is_certain = is_verdict_certain(verdict, observation.service, own_deployment)
        interval = _ROLLBACK_DELAY if verdict is HealthVerdict.MAYBE_FAILED else RECHECK_INTERVAL
        if is_certain or (
            is_observed_twice(context, uncertain.value, observation.read_started_at, interval)
            and _is_conclusive_read(context, verdict, own_deployment, observation)
        ):
            outcome, text = _describe_outcome(verdict, observation, own_deployment)
            raise build_failure(outcome, text, diagnosis, context)


def _quote_reason(sentence: str, observation: ServiceObservation, own_deployment: OwnDeployment) -> str:
    """Return the sentence with AWS's reason for the failure of our deployment: circuit breaker or alarm."""
    deployment = find_deployment(observation.service, own_deployment.deployment_id)
    reason = deployment.rollout_state_reason.rstrip(".") if deployment is not None else ""
    return f"{sentence}: {reason}." if reason else f"{sentence}."


def _describe_outcome(
    verdict: HealthVerdict, observation: ServiceObservation, own_deployment: OwnDeployment
) -> tuple[str, str]:
    """Return the outcome of a deployment that AWS or others ended, and the sentence for it."""
    service, name = observation.service, observation.name
    if verdict is HealthVerdict.MAYBE_FAILED:
        sentence = "AWS marked this deployment as failed and did not roll it back"
        return "FAILED", _quote_reason(sentence, observation, own_deployment)
    if verdict is HealthVerdict.MAYBE_GONE or service is None or service.primary is None:
        return "FAILED", f"Service {name} was deleted outside Slipway."
    if verdict is HealthVerdict.MAYBE_NO_TASKS and is_daemon(service.raw):
        return "FAILED", describe_missing_instances(service)
    if verdict is HealthVerdict.MAYBE_NO_TASKS:
        return "FAILED", describe_lost_tasks(service, own_deployment.desired_count)
    primary = service.primary
    if verdict is HealthVerdict.MAYBE_BACK and was_rolled_back_by_aws(service, own_deployment):
        return (
            "ROLLED_BACK_BY_AWS",
            "AWS rolled back the service: the previous deployment is PRIMARY again.",
        )
    if verdict is HealthVerdict.MAYBE_BACK:
        return "SUPERSEDED", (
            f"The previous deployment ({primary.id}) is PRIMARY again, and AWS did not roll back: the "
            f"service was restored outside Slipway."
        )
    if primary.task_definition == own_deployment.task_definition:
        return "SUPERSEDED", (
            "Somebody else forced a new deployment of the same task definition meanwhile: deployment "
            f"{primary.id} is PRIMARY, not ours ({own_deployment.deployment_id})."
        )
    return "SUPERSEDED", (
        f"Somebody else deployed this service meanwhile: deployment {primary.id} of "
        f"{primary.task_definition} is PRIMARY, not ours ({own_deployment.deployment_id})."
    )


def _is_conclusive_read(
    context: StepContext,
    verdict: HealthVerdict,
    own_deployment: OwnDeployment,
    observation: ServiceObservation,
) -> bool:
    """Return whether our deployment is gone: observed once before, or missing for a minute (rule 10)."""
    if own_deployment.was_observed or verdict is HealthVerdict.MAYBE_SUPERSEDED:
        return True
    first = context.progress.setdefault("missing since", observation.read_started_at.timestamp())
    return bool(observation.read_started_at.timestamp() - first >= 60)
