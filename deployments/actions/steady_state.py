"""The action that follows a deployment until it truly ended, and says why when it fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aws.types import EcsService
from deployments.actions.base import Action, ActionFailed, Rollout, Seen, action
from deployments.actions.diagnosis import Diagnosis, diagnose
from deployments.actions.fail_fast import FailFast
from deployments.actions.judgement import Ours, Verdict, find, has_rollback_breaker, judge
from deployments.actions.known_service import existed_before
from deployments.actions.patience import patience_ends, watch_patience
from deployments.actions.timing import forget, is_confirmed

_ODD = {
    Verdict.MAYBE_ROLLED_BACK: (
        "ROLLED_BACK_BY_AWS",
        "AWS rolled the service back: the deployment from before is PRIMARY again.",
    ),
    Verdict.MAYBE_SUPERSEDED: (
        "SUPERSEDED",
        "Somebody else deployed this service meanwhile: deployment {primary} is PRIMARY, not ours ({ours}).",
    ),
    Verdict.MAYBE_GONE: ("FAILED", "The service is no longer there: somebody has deleted it."),
}


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
        if verdict is Verdict.COMPLETED:
            if not rollout.progress.get("settling"):
                rollout.log(f"Waiting for Service {name} to reach steady state")
            rollout.log(f"Service {name} reached steady state")
            self.tell_success(rollout, name)
            return True
        diagnosis = _diagnose(rollout, service, ours, self.fail_fast)
        _fail_on(rollout, verdict, seen, ours, diagnosis)
        if service is not None and diagnosis is not None:
            _fail_fast(service, ours, diagnosis, self.fail_fast)
        minutes = self.fail_fast.minutesWithoutHealthyTask
        if service is not None and verdict is Verdict.GOING:
            watch_patience(rollout, service, ours.deployment_id, minutes)
            rollout.rest(until=patience_ends(rollout, minutes))
        return False

    def tell_success(self, rollout: Rollout, name: str) -> None:
        """The last lines of the step."""
        verb = "Updated" if existed_before(rollout) else "Created"
        rollout.log(f"{verb} Service {name} with Arn {rollout.know('serviceArn')}")
        rollout.log("")
        rollout.log(" Deployment Successful.", "success")


def _ours(rollout: Rollout) -> Ours:
    return Ours(
        deployment_id=rollout.know("deploymentId"),
        task_definition=rollout.know("taskDefinitionArn"),
        primary_before=(rollout.recall("service before") or {}).get("primary", ""),
        was_seen=bool(rollout.progress.get("seen")),
    )


def _narrate(rollout: Rollout, service: EcsService, ours: Ours) -> None:
    """One line per change of the counts, and one when only the rollout is still under way (R199, R200)."""
    deployment = find(service, ours.deployment_id)
    if deployment is None:
        return
    rollout.show_counts(running=deployment.running, desired=deployment.desired, pending=deployment.pending)
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
    diagnosis = diagnose(rollout, service, ours.deployment_id, enough=settings.failedTasks)
    if diagnosis is not None and not rollout.progress.get("diagnosed"):
        rollout.progress["diagnosed"] = True
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
    for odd, (outcome, sentence) in _ODD.items():
        if verdict is not odd:
            forget(rollout, odd.value)
        elif is_confirmed(rollout, odd.value, seen.begun) and _may_conclude(rollout, verdict, ours, seen):
            primary = seen.service.primary if seen.service else None
            text = sentence.format(primary=primary.id if primary else "none", ours=ours.deployment_id)
            raise _failure(outcome, text, diagnosis, rollout)


def _may_conclude(rollout: Rollout, verdict: Verdict, ours: Ours, seen: Seen) -> bool:
    """Ours can only be gone after it was seen once, or when it has stayed away for a minute (rule 10)."""
    if ours.was_seen or verdict is Verdict.MAYBE_SUPERSEDED:
        return True
    first = rollout.progress.setdefault("looked since", seen.begun.timestamp())
    return bool(seen.begun.timestamp() - first >= 60)


def _fail_fast(service: EcsService, ours: Ours, diagnosis: Diagnosis, settings: FailFast) -> None:
    """A fatal reason ends it at once; otherwise so many failed tasks with none ever healthy (P03)."""
    if diagnosis.fatal and settings.onFatalReason:
        raise diagnosis.failure("FAILED")
    if not settings.failedTasks or diagnosis.failures < settings.failedTasks or diagnosis.any_healthy:
        return
    if has_rollback_breaker(service) and ours.primary_before:
        return  # AWS itself is about to roll back; two rollbacks at once would fight.
    count = "1 task" if diagnosis.failures == 1 else f"{diagnosis.failures} tasks"
    raise diagnosis.failure("FAILED", f"{count} of this deployment failed, none got healthy. ")


def _failure(outcome: str, sentence: str, diagnosis: Diagnosis | None, rollout: Rollout) -> ActionFailed:
    known = diagnosis.as_notes() if diagnosis else rollout.progress.get("first failure")
    if diagnosis is None and known is None:
        return ActionFailed(outcome, sentence, outcome=outcome)
    notes = known or {}
    return ActionFailed(
        notes.get("code", outcome),
        f"{sentence} {notes.get('message', '')}".strip(),
        outcome=outcome,
        container=notes.get("container", ""),
        exit_code=notes.get("exit_code"),
    )
