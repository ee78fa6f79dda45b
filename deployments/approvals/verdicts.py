"""Verdict of the decisions about an approval."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from deployments.models import Approval, ApprovalDecision


@dataclass(frozen=True)
class ApprovalTally:
    """Current verdict: WAITING, APPROVED or REJECTED, with the decisive users."""

    verdict: str
    approvers: tuple[str, ...] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    by: str = ""
    comment: str = ""


def tally_decisions(approval: Approval, decisions: Iterable[ApprovalDecision]) -> ApprovalTally:
    """Count the decisions about the current plan: the first rejection, or enough approvals, decide."""
    approvers: list[str] = []
    inputs: dict[str, str] = {}
    for decision in sorted(decisions, key=lambda row: row.pk):
        # A rejection of one plan is no approval of another.
        if decision.verdict == ApprovalDecision.Verdict.REJECT:
            return ApprovalTally(
                Approval.Status.REJECTED, tuple(approvers), inputs, decision.by_name, decision.comment
            )
        if decision.plan_hash != approval.plan_hash:
            continue
        approvers.append(decision.by_name)
        inputs = dict(decision.inputs)
        if len(approvers) >= approval.minimum_approvals:
            return ApprovalTally(Approval.Status.APPROVED, tuple(approvers), inputs)
    return ApprovalTally(Approval.Status.WAITING, tuple(approvers), inputs)


def build_approval_summary(approval: Approval) -> dict[str, Any]:
    """Return an approval for lists and steps; its decisions must be loaded."""
    counted = tally_decisions(approval, approval.decisions.all())
    return {
        "id": str(approval.pk),
        "status": approval.status,
        "message": approval.message,
        "groups": approval.group_names,
        "minimum": approval.minimum_approvals,
        "given": len(counted.approvers),
        "disallow_executor": approval.excludes_executor,
        "requested_at": approval.requested_at.isoformat(),
        "expires_at": approval.expires_at.isoformat(),
        "ended_at": approval.ended_at.isoformat() if approval.ended_at else None,
    }
