"""Approval requests of running actions: create, read decisions, close."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from catalog.artifacts.image_sources import describe_image
from catalog.manifests.fetching import describe_fetch, describe_version
from deployments.approvals.executors import list_executors
from deployments.approvals.links import build_approval_link
from deployments.approvals.live import publish_approvals_changed
from deployments.approvals.plan import ApprovalPlan, build_approval_plan, find_stage_caller
from deployments.approvals.verdicts import ApprovalTally, tally_decisions
from deployments.engine.reconcile_context import ReconcileContext, update_execution_status
from deployments.engine.steps.inputs import needs_digest
from deployments.engine.steps.manifest_policies import check_image_policies
from deployments.execution.events import notify_approval
from deployments.models import Approval, StepExecution
from pipelines.definition.approver_groups import describe_unknown_group, find_groups
from rbac.audit import record_audit_entry
from rbac.models import User, UserGroup
from steps.actions.base import ActionFailed
from steps.actions.context import ApprovalRequest, ApprovalState
from steps.states import Status
from web.clock import get_database_time

if TYPE_CHECKING:
    from deployments.engine.steps.context import EngineStepContext


class ApprovalRequester:
    """Approval request of one action, written with the commit of its phase."""

    def __init__(self, context: "EngineStepContext") -> None:
        self._context = context
        self._new: tuple[Approval, list[UserGroup]] | None = None
        self._checked: tuple[Approval, ApprovalPlan] | None = None

    def request(self, request: ApprovalRequest) -> None:
        """Request the approval once; the log names its approvers and its plan."""
        if self._rows(request.key).exists():
            return
        context = self._context
        scope = context.reconcile_context.execution.scope
        groups, missing = find_groups(scope, request.groups)
        if missing:
            raise ActionFailed(
                "NO_SUCH_GROUP",
                (f"The approval has no approvers: {describe_unknown_group(missing[0], scope)}."),
            )
        self._new = (self._row(request), groups)
        until = f"{self._new[0].expires_at:%Y-%m-%d %H:%M:%S} UTC"
        context.log(f"Waiting for approval by {self._words(request)} until {until}")
        able = self._count_able(groups, request)
        if able < request.minimum:
            who = " who did not start this run" if request.without_executor else ""
            text = (
                f"These groups have {able} members{who}, and {request.minimum} have to approve: "
                "add people to them."
            )
            context.log(text, "warning")

    def _count_able(self, groups: Sequence[UserGroup], request: ApprovalRequest) -> int:
        """Return how many users may decide."""
        members = User.objects.filter(user_groups__in=groups, is_active=True).distinct()
        if request.without_executor:
            members = members.exclude(pk__in=list_executors(self._context.reconcile_context.execution))
        return members.count()

    def flush(self) -> None:
        """Write the request; inside a fenced commit."""
        if self._checked is not None:
            checked, ahead = self._checked
            Approval.objects.filter(pk=checked.pk, status=Approval.Status.WAITING).update(
                plan=json.dumps(ahead.document, default=str),
                plan_hash=ahead.diff,
                planned_at=self._context.runtime.now(),
                refreshes_completed=checked.refreshes_requested,
            )
            self._checked = None
            publish_approvals_changed(checked.pk)
        if self._new is None:
            return
        row, groups = self._new
        row.save(force_insert=True)
        row.groups.set(groups)
        self._new = None
        after = {"step": row.step.identifier, "groups": row.group_names, "minimum": row.minimum_approvals}
        record_audit_entry(actor=None, action="approval.ask", thing=row, after=after)
        notify_approval(row, self._context.reconcile_context.mask, build_approval_link(row))
        publish_approvals_changed(row.pk)

    def get_state(self, key: str) -> ApprovalState:
        """Return the state of the approval; a decision or the deadline closes it in a separate commit."""
        row = self._rows(key).get()
        counted = tally_decisions(row, row.decisions.all())
        while row.status == Approval.Status.WAITING:
            verdict = self._verdict(row, counted)
            if verdict == Approval.Status.WAITING:
                self._check(row)
                self._context.wait_for_decision(row.expires_at)
                break
            self._close(row, verdict)
            row = self._rows(key).get()
            counted = tally_decisions(row, row.decisions.all())
        return ApprovalState(row.status, counted.approvers, counted.inputs, counted.by, counted.comment)

    def withdraw(self, key: str) -> None:
        """Withdraw an open approval in a separate commit."""
        for row in self._rows(key).filter(status=Approval.Status.WAITING):
            self._close(row, Approval.Status.WITHDRAWN)

    def _check(self, row: Approval) -> None:
        """Compute the plan, at first and on request."""
        if not row.is_being_refreshed:
            return
        # Delegates make the reads if the connector uses them.
        ahead = build_approval_plan(self._context.step, lambda stage: find_stage_caller(self._context, stage))
        if row.plan_hash and row.plan_hash != ahead.diff:
            text = "The plan has changed: review and approve it again"
            self._context.log(text, "warning")
        self._pin_inputs(ahead)
        self._checked = (row, ahead)

    def _pin_inputs(self, ahead: ApprovalPlan) -> None:
        """Let the run use the image and the files of its first plan, which the approvers see.

        Written with the plan. What a step reads at a location that only the run knows is read then. Raises
        `ActionFailed` if a policy rule refuses the image.
        """
        context, reconcile_context = self._context, self._context.reconcile_context
        if needs_digest(reconcile_context.execution.artifact) and not needs_digest(ahead.artifact):
            for message in check_image_policies(reconcile_context.execution, ahead.artifact):
                context.log(message, "warning")
            reconcile_context.pin_artifact(ahead.artifact)
            context.log(describe_image(ahead.artifact))
        steps = {step.pk: step for step in reconcile_context.rows.all_steps}
        stages = {stage.pk: stage for stage in reconcile_context.rows.stages}
        for source in ahead.sources:
            if source.step is None:
                reconcile_context.pin_source(source.number, source.row, stages[source.stage.pk])
            else:
                reconcile_context.pin_own_source(steps[source.step.pk], source.row)
        for line in dict.fromkeys(
            describe_version(source.row) or describe_fetch(source.row) for source in ahead.sources
        ):
            context.log(line)

    def _rows(self, key: str) -> QuerySet[Approval]:
        return Approval.objects.filter(step=self._context.step, attempt=self._context.attempt, key=key)

    def _verdict(self, row: Approval, counted: ApprovalTally) -> str:
        """Return the verdict; a decision before the deadline counts at any later time."""
        if counted.verdict != Approval.Status.WAITING:
            return counted.verdict
        is_late = self._context.runtime.now() >= row.expires_at
        return Approval.Status.EXPIRED if is_late else Approval.Status.WAITING

    def _close(self, row: Approval, verdict: str) -> None:
        """Close the approval if no decision or diff was added since the read."""
        context = self._context
        with context.commit():
            read = Approval.objects.filter(pk=row.pk, status=Approval.Status.WAITING)
            same = read.filter(decision_count=row.decision_count, plan_hash=row.plan_hash)
            if same.update(status=verdict, ended_at=context.runtime.now()):
                update_waiting_status(context.reconcile_context, context.step, Status.RUNNING)
                record_audit_entry(actor=None, action=f"approval.{verdict.lower()}", thing=row)
                publish_approvals_changed(row.pk)

    def _row(self, request: ApprovalRequest) -> Approval:
        context, step = self._context, self._context.step
        now = context.runtime.now()
        deadline = step.timeout_at or now + timedelta(seconds=step.timeout_seconds)
        return Approval(
            execution=context.reconcile_context.execution,
            step=step,
            attempt=context.attempt,
            key=request.key,
            message=request.message,
            group_names=list(request.groups),
            minimum_approvals=request.minimum,
            excludes_executor=request.without_executor,
            inputs=[dict(approver_input) for approver_input in request.inputs],
            includes_history=request.with_history,
            requested_at=now,
            expires_at=min(request.expires_at or deadline, deadline),
        )

    def _words(self, request: ApprovalRequest) -> str:
        people = "1 member" if request.minimum == 1 else f"{request.minimum} members"
        but = ", but not by who started this run" if request.without_executor else ""
        return f"{people} of {', '.join(request.groups)}{but}"


def update_waiting_status(reconcile_context: ReconcileContext, step: StepExecution, status: Status) -> None:
    """Show the step as waiting for approval, or as going on; inside a commit."""
    if step.status != status:
        step.status = status
        step.save(update_fields=["status"])
    update_execution_status(reconcile_context)


def withdraw_approvals(step: StepExecution) -> None:
    """Withdraw the approvals of a step that ended; inside a commit."""
    open_approvals = Approval.objects.filter(step=step, status=Approval.Status.WAITING)
    if open_approvals.update(status=Approval.Status.WITHDRAWN, ended_at=get_database_time()):
        publish_approvals_changed()
