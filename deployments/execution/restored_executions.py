"""Executions of a restored database, which pause until a person decides (rule 18)."""

from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Greatest

from deployments.approvals.verdicts import tally_decisions
from deployments.engine.steps.scheduler import read_flow
from deployments.execution.interventions import RESTORED
from deployments.models import Approval, AwsCall, Execution, Interrupt, StepExecution
from steps.kinds.approval import APPROVAL_TYPE
from steps.states import TERMINAL_STATUSES, CallState, Outcome, Status

NOT_APPLIED = "Not applied: the database was restored from a backup."


def pause_open_executions(*, taken_at: datetime, now: datetime) -> int:
    """Pause every open execution of a restored database, drop all requests of people, return the number.

    `taken_at` is when the backup was made. An execution that is paused already stays as it is. One without
    steps, where nobody could be asked, ends.
    """
    Interrupt.objects.filter(applied_at=None).update(applied_at=now, result=NOT_APPLIED)
    open_executions = Execution.objects.exclude(status__in=TERMINAL_STATUSES)
    _raise_fences(open_executions, now)
    _end_executions_without_steps(open_executions, now)
    executions = list(open_executions.filter(restored_at=None).only("pk", "status", "rolling_back"))
    # Their delegate tasks end: after the decision, the calls are made anew, after the reads before them.
    planned = AwsCall.objects.filter(execution__in=executions, state=CallState.PLANNED)
    planned.update(state=CallState.NOT_SENT)
    for execution in executions:
        _pause(execution, taken_at, now)
    return len(executions)


def _raise_fences(executions: QuerySet[Execution], now: datetime) -> None:
    """End the leases under fences that no worker can have had: another restore was at another time."""
    above = Greatest(F("fence") + 1, Value(int(now.timestamp())))
    executions.update(fence=above, lease_owner="", lease_expires_at=None, dispatch_token="")


def _end_executions_without_steps(executions: QuerySet[Execution], now: datetime) -> None:
    """End executions that the engine cannot advance; they have called nothing."""
    has_steps = Exists(StepExecution.objects.filter(stage__execution=OuterRef("pk")))
    executions.filter(~has_steps).update(
        status=Status.ABORTED, outcome=Outcome.ABORTED, ended_at=now, due_at=None
    )


def _pause(execution: Execution, taken_at: datetime, now: datetime) -> None:
    step = _choose_step(execution)
    before_restore = {"status": step.status, "intervention": step.intervention, "execution": execution.status}
    step.intervention = {
        "kind": RESTORED,
        "requested_at": now.isoformat(),
        "until": None,
        "on_timeout": None,
        "taken_at": taken_at.isoformat(),
        "before_restore": before_restore,
    }
    step.status = Status.INTERVENTION_WAITING
    step.save(update_fields=["intervention", "status"])
    Execution.objects.filter(pk=execution.pk).update(
        restored_at=now,
        status=Status.INTERVENTION_WAITING,
        due_at=now,
        dispatch_backoff_until=None,
        waits_for_service="",
        observed_state="",
        recheck_at=None,
    )


def _choose_step(execution: Execution) -> StepExecution:
    """Return the step that shows the question: the current one, else the last one of its stage.

    A stage without steps, which the engine passes over, cannot show it.
    """
    has_steps = Exists(StepExecution.objects.filter(stage=OuterRef("pk")))
    stages = list(execution.stages.filter(has_steps).order_by("position"))
    begun = [stage for stage in stages if stage.status != Status.SKIPPED]
    stage = next((stage for stage in stages if stage.status not in TERMINAL_STATUSES), (begun or stages)[-1])
    sections = StepExecution.Section
    section = sections.ROLLBACK if execution.rolling_back else sections.EXECUTION
    steps = list(stage.steps.filter(section=section).order_by("position")) or list(stage.steps.all())
    return next((step for step in steps if step.status not in TERMINAL_STATUSES), steps[-1])


def list_stale_approvals(execution: Execution) -> list[StepExecution]:
    """Return the approval steps that were approved, and of whose later steps none has sent a write.

    Once one has, the plan is being carried out, and each change is preceded by a new read.
    """
    steps = StepExecution.objects.filter(
        stage__execution=execution, section=StepExecution.Section.EXECUTION
    ).select_related("stage")
    approvals = [step for step in steps.filter(type=APPROVAL_TYPE) if _is_approved(step)]
    return [step for step in approvals if not _is_carried_out(step, steps)]


def _is_approved(step: StepExecution) -> bool:
    approval = Approval.objects.filter(step=step, attempt=step.attempt).first()
    if approval is None or approval.status != Approval.Status.WAITING:
        return approval is not None and approval.status == Approval.Status.APPROVED
    return tally_decisions(approval, approval.decisions.all()).verdict == Approval.Status.APPROVED


def _is_carried_out(approval_step: StepExecution, steps: QuerySet[StepExecution]) -> bool:
    stage = approval_step.stage
    beside = read_flow(stage).list_parallel_steps(approval_step)
    later = Q(stage=stage, position__gt=approval_step.position) | Q(stage__position__gt=stage.position)
    writes = AwsCall.objects.filter(is_write=True).exclude(state__in=(CallState.PLANNED, CallState.NOT_SENT))
    return writes.filter(step__in=steps.filter(later).exclude(pk__in=beside)).exists()


def extend_deadlines(execution: Execution, paused_for: timedelta) -> None:
    """Move the deadlines of open steps, decisions and approvals by the time since the backup.

    Plans of approvals are computed again: AWS may have changed.
    """
    for step in StepExecution.objects.filter(stage__execution=execution).exclude(
        status__in=TERMINAL_STATUSES
    ):
        step.timeout_at = step.timeout_at and step.timeout_at + paused_for
        step.retry_at = step.retry_at and step.retry_at + paused_for
        if step.intervention and step.intervention.get("until"):
            until = datetime.fromisoformat(step.intervention["until"]) + paused_for
            step.intervention = {**step.intervention, "until": until.isoformat()}
        step.save(update_fields=["timeout_at", "retry_at", "intervention"])
    for approval in Approval.objects.filter(execution=execution, status=Approval.Status.WAITING):
        approval.expires_at += paused_for
        approval.save(update_fields=["expires_at"])
    Approval.objects.filter(execution=execution, status=Approval.Status.WAITING).update(
        refreshes_requested=F("refreshes_requested") + 1
    )
