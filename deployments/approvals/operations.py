"""Operations on approvals: approve, reject, update the plan."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F

from deployments.approvals.executors import list_executors
from deployments.approvals.live import publish_approvals_changed
from deployments.approvals.verdicts import tally_decisions
from deployments.engine.lease import is_abort_requested, wake_execution
from deployments.journal.secret_values import build_stage_mask
from deployments.log import NewLogLine, store_lines
from deployments.models import Approval, ApprovalDecision, Execution
from deployments.tasks import request_reconcile
from guards.limits import APPROVAL_COMMENT_CHARACTERS, APPROVAL_INPUT_CHARACTERS
from rbac.archive_guards import lock_scope
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import is_allowed_by_key, require
from steps.kinds.approval import APPROVAL_UNIT
from steps.states import TERMINAL_STATUSES
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

VIEW: Final = "core_pipeline_view"
EXECUTE: Final = "core_pipeline_execute"
# Maximum age of a plan for an approval.
PLAN_MAX_AGE: Final = timedelta(minutes=15)
PLAN_CHANGED_MESSAGE = "The plan has changed. Review it again, then decide."
_CLOSED_MESSAGES = {
    Approval.Status.APPROVED: "The step is already approved.",
    Approval.Status.REJECTED: "The step is already rejected.",
    Approval.Status.WITHDRAWN: "The step has ended. No approval is required.",
}
ApprovalVerdict = ApprovalDecision.Verdict


class NotAnApprover(PermissionDenied):
    """Error raised for a user who may view the approval but is not an approver."""


def approve_step(
    *,
    actor: User,
    approval: Approval,
    diff: str,
    comment: str = "",
    inputs: Mapping[str, Any] | None = None,
) -> ApprovalDecision:
    """Approve the plan that `diff` identifies; the engine's next pass counts the decision.

    Raises `NotAnApprover`, `BadInput` for an invalid comment or inputs. Raises `Conflict` after the deadline,
    after a decision, or if the plan has changed.
    """
    return _decide(actor, approval, ApprovalVerdict.APPROVE, diff, comment, inputs or {})


def reject_step(*, actor: User, approval: Approval, diff: str, comment: str = "") -> ApprovalDecision:
    """Reject the plan: one rejection is enough. Raises the errors of `approve`."""
    return _decide(actor, approval, ApprovalVerdict.REJECT, diff, comment, {})


def request_plan_update(*, actor: User, approval: Approval) -> None:
    """Request a new plan; if it differs, decisions about the old one do not count.

    Raises `Conflict` if the approval is closed, or a restore has paused the execution.
    """
    require(actor, VIEW, approval)
    now = get_database_time()
    with transaction.atomic():
        lock_scope(approval.execution.scope_id)
        execution = Execution.objects.select_for_update().get(pk=approval.execution_id)
        _refuse_restored(execution)
        waiting_approvals = Approval.objects.filter(pk=approval.pk, status=Approval.Status.WAITING)
        if not waiting_approvals.update(refreshes_requested=F("refreshes_requested") + 1):
            raise Conflict("This approval is closed.")
        record_audit_entry(actor=actor, action="approval.check", thing=approval)
        wake_execution(approval.execution_id, now)
        transaction.on_commit(lambda: request_reconcile(approval.execution_id))


def explain_refusal(actor: User, approval: Approval) -> str:
    """Return the reason why this user's decision would not count; empty if it would."""
    if not approval.groups.filter(users=actor).exists():
        return f"Only members of {', '.join(approval.group_names)} can approve or reject."
    if approval.excludes_executor and actor.pk in list_executors(approval.execution):
        return "You started this run. Another user must approve or reject it."
    return "" if is_allowed_by_key(actor, EXECUTE) else f"Your API key does not include {EXECUTE}."


def _decide(
    actor: User, approval: Approval, verdict: str, diff: str, comment: str, inputs: Mapping[str, Any]
) -> ApprovalDecision:
    require(actor, VIEW, approval)
    comment = _validate_comment(comment)
    with transaction.atomic():
        lock_scope(approval.execution.scope_id)
        # The engine's commits and other people's decisions wait here, or are seen below.
        execution = Execution.objects.select_for_update().get(pk=approval.execution_id)
        now = get_database_time()
        row = Approval.objects.select_related("execution", "step__stage").get(pk=approval.pk)
        if refusal := explain_refusal(actor, row):
            raise NotAnApprover(refusal)
        _refuse_late(row, execution, now)
        earlier = [
            earlier_decision
            for earlier_decision in row.decisions.order_by("pk")
            if earlier_decision.plan_hash == row.plan_hash
        ]
        _refuse_repeated(actor, row, earlier, diff, now)
        values = _validate_inputs(row, inputs, earlier) if verdict == ApprovalVerdict.APPROVE else {}
        _count(row, diff, now)
        decision = ApprovalDecision.objects.create(
            approval=row,
            by=actor,
            by_name=actor.get_username(),
            verdict=verdict,
            comment=comment,
            inputs=values,
            plan_hash=diff,
            at=now,
        )
        _log_decision(row, decision, len(earlier) + 1)
        after = {"diff": diff, "comment": comment, "inputs": values}
        record_audit_entry(actor=actor, action=f"approval.{verdict.lower()}", thing=row, after=after)
        publish_approvals_changed(row.pk)
        wake_execution(row.execution_id, now)
        transaction.on_commit(lambda: request_reconcile(row.execution_id))
    return decision


def _log_decision(row: Approval, decision: ApprovalDecision, number: int) -> None:
    """Write the decision into the log of the step."""
    comment = f": {_collapse_whitespace(decision.comment)}" if decision.comment else ""
    if decision.verdict == ApprovalVerdict.REJECT:
        texts = [f"{decision.by_name} rejects this{comment}"]
    else:
        texts = [f"{decision.by_name} approves this ({number} of {row.minimum_approvals}){comment}"]
        texts += [f"{name}: {_collapse_whitespace(value)}" for name, value in decision.inputs.items()]
    step = row.step
    lines = [NewLogLine(decision.at, step.pk, step.identifier, APPROVAL_UNIT, "info", text) for text in texts]
    store_lines(row.execution_id, lines, mask=build_stage_mask(step.stage))


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


def _refuse_restored(execution: Execution) -> None:
    if execution.restored_at is not None:
        raise Conflict(
            "The database was restored from a backup. First decide on the execution whether it goes on."
        )


def _refuse_late(row: Approval, execution: Execution, now: datetime) -> None:
    _refuse_restored(execution)
    if row.status in _CLOSED_MESSAGES:
        raise Conflict(_CLOSED_MESSAGES[Approval.Status(row.status)])
    if row.status == Approval.Status.EXPIRED or now >= row.expires_at:
        raise Conflict(f"The approval expired at {row.expires_at:%Y-%m-%d %H:%M:%S} UTC.")
    is_ending = execution.is_over or execution.final_status or execution.rolling_back
    if is_ending or row.step.status in TERMINAL_STATUSES or is_abort_requested(execution.pk):
        raise Conflict("The execution is ending. No decision is required.")


def _refuse_repeated(
    actor: User, row: Approval, earlier: list[ApprovalDecision], diff: str, now: datetime
) -> None:
    if not row.plan_hash:
        raise Conflict("The plan is being computed. Review it in a few seconds, then decide.")
    if row.planned_at and now - row.planned_at > PLAN_MAX_AGE:
        raise Conflict("The plan is outdated. Check again, then decide.")
    if diff != row.plan_hash:
        raise Conflict(PLAN_CHANGED_MESSAGE)
    if any(decision.by_id == actor.pk for decision in earlier):
        raise Conflict("You have already decided.")
    if tally_decisions(row, earlier).verdict != Approval.Status.WAITING:
        raise Conflict("Another user has just decided.")


def _count(row: Approval, diff: str, now: datetime) -> None:
    """Check the condition again, in the statement that inserts the decision."""
    open_ = Approval.objects.filter(
        pk=row.pk, status=Approval.Status.WAITING, plan_hash=diff, expires_at__gt=now
    )
    if not open_.filter(decision_count=row.decision_count).update(decision_count=F("decision_count") + 1):
        raise Conflict(PLAN_CHANGED_MESSAGE)


def _validate_comment(comment: str) -> str:
    text = comment.strip()
    if len(text) > APPROVAL_COMMENT_CHARACTERS or "\0" in text:
        message = f"at most {APPROVAL_COMMENT_CHARACTERS} characters, and no NUL"
        raise BadInput("The comment is not valid.", errors=[{"path": "comment", "message": message}])
    return text


def _validate_inputs(
    row: Approval, inputs: Mapping[str, Any], earlier: list[ApprovalDecision]
) -> dict[str, str]:
    """Return the validated inputs of an approver; the first approver sets them for later ones."""
    inputs_by_name = {spec["name"]: spec for spec in row.inputs}
    errors = [
        {"path": f"inputs.{name}", "message": ("is not an input of this approval")}
        for name in set(inputs) - set(inputs_by_name)
    ]
    values = {name: inputs.get(name, spec["defaultValue"]) for name, spec in inputs_by_name.items()}
    if earlier and not inputs:
        values = dict(earlier[0].inputs)
    for name, value in values.items():
        if fault := _find_input_error(inputs_by_name[name], value):
            errors.append({"path": f"inputs.{name}", "message": fault})
    if errors:
        raise BadInput("The approver inputs are not valid.", errors=errors)
    if earlier and values != earlier[0].inputs:
        raise Conflict(f"{earlier[0].by_name} approved with other inputs. Use the same inputs, or reject.")
    return values


def _find_input_error(spec: Mapping[str, Any], value: Any) -> str:
    if not isinstance(value, str) or len(value) > APPROVAL_INPUT_CHARACTERS or "\0" in value:
        return f"must be a text of {APPROVAL_INPUT_CHARACTERS} characters at most"
    if not value:
        return "is required" if spec["required"] else ""
    allowed = spec["allowedValues"]
    return f"must be one of {', '.join(allowed)}" if allowed and value not in allowed else ""
