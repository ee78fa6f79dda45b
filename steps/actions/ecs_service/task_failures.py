"""Signs of failure of an ECS deployment: read the stopped tasks once, and fail early (P03)."""

from collections.abc import Mapping
from typing import Any

from aws.apis.ecs_types import EcsService
from aws.errors import AwsError, Denied, NotFound
from steps.actions.base import ActionFailed
from steps.actions.context import StepContext
from steps.actions.ecs_service.deployment_health import (
    FailFast,
    OwnDeployment,
    find_deployment,
    has_rollback_breaker,
)
from steps.actions.ecs_service.diagnosis import Diagnosis, diagnose_deployment
from steps.actions.ecs_service.snapshots import get_deployment_start

# Progress keys: failed tasks, those before ECS reported completion, and the lifetime of the last one.
FAILURES_KEY, EARLIER_FAILURES_KEY, LIFETIME_KEY = (
    "failed tasks",
    "failed before completed",
    "seconds the last one lived",
)


def build_own_deployment(context: StepContext) -> OwnDeployment:
    before = context.load_for_rollback("service before") or {}
    deployment_id = context.get_output("deploymentId")
    return OwnDeployment(
        deployment_id=deployment_id,
        task_definition=context.get_output("taskDefinitionArn"),
        primary_before=before.get("primary", ""),
        was_observed=bool(context.progress.get("seen")),
        desired_count=context.get_output("desiredCount"),
        started_at=get_deployment_start(context, deployment_id),
        service_created=context.load_for_rollback(f"created {deployment_id}") or "",
        known_events=frozenset(before.get("newest_events", ())),
    )


def diagnose_if_suspicious(
    context: StepContext, service: EcsService | None, own_deployment: OwnDeployment, settings: FailFast
) -> Diagnosis | None:
    """Read stopped tasks only at a sign of failure: the quota of AWS is shared."""
    if service is None or not _is_suspicious(context, service, own_deployment):
        return None
    return log_first_diagnosis(context, service, own_deployment, settings)


def log_first_diagnosis(
    context: StepContext, service: EcsService, own_deployment: OwnDeployment, settings: FailFast
) -> Diagnosis | None:
    """Log the first failure, or AWS's refusal to list the tasks, once."""
    try:
        diagnosis = diagnose_deployment(
            context, service, own_deployment.deployment_id, enough=settings.failedTasks
        )
    except AwsError as error:
        if not context.progress.get("diagnosis refused"):
            context.progress["diagnosis refused"] = True
            context.log(f"The stopped reason of tasks is not available: {error.display_message}", "warning")
        return None
    if diagnosis is None:
        return None
    context.progress.update({FAILURES_KEY: diagnosis.failures, LIFETIME_KEY: round(diagnosis.lived)})
    if not context.progress.get("diagnosed"):
        context.progress["diagnosed"] = True
        _note_deregistered_revision(context)
        for line in diagnosis.lines:
            context.log(line, "error" if line else "info")
    return diagnosis


def _note_deregistered_revision(context: StepContext) -> None:
    """Add a note about a deregistered revision; the read happens only after task failures."""
    arn = context.get_output("taskDefinitionArn")
    try:
        is_active = context.ecs.describe_task_definition(arn).is_active
    except (Denied, NotFound):
        return
    if not is_active:
        context.add_note(
            f"Task definition {arn} was deregistered outside Slipway during this deployment. Running tasks "
            f"continue; a later deployment or rollback registers it again."
        )


def _is_suspicious(context: StepContext, service: EcsService, own_deployment: OwnDeployment) -> bool:
    deployment = find_deployment(service, own_deployment.deployment_id)
    known_ids = set((context.load_for_rollback("service before") or {}).get("newest_events", []))
    suspicious = sum(
        1 for event in service.events if event.id not in known_ids and _is_suspicious_event(event.message)
    )
    starts = sum(
        1 for event in service.events if event.id not in known_ids and "has started" in event.message
    )
    failed = deployment.failed if deployment else 0
    evidence = [suspicious, failed, starts]
    if context.progress.get("evidence") == evidence:
        return False
    context.progress["evidence"] = evidence
    return bool(suspicious or failed or starts > 1 or deployment is None)


def _is_suspicious_event(message: str) -> bool:
    return any(word in message for word in ("unable to", "unhealthy", "failed", "rolling back"))


def fail_fast(
    context: StepContext,
    service: EcsService,
    own_deployment: OwnDeployment,
    diagnosis: Diagnosis,
    settings: FailFast,
) -> None:
    """Fail on a fatal reason, or after too many failed tasks with none ever healthy (P03)."""
    if diagnosis.fatal and settings.onFatalReason:
        raise diagnosis.failure("FAILED")
    if EARLIER_FAILURES_KEY in context.progress:
        fail_after_completed(context, settings)
        return
    if not settings.failedTasks or diagnosis.failures < settings.failedTasks or diagnosis.any_healthy:
        return
    if has_rollback_breaker(service) and own_deployment.primary_before:
        return  # AWS itself is about to roll back; two rollbacks at once would fight.
    raise diagnosis.failure(
        "FAILED", f"{_format_task_count(diagnosis.failures)} of this deployment failed, none became healthy. "
    )


def fail_after_completed(context: StepContext, settings: FailFast) -> None:
    """Fail after too many failed tasks since ECS reported completion."""
    failed = context.progress.get(FAILURES_KEY, 0) - context.progress[EARLIER_FAILURES_KEY]
    if 0 < settings.failedTasks <= failed:
        sentence = f"{_format_task_count(failed)} of this deployment failed after ECS reported it completed."
        raise build_failure_from_notes(context.progress["first failure"], "FAILED", sentence)


def _format_task_count(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def build_failure(
    outcome: str, sentence: str, diagnosis: Diagnosis | None, context: StepContext
) -> ActionFailed:
    notes = diagnosis.as_notes() if diagnosis else context.progress.get("first failure")
    if notes is None:
        return ActionFailed(outcome, sentence, outcome=outcome)
    return build_failure_from_notes(notes, outcome, sentence)


def build_failure_from_notes(notes: Mapping[str, Any], outcome: str, sentence: str = "") -> ActionFailed:
    return ActionFailed(
        notes.get("code", outcome),
        f"{sentence} {notes.get('message', '')}".strip(),
        outcome=outcome,
        container=notes.get("container", ""),
        exit_code=notes.get("exit_code"),
        last_output=notes.get("last_output", ()),
        advice=notes.get("advice", ""),
    )
