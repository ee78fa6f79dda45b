"""Events of executions: notifications, and ends for the triggers of other pipelines.

They are written in the commit that sets the status. Without a matching rule, one query is all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from deployments.execution.queries import ROLLED_BACK_OUTCOMES
from deployments.models import Approval, ApprovalDecision, Execution, StageExecution, StepExecution
from guards.masks import SecretMask
from notifications.channels.registry import CHANNELS
from notifications.event_texts import (
    ExecutionSubject,
    add_advice,
    describe_approval,
    describe_end,
    describe_intervention,
    describe_rollback,
    describe_start,
)
from notifications.events import EventType, NotificationEvent, ReportedState
from notifications.outbox import COMMIT_KINDS, list_subscribed_events, notify
from pipelines.triggers.commit_origins import CommitOrigin, find_commit_origin
from pipelines.triggers.kinds.pipeline import ABORTED, FAILED, SUCCEEDED, PipelineEnd, record_pipeline_end
from steps.states import OPEN_STATUSES, Outcome, Status
from web.page_paths import get_page_path

_WORST_FIRST: Final = (
    ReportedState.FAILED,
    ReportedState.ABORTED,
    ReportedState.RUNNING,
    ReportedState.SUCCEEDED,
)


def notify_stage_start(execution: Execution, mask: SecretMask, *, is_first: bool) -> None:
    """Notify about the start of an execution, with its first stage; the later ones are reported to commits.

    Otherwise a Git service would order the deployment of a later stage by the end of the execution.
    """
    kinds = CHANNELS.keys() if is_first else COMMIT_KINDS
    if list_subscribed_events(execution.scope, (EventType.EXECUTION_STARTED,), kinds):
        fact = _build_fact(execution, describe_start(), "", mask)
        notify(replace(fact, event=EventType.EXECUTION_STARTED), kinds=kinds)


def notify_end(execution: Execution, mask: SecretMask) -> None:
    """Notify about the end of an execution."""
    events = _list_end_events(execution)
    subscribed = list_subscribed_events(execution.scope, events)
    if not subscribed:
        return
    phrase = describe_end(execution.status, was_rolled_back=execution.outcome == Outcome.ROLLED_BACK)
    fact = _build_fact(execution, phrase, _describe_reason(execution), mask)
    notify(*(replace(fact, event=event) for event in events if event in subscribed))


def record_end(execution: Execution) -> None:
    """Record how an execution ended, for the triggers that follow its pipeline."""
    record_pipeline_end(
        PipelineEnd(
            pipeline=execution.pipeline,
            execution_id=execution.pk,
            number=execution.number,
            result=_get_end_result(execution),
            tag=str(execution.artifact.get("tag") or ""),
            inputs=execution.inputs,
            ended_at=execution.ended_at,
        )
    )


def notify_rollback(execution: Execution, mask: SecretMask, cause: str = "") -> None:
    """Notify about the start of a rollback, with its failure or its requester (P19)."""
    if list_subscribed_events(execution.scope, (EventType.ROLLBACK_STARTED,)):
        fact = _build_fact(execution, describe_rollback(), cause or _describe_reason(execution), mask)
        notify(replace(fact, event=EventType.ROLLBACK_STARTED))


def notify_approval(approval: Approval, mask: SecretMask, link: str) -> None:
    """Notify about a requested approval; `link` is the path that leads to the decision."""
    execution = approval.execution
    if list_subscribed_events(execution.scope, (EventType.APPROVAL_WAITING,)):
        phrase = describe_approval(approval.group_names, _format_time(approval.expires_at))
        fact = _build_fact(execution, phrase, approval.message, mask)
        notify(replace(fact, event=EventType.APPROVAL_WAITING, action_path=link))


def notify_intervention(
    execution: Execution, step: StepExecution, until: datetime | None, mask: SecretMask
) -> None:
    """Notify about a failed step that waits for a decision."""
    if list_subscribed_events(execution.scope, (EventType.INTERVENTION_WAITING,)):
        phrase = describe_intervention(step.name, _format_time(until) if until else "")
        cause = str((step.failure or {}).get("message", ""))
        fact = _build_fact(execution, phrase, cause, mask, step.failure)
        notify(replace(fact, event=EventType.INTERVENTION_WAITING))


def _get_end_result(execution: Execution) -> str:
    if execution.status == Status.ABORTED:
        return ABORTED
    is_success = execution.has_succeeded and execution.outcome not in ROLLED_BACK_OUTCOMES
    return SUCCEEDED if is_success else FAILED


def _list_end_events(execution: Execution) -> tuple[EventType, ...]:
    was_rolled_back = execution.outcome == Outcome.ROLLED_BACK
    back = (EventType.ROLLBACK_ENDED,) if was_rolled_back else ()
    if execution.status in (Status.SUCCESS, Status.IGNORE_FAILED, Status.ROLLED_BACK):
        return back or (EventType.EXECUTION_SUCCEEDED,)
    first = EventType.EXECUTION_ABORTED if execution.status == Status.ABORTED else EventType.EXECUTION_FAILED
    return (first, *back)


def _describe_reason(execution: Execution) -> str:
    return str((execution.failure or {}).get("message", ""))


def _build_fact(
    execution: Execution,
    phrase: str,
    cause: str,
    mask: SecretMask,
    failure: Mapping[str, Any] | None = None,
) -> NotificationEvent:
    """Return the fields of every event about an execution; the caller sets the type.

    `failure` is the one whose output is told, if it is not that of the execution.
    """
    stages = list(execution.stages.only("execution", "status", "skip_reason", "values").order_by("position"))
    # An end names no service that the execution has not deployed.
    deployed = [stage for stage in stages if _has_begun(stage)] if execution.is_over else stages
    subject = ExecutionSubject(
        f"{execution.pipeline.name} #{execution.number}",
        _list_identifiers(deployed, "service"),
        _list_identifiers(deployed, "env"),
    )
    masked_cause = mask.mask_text(cause)
    failure = failure or execution.failure or {}
    # The cause of other events, such as an approval, is not this failure.
    is_cause = cause != "" and cause == failure.get("message")
    advice = mask.mask_text(str(failure.get("advice", ""))) if is_cause else ""
    origin = find_commit_origin(execution.pk) if execution.cause else CommitOrigin()
    return NotificationEvent(
        event=EventType.EXECUTION_FAILED,
        scope=execution.scope,
        text=add_advice(mask.mask_text(subject.describe(phrase, masked_cause)), advice),
        path=get_page_path("execution", execution.pk),
        status=execution.status,
        cause=masked_cause,
        advice=advice,
        pipeline=execution.pipeline.identifier,
        execution=str(execution.pk),
        execution_created_at=execution.created_at,
        services=_list_identifiers(stages, "service"),
        environments=_list_identifiers(stages, "env"),
        deployments=_list_deployments(stages),
        variables=execution.inputs,
        repository=origin.repository,
        commit=origin.commit,
        git_service=origin.git_service,
        started_by=execution.started_by.get_username() if execution.started_by else "",
        approved_by=_list_approvers(execution),
        last_output=tuple(mask.mask_text(line) for line in failure.get("last_output", ())),
    )


def _list_approvers(execution: Execution) -> tuple[str, ...]:
    """Return the names of the users who approved, each once, in the order of their decisions."""
    decisions = ApprovalDecision.objects.filter(
        approval__execution=execution, verdict=ApprovalDecision.Verdict.APPROVE
    )
    return tuple(dict.fromkeys(decisions.order_by("at", "pk").values_list("by_name", flat=True)))


def _list_identifiers(stages: Iterable[StageExecution], key: str) -> tuple[str, ...]:
    """Return the identifiers of the services, or environments, each once, in the order of the stages."""
    identifiers = (str(stage.values[key]["identifier"]) for stage in stages if stage.values.get(key))
    return tuple(dict.fromkeys(identifiers))


def _has_begun(stage: StageExecution) -> bool:
    """Return whether a stage has begun; one with the outputs of an earlier attempt is skipped.

    The end of an execution also ends the stage that would have begun next: its reason says so.
    """
    return stage.status not in (Status.QUEUED, Status.SKIPPED) and not stage.skip_reason


def _list_deployments(stages: Iterable[StageExecution]) -> tuple[tuple[str, ReportedState], ...]:
    """Return the environments of the stages that have begun, each with the worst state of its stages."""
    by_environment: dict[str, list[StageExecution]] = {}
    for stage in stages:
        if stage.status == Status.QUEUED or _has_begun(stage):
            for environment in _list_identifiers([stage], "env"):
                by_environment.setdefault(environment, []).append(stage)
    return tuple(
        (environment, min(map(_get_reported_state, group), key=_WORST_FIRST.index))
        for environment, group in by_environment.items()
        if any(_has_begun(stage) for stage in group)
    )


def _get_reported_state(stage: StageExecution) -> ReportedState:
    """Return the state of a stage that is not skipped."""
    if stage.status in (Status.SUCCESS, Status.IGNORE_FAILED):
        return ReportedState.SUCCEEDED
    if stage.status == Status.ABORTED:
        return ReportedState.ABORTED
    return ReportedState.RUNNING if stage.status in OPEN_STATUSES else ReportedState.FAILED


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
