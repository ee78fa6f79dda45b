"""Pages of approvals: list, detail and decision."""

import uuid
from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from deployments.approvals import operations
from deployments.approvals import queries as approvals_queries
from deployments.approvals.links import ApprovalLinkInvalid, read_approval_link
from deployments.approvals.live import APPROVALS_NAME
from deployments.approvals.verdicts import build_approval_summary
from deployments.execution import queries
from deployments.models import Approval, Execution
from rbac.policy import NotVisible
from web.forms.pages import PageRequest, get_list_topics, get_visible, require_sign_in
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

VIEW: Final = "core_pipeline_view"
MOST_EARLIER: Final = 5


@require_sign_in
@require_safe
def list_approvals(request: PageRequest) -> HttpResponse:
    """List the approvals that wait for the reader, or all, newest first."""
    everything = request.GET.get("show") == "all"
    listed = (
        approvals_queries.list_visible_approvals if everything else approvals_queries.list_waiting_approvals
    )
    page = paginate_queryset(listed(request.user, request.current_scope), request, order="requested_at")
    rows = [(approval, build_approval_summary(approval)) for approval in page.items]
    context = {
        "page": page,
        "rows": rows,
        "everything": everything,
        "topics": get_list_topics(request, APPROVALS_NAME),
    }
    return render(request, "deployments/approvals/list.html", context)


@require_sign_in
@require_safe
def show_approval(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Show one approval: the message, what would be done, who has decided, and the form."""
    return _render_approval(request, _get_approval(request, pk))


@require_sign_in
@require_safe
def open_approval_link(request: PageRequest, token: str) -> HttpResponse:
    """Lead from a message to the page of its approval; nothing is decided. Raises `NotVisible`."""
    try:
        link = read_approval_link(token)
    except ApprovalLinkInvalid as problem:
        raise NotVisible(str(problem)) from problem
    if link.has_expired(timezone.now()):
        messages.warning(request, "This link has expired with its approval.")
        return redirect("approvals")
    approval = _get_approval(request, link.approval_id)
    if link.has_newer_plan(approval):
        messages.warning(request, "The plan was updated after the message. Review it before you decide.")
    return redirect("approval", pk=approval.pk)


@require_sign_in
@require_POST
def decide_approval(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Approve or reject the plan that the page showed."""
    approval = _get_approval(request, pk)
    diff, comment = request.POST.get("diff", ""), request.POST.get("comment", "")
    try:
        if request.POST.get("verdict") == "reject":
            operations.reject_step(actor=request.user, approval=approval, diff=diff, comment=comment)
        else:
            inputs = {
                approver_input["name"]: request.POST.get(f"input-{approver_input['name']}", "")
                for approver_input in approval.inputs
            }
            operations.approve_step(
                actor=request.user, approval=approval, diff=diff, comment=comment, inputs=inputs
            )
    except Problem as problem:
        details = "; ".join(
            f"{error['path'].removeprefix('inputs.')} {error['message']}" for error in problem.errors
        )
        messages.error(request, f"{problem.detail} {details}".strip())
        return _render_approval(request, _get_approval(request, pk), status=problem.status)
    return redirect("execution", pk=approval.execution_id)


@require_sign_in
@require_POST
def update_plan(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Have what would be done worked out again."""
    try:
        operations.request_plan_update(actor=request.user, approval=_get_approval(request, pk))
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("approval", pk=pk)


def _render_approval(request: PageRequest, approval: Approval, status: int = 200) -> HttpResponse:
    """Render the page of an approval; refused input stays in its form."""
    document = approvals_queries.build_approval_document(approval, request.user)
    approver_inputs = document["inputs"]
    fields = [
        (approver_input, request.POST.get(f"input-{approver_input['name']}", approver_input["defaultValue"]))
        for approver_input in approver_inputs
    ]
    # The page compares what it shows with what is now, so that nothing changes under the reader's hand.
    now = f"{approval.status} {approval.decision_count} {approval.plan_hash}"
    shown = request.GET.get("shown", "")
    context = {
        "approval": approval,
        "shown": shown or now,
        "has_changed": bool(shown) and shown != now,
        "is_compared": approval.status == Approval.Status.WAITING
        and (bool(shown) or not approval.is_being_refreshed),
        "document": document,
        "fields": fields,
        "comment": request.POST.get("comment", ""),
        "history": _list_earlier_runs(request, approval) if approval.includes_history else (),
        "is_checking": approval.is_being_refreshed,
        "is_stale": bool(
            approval.planned_at and timezone.now() - approval.planned_at > operations.PLAN_MAX_AGE
        ),
    }
    return render(request, "deployments/approvals/detail.html", context, status=status)


def _list_earlier_runs(request: PageRequest, approval: Approval) -> list[Execution]:
    """The runs of the pipeline before this one, newest first."""
    execution = approval.execution
    earlier = queries.list_visible_executions(request.user).filter(
        pipeline=execution.pipeline, number__lt=execution.number
    )
    return list(earlier.order_by("-created_at")[:MOST_EARLIER])


def _get_approval(request: PageRequest, pk: uuid.UUID) -> Approval:
    rows = Approval.objects.select_related(
        "execution__pipeline__scope", "execution__scope", "execution__started_by", "step__stage"
    )
    return get_visible(request, VIEW, rows.prefetch_related("decisions"), pk=pk)
