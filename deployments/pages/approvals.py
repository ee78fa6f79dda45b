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
from deployments.approvals.verdicts import build_approval_summary
from deployments.execution import queries
from deployments.models import Approval, Execution
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

VIEW: Final = "core_pipeline_view"
MOST_EARLIER: Final = 5


@require_sign_in
@require_safe
def list_approvals(request: PageRequest) -> HttpResponse:
    """List what waits for the reader, or every approval, newest first."""
    everything = request.GET.get("show") == "all"
    listed = (
        approvals_queries.list_visible_approvals if everything else approvals_queries.list_waiting_approvals
    )
    shown = paginate_queryset(listed(request.user, request.current_scope), request, order="requested_at")
    rows = [(one, build_approval_summary(one)) for one in shown.items]
    context = {"page": shown, "rows": rows, "everything": everything}
    return render(request, "deployments/approvals/list.html", context)


@require_sign_in
@require_safe
def show_approval(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Show one approval: the message, what would be done, who has decided, and the form."""
    return _render_approval(request, _get_approval(request, pk))


@require_sign_in
@require_POST
def decide_approval(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Take a decision about what was on the page."""
    found = _get_approval(request, pk)
    diff, comment = request.POST.get("diff", ""), request.POST.get("comment", "")
    try:
        if request.POST.get("verdict") == "reject":
            operations.reject_step(actor=request.user, approval=found, diff=diff, comment=comment)
        else:
            given = {one["name"]: request.POST.get(f"input-{one['name']}", "") for one in found.inputs}
            operations.approve_step(
                actor=request.user, approval=found, diff=diff, comment=comment, inputs=given
            )
    except Problem as problem:
        said = "; ".join(f"{one['path'].removeprefix('inputs.')} {one['message']}" for one in problem.errors)
        messages.error(request, f"{problem.detail} {said}".strip())
        return _render_approval(request, _get_approval(request, pk), status=problem.status)
    return redirect("execution", pk=found.execution_id)


@require_sign_in
@require_POST
def update_plan(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Have what would be done worked out again."""
    try:
        operations.request_plan_update(actor=request.user, approval=_get_approval(request, pk))
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("approval", pk=pk)


def _render_approval(request: PageRequest, found: Approval, status: int = 200) -> HttpResponse:
    """The page of an approval; what was entered and refused stands in its form again."""
    document = approvals_queries.build_approval_document(found, request.user)
    asked = document["inputs"]
    fields = [(one, request.POST.get(f"input-{one['name']}", one["defaultValue"])) for one in asked]
    context = {
        "approval": found,
        "document": document,
        "fields": fields,
        "comment": request.POST.get("comment", ""),
        "history": _list_earlier_runs(request, found) if found.includes_history else (),
        "is_checking": found.is_being_refreshed,
        "is_stale": bool(found.planned_at and timezone.now() - found.planned_at > operations.PLAN_MAX_AGE),
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
