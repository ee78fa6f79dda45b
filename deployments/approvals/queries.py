"""Queries for approvals that a user may view or decide."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from deployments.approvals.executors import filter_executed_attempts, list_run_executors
from deployments.approvals.operations import explain_refusal
from deployments.approvals.verdicts import build_approval_summary, tally_decisions
from deployments.models import Approval, ApprovalDecision
from rbac.models import Scope, User
from rbac.policy import Grants, filter_visible, get_resource_locations

VIEW = "core_pipeline_view"
_RELATED_ROWS = ("execution__pipeline__scope", "execution__scope", "execution__started_by", "step__stage")


def list_visible_approvals(principal: User, scope: Scope | None = None) -> QuerySet[Approval]:
    """Return the approvals of visible executions, with the columns of a list."""
    rows = Approval.objects.select_related(*_RELATED_ROWS).prefetch_related("decisions")
    plain = rows.defer("plan", "execution__yaml", "execution__pipeline__yaml")
    return filter_visible(principal, VIEW, plain, scope)


def list_waiting_approvals(principal: User, scope: Scope | None = None) -> QuerySet[Approval]:
    """Return the approvals that wait for the decision of this person."""
    own_decisions = ApprovalDecision.objects.filter(
        approval=OuterRef("pk"), by=principal, plan_hash=OuterRef("plan_hash")
    )
    return (
        list_visible_approvals(principal, scope)
        .filter(status=Approval.Status.WAITING, groups__in=principal.user_groups.all())
        .alias(run=Coalesce("execution__first_attempt", "execution_id"))
        .exclude(Q(excludes_executor=True) & Exists(filter_executed_attempts(principal)))
        .exclude(Exists(own_decisions))
        .distinct()
    )


def count_waiting_approvals(people: Sequence[User]) -> Counter[int]:
    """Return the number of waiting approvals of each user, in a constant number of queries.

    These users have no API key.
    """
    keys = {user.pk for user in people}
    columns = ("pk", "plan_hash", "excludes_executor", "run", "groups__users")
    open_ = Approval.objects.filter(status=Approval.Status.WAITING, groups__users__in=keys)
    in_runs = open_.annotate(run=Coalesce("execution__first_attempt", "execution_id"))
    rows = set(in_runs.values_list(*columns))
    if not rows:
        return Counter()
    waiting = {"approval__status": Approval.Status.WAITING, "by__in": keys}
    decided = set(ApprovalDecision.objects.filter(**waiting).values_list("approval_id", "by_id", "plan_hash"))
    executing = list_run_executors({row[3] for row in rows})
    grants, places = Grants(people), get_resource_locations(Approval, {row[0] for row in rows})
    users_by_id = {user.pk: user for user in people}
    return Counter(
        person
        for pk, diff, excludes_executor, run, person in rows
        if pk in places
        and (pk, person, diff) not in decided
        and not (excludes_executor and (run, person) in executing)
        and VIEW in grants.get_permissions(users_by_id[person], places[pk])
    )


def build_approval_document(approval: Approval, principal: User) -> dict[str, Any]:
    """Return the document of an approval, with its plan and the user's permission to decide."""
    execution = approval.execution
    is_open = approval.status == Approval.Status.WAITING
    decisions = sorted(approval.decisions.all(), key=lambda decision: decision.pk)
    # Later approvers approve or reject the values of the first one.
    settled = tally_decisions(approval, decisions).inputs
    refusal = explain_refusal(principal, approval) if is_open else ""
    has_decided = any(
        decision.by_id == principal.pk and decision.plan_hash == approval.plan_hash for decision in decisions
    )
    return {
        **build_approval_summary(approval),
        "execution": {
            "id": str(execution.pk),
            "number": execution.number,
            "pipeline": execution.pipeline.name,
            "scope": execution.scope.path,
            "started_by": execution.started_by.get_username() if execution.started_by else None,
        },
        "step": approval.step.identifier,
        "inputs": [
            {
                **approver_input,
                "defaultValue": settled.get(approver_input["name"], approver_input["defaultValue"]),
            }
            for approver_input in approval.inputs
        ],
        "diff": approval.plan_hash,
        "ahead": json.loads(approval.plan or "{}"),
        "checked_at": approval.planned_at.isoformat() if approval.planned_at else None,
        "decisions": [_build_decision(decision, approval) for decision in decisions],
        "checking": approval.is_being_refreshed,
        "can_decide": is_open and not refusal and not has_decided,
        "why_not": refusal or ("You have already decided." if is_open and has_decided else ""),
    }


def _build_decision(decision: ApprovalDecision, approval: Approval) -> dict[str, Any]:
    return {
        "by": decision.by_name,
        "verdict": decision.verdict,
        "comment": decision.comment,
        "inputs": decision.inputs,
        "at": decision.at.isoformat(),
        "counts": decision.plan_hash == approval.plan_hash,
    }
