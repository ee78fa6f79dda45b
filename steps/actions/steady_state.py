"""The action that follows a deployment until it truly ended, and says why when it fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from aws.errors import AwsError, Denied, NotFound
from aws.types import EcsService
from steps.actions.base import Action, ActionFailed, Rollout, Seen, action
from steps.actions.counts import COUNT_OF_OTHERS
from steps.actions.diagnosis import Diagnosis, diagnose
from steps.actions.fail_fast import FailFast
from steps.actions.judgement import (
    Ours,
    Verdict,
    find,
    has_rollback_breaker,
    is_certain,
    judge,
    was_rolled_back_by_aws,
)
from steps.actions.known_service import deployment_begun, existed_before
from steps.actions.patience import patience_ends, watch_patience
from steps.actions.timing import forget, is_confirmed

_ODD = (Verdict.MAYBE_BACK, Verdict.MAYBE_SUPERSEDED, Verdict.MAYBE_NO_TASKS, Verdict.MAYBE_GONE)


# What the looks note of the time after ECS has reported the deployment completed.
_COMPLETED_AT, _FAILED_THEN, _FOR = "completed at", "failed when completed", "watched for"
# However long a task lived before it failed, in seconds.
LONGEST_LIFE = 300
_FAILURES, _FAILED_BEFORE, _LIVED = "failed tasks", "failed before completed", "seconds the last one lived"


@action
@dataclass(frozen=True)
class WaitForSteadyState(Action):
    """Look until our deployment, named by its id, is COMPLETED; fail at once when it cannot be (P01-P03)."""

    again_with = ("CreateOrUpdateService", "CreateCanary")

    fail_fast: FailFast = field(default_factory=FailFast)

    def __post_init__(self) -> None:
        if isinstance(self.fail_fast, Mapping):  # as a stored row has it
            object.__setattr__(self, "fail_fast", FailFast(**self.fail_fast))

    @property
    def title(self) -> str:
        return "Wait for steady state"

    def start(self, rollout: Rollout) -> None:
        rollout.await_service(rollout.know("serviceName"))

    def is_done(self, rollout: Rollout) -> bool:
        name = rollout.know("serviceName")
        ours = _ours(rollout)
        seen = rollout.see_service(name)
        service = seen.service
        if find(service, ours.deployment_id) is not None:
            rollout.progress["seen"] = True
        verdict = judge(service, ours)
        if service is not None:
            _narrate(rollout, service, ours)
        if verdict is Verdict.COMPLETED and service is not None and not self._is_watched(rollout, service):
            return self._succeed(rollout, name)
        diagnosis = _diagnose(rollout, service, ours, self.fail_fast)
        if verdict is Verdict.COMPLETED and service is not None:
            return self._stands(rollout, seen) and self._succeed(rollout, name)
        rollout.progress.pop(_COMPLETED_AT, None)
        _fail_on(rollout, verdict, seen, ours, diagnosis)
        if service is not None and diagnosis is not None:
            _fail_fast(rollout, service, ours, diagnosis, self.fail_fast)
        minutes = self.fail_fast.minutesWithoutHealthyTask
        if service is not None and verdict is Verdict.GOING:
            watch_patience(rollout, service, ours.deployment_id, minutes)
            rollout.rest(until=patience_ends(rollout, minutes))
        return False

    def _is_watched(self, rollout: Rollout, service: EcsService) -> bool:
        """Whether ECS is not believed at once: nothing but itself vouches for the tasks."""
        return bool(self.fail_fast.stableSeconds and service.desired and not _is_checked(rollout, service))

    def _succeed(self, rollout: Rollout, name: str) -> bool:
        _tell_settling(rollout, name)
        rollout.log(f"Service {name} reached steady state")
        self.tell_success(rollout, name)
        return True

    def _stands(self, rollout: Rollout, seen: Seen) -> bool:
        """Whether the service has stayed completed for long enough; a failed task begins that time anew."""
        _tell_settling(rollout, seen.name)
        progress, failures = rollout.progress, rollout.progress.get(_FAILURES, 0)
        progress.setdefault(_FAILED_BEFORE, failures)
        _fail_after_completed(rollout, self.fail_fast)
        if _COMPLETED_AT not in progress or failures > progress[_FAILED_THEN]:
            # A task that failed since then shows for how long one has to watch.
            lived = progress.get(_LIVED, 0) if failures > progress[_FAILED_BEFORE] else 0
            seconds = self.fail_fast.stableSeconds + min(lived, LONGEST_LIFE)
            began = seen.begun.isoformat()
            progress.update({_COMPLETED_AT: began, _FAILED_THEN: failures, _FOR: seconds})
            rollout.log(f"ECS reports completed, watching for {seconds} s")
        until = datetime.fromisoformat(progress[_COMPLETED_AT]) + timedelta(seconds=progress[_FOR])
        if seen.begun >= until:
            return True
        rollout.sleep(until)
        return False

    def last_look(self, rollout: Rollout) -> ActionFailed | bool:
        progress, name = rollout.progress, rollout.know("serviceName")
        if "first failure" in progress and _COMPLETED_AT not in progress:
            return _from_notes(progress["first failure"], "TIMED_OUT")
        ours = _ours(rollout)
        service = rollout.see_service(name).service
        is_calm = progress.get(_FAILURES, 0) == progress.get(_FAILED_BEFORE, 0)
        if judge(service, ours) is Verdict.COMPLETED and is_calm:
            rollout.log("The time of the step is over, so the service is watched no longer")
            return self._succeed(rollout, name)
        if service is not None:
            _tell_diagnosis(rollout, service, ours, self.fail_fast)
        known = progress.get("first failure")
        return _from_notes(known, "TIMED_OUT") if known else False

    def tell_success(self, rollout: Rollout, name: str) -> None:
        """The last lines of the step."""
        verb = "Updated" if existed_before(rollout) else "Created"
        rollout.log(f"{verb} Service {name} with Arn {rollout.know('serviceArn')}")
        rollout.log("")
        rollout.log(" Deployment Successful.", "success")


def _tell_settling(rollout: Rollout, name: str) -> None:
    if not rollout.progress.get("settling"):
        rollout.progress["settling"] = True
        rollout.log(f"Waiting for Service {name} to reach steady state")


def _note_deregistered(rollout: Rollout) -> None:
    """Name it where somebody deregistered the revision that was deployed. Looked at once tasks have failed:
    a calm deployment is worth no call more.
    """
    arn = rollout.know("taskDefinitionArn")
    try:
        is_active = rollout.ecs.describe_task_definition(arn).is_active
    except (Denied, NotFound):
        return
    if not is_active:
        rollout.note(
            f"Task definition {arn} was deregistered by somebody while this deployment ran. What runs goes "
            "on; a later deployment or rollback registers what it needs again."
        )


def _ours(rollout: Rollout) -> Ours:
    before = rollout.recall("service before") or {}
    deployment_id = rollout.know("deploymentId")
    return Ours(
        deployment_id=deployment_id,
        task_definition=rollout.know("taskDefinitionArn"),
        primary_before=before.get("primary", ""),
        was_seen=bool(rollout.progress.get("seen")),
        wanted=rollout.know("desiredCount"),
        begun=deployment_begun(rollout, deployment_id),
        service_created=rollout.recall(f"created {deployment_id}") or "",
        known_events=frozenset(before.get("newest_events", ())),
    )


def _is_checked(rollout: Rollout, service: EcsService) -> bool:
    """Whether a load balancer or a health check of a container vouches for the tasks."""
    containers = (rollout.recall("task definition") or {}).get("containerDefinitions", [])
    is_behind_balancer = any(one.get("targetGroupArn") for one in service.raw.get("loadBalancers", []))
    return is_behind_balancer or any(one.get("healthCheck") for one in containers)


def _narrate(rollout: Rollout, service: EcsService, ours: Ours) -> None:
    """One line per change of the counts, and one when only the rollout is still under way (R199, R200)."""
    deployment = find(service, ours.deployment_id)
    if deployment is None:
        return
    rollout.show_counts(running=deployment.running, desired=deployment.desired, pending=deployment.pending)
    told = rollout.progress.setdefault("count told", ours.wanted)
    if service.desired != told:
        rollout.progress["count told"] = service.desired
        rollout.remember(COUNT_OF_OTHERS, True)
        rollout.note(
            f"The desired count of Service {service.name} was changed from {told} to {service.desired} while "
            "this deployment ran: by somebody else, or by auto scaling"
        )
    counts = f"{deployment.running}/{deployment.desired}"
    if rollout.progress.get("counts") != counts:
        rollout.progress["counts"] = counts
        rollout.log(f"Waiting for pending tasks to finish. {counts} running ...")
    if deployment.running >= deployment.desired and not rollout.progress.get("settling"):
        rollout.progress["settling"] = True
        rollout.log(f"Waiting for Service {service.name} to reach steady state")


def _diagnose(
    rollout: Rollout, service: EcsService | None, ours: Ours, settings: FailFast
) -> Diagnosis | None:
    """Ask for stopped tasks only when something hints at a failure: the quota of AWS is shared."""
    if service is None or not _is_suspicious(rollout, service, ours):
        return None
    return _tell_diagnosis(rollout, service, ours, settings)


def _tell_diagnosis(
    rollout: Rollout, service: EcsService, ours: Ours, settings: FailFast
) -> Diagnosis | None:
    """Explain the first failure in the log, once. Where AWS refuses to show the tasks, say that once."""
    try:
        diagnosis = diagnose(rollout, service, ours.deployment_id, enough=settings.failedTasks)
    except AwsError as error:
        if not rollout.progress.get("diagnosis refused"):
            rollout.progress["diagnosis refused"] = True
            rollout.log(f"Why tasks stop is not known: {error.sentence}", "warning")
        return None
    if diagnosis is None:
        return None
    rollout.progress.update({_FAILURES: diagnosis.failures, _LIVED: round(diagnosis.lived)})
    if not rollout.progress.get("diagnosed"):
        rollout.progress["diagnosed"] = True
        _note_deregistered(rollout)
        for line in diagnosis.lines:
            rollout.log(line, "error" if line else "info")
    return diagnosis


def _is_suspicious(rollout: Rollout, service: EcsService, ours: Ours) -> bool:
    deployment = find(service, ours.deployment_id)
    known = set((rollout.recall("service before") or {}).get("newest_events", []))
    odd = sum(1 for event in service.events if event.id not in known and _is_odd(event.message))
    starts = sum(1 for event in service.events if event.id not in known and "has started" in event.message)
    failed = deployment.failed if deployment else 0
    evidence = [odd, failed, starts]
    if rollout.progress.get("evidence") == evidence:
        return False
    rollout.progress["evidence"] = evidence
    return bool(odd or failed or starts > 1 or deployment is None)


def _is_odd(message: str) -> bool:
    return any(word in message for word in ("unable to", "unhealthy", "failed", "rolling back"))


def _fail_on(rollout: Rollout, verdict: Verdict, seen: Seen, ours: Ours, diagnosis: Diagnosis | None) -> None:
    if verdict is Verdict.FAILED:
        raise _failure(
            "FAILED", "AWS gave this deployment up: its tasks failed to start.", diagnosis, rollout
        )
    if verdict is Verdict.ROLLED_BACK_BY_AWS:
        raise _failure(
            "ROLLED_BACK_BY_AWS", "The circuit breaker of the service rolled it back.", diagnosis, rollout
        )
    for odd in _ODD:
        if verdict is not odd:
            forget(rollout, odd.value)
            continue
        is_sure = is_certain(verdict, seen.service, ours)
        if is_sure or (
            is_confirmed(rollout, odd.value, seen.begun) and _may_conclude(rollout, verdict, ours, seen)
        ):
            outcome, text = _odd_words(verdict, seen, ours)
            raise _failure(outcome, text, diagnosis, rollout)


def _odd_words(verdict: Verdict, seen: Seen, ours: Ours) -> tuple[str, str]:
    """The outcome of a deployment that others ended, and the sentence for it."""
    service, name = seen.service, seen.name
    if verdict is Verdict.MAYBE_GONE or service is None or service.primary is None:
        return "FAILED", f"Service {name} is no longer there: somebody has deleted it."
    if verdict is Verdict.MAYBE_NO_TASKS:
        return "FAILED", (
            f"The desired count of Service {name} was changed from {ours.wanted} to 0 while this deployment "
            "ran. No task of the new version runs, so nobody knows whether it works."
        )
    primary = service.primary
    if verdict is Verdict.MAYBE_BACK and was_rolled_back_by_aws(service, ours):
        return (
            "ROLLED_BACK_BY_AWS",
            "AWS rolled the service back: the deployment from before is PRIMARY again.",
        )
    if verdict is Verdict.MAYBE_BACK:
        return "SUPERSEDED", (
            f"The deployment from before ({primary.id}) is PRIMARY again, and nothing shows that AWS rolled "
            "back: somebody else has set the service back."
        )
    if primary.task_definition == ours.task_definition:
        return "SUPERSEDED", (
            "Somebody else forced a new deployment of the same task definition meanwhile: deployment "
            f"{primary.id} is PRIMARY, not ours ({ours.deployment_id})."
        )
    return "SUPERSEDED", (
        f"Somebody else deployed this service meanwhile: deployment {primary.id} of "
        f"{primary.task_definition} is PRIMARY, not ours ({ours.deployment_id})."
    )


def _may_conclude(rollout: Rollout, verdict: Verdict, ours: Ours, seen: Seen) -> bool:
    """Ours can only be gone after it was seen once, or when it has stayed away for a minute (rule 10)."""
    if ours.was_seen or verdict is Verdict.MAYBE_SUPERSEDED:
        return True
    first = rollout.progress.setdefault("looked since", seen.begun.timestamp())
    return bool(seen.begun.timestamp() - first >= 60)


def _fail_after_completed(rollout: Rollout, settings: FailFast) -> None:
    """As many failed tasks after ECS has reported it completed as end a deployment before that."""
    failed = rollout.progress.get(_FAILURES, 0) - rollout.progress[_FAILED_BEFORE]
    if 0 < settings.failedTasks <= failed:
        words = f"{_tasks(failed)} of this deployment failed after ECS reported it completed."
        raise _from_notes(rollout.progress["first failure"], "FAILED", words)


def _fail_fast(
    rollout: Rollout, service: EcsService, ours: Ours, diagnosis: Diagnosis, settings: FailFast
) -> None:
    """A fatal reason ends it at once; otherwise so many failed tasks with none ever healthy (P03)."""
    if diagnosis.fatal and settings.onFatalReason:
        raise diagnosis.failure("FAILED")
    if _FAILED_BEFORE in rollout.progress:
        _fail_after_completed(rollout, settings)
        return
    if not settings.failedTasks or diagnosis.failures < settings.failedTasks or diagnosis.any_healthy:
        return
    if has_rollback_breaker(service) and ours.primary_before:
        return  # AWS itself is about to roll back; two rollbacks at once would fight.
    raise diagnosis.failure(
        "FAILED", f"{_tasks(diagnosis.failures)} of this deployment failed, none got healthy. "
    )


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _failure(outcome: str, sentence: str, diagnosis: Diagnosis | None, rollout: Rollout) -> ActionFailed:
    known = diagnosis.as_notes() if diagnosis else rollout.progress.get("first failure")
    if known is None:
        return ActionFailed(outcome, sentence, outcome=outcome)
    return _from_notes(known, outcome, sentence)


def _from_notes(notes: Mapping[str, Any], outcome: str, sentence: str = "") -> ActionFailed:
    return ActionFailed(
        notes.get("code", outcome),
        f"{sentence} {notes.get('message', '')}".strip(),
        outcome=outcome,
        container=notes.get("container", ""),
        exit_code=notes.get("exit_code"),
    )
