"""Pages of approvals: what waits for me, one approval with what would be done, and the decision."""

import uuid
from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from deployments import approval_queries, approving, queries
from deployments.models import Approval, Execution
from deployments.verdicts import approval_summary
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import Problem

VIEW: Final = "core_pipeline_view"
MOST_EARLIER: Final = 5


@page
@require_safe
def approvals(request: PageRequest) -> HttpResponse:
    """This will list what waits for the reader, or every approval, newest first."""
    everything = request.GET.get("show") == "all"
    listed = approval_queries.visible_approvals if everything else approval_queries.waiting_for
    shown = keyset(listed(request.user, request.current_scope), request, order="asked_at")
    rows = [(one, approval_summary(one)) for one in shown.items]
    context = {"page": shown, "rows": rows, "everything": everything}
    return render(request, "deployments/approvals/list.html", context)


@page
@require_safe
def approval(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will show one approval: the message, what would be done, who has decided, and the form."""
    return _shown(request, _found(request, pk))


@page
@require_POST
def decide(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will take a decision about what was on the page."""
    found = _found(request, pk)
    diff, comment = request.POST.get("diff", ""), request.POST.get("comment", "")
    try:
        if request.POST.get("verdict") == "reject":
            approving.reject(actor=request.user, approval=found, diff=diff, comment=comment)
        else:
            given = {one["name"]: request.POST.get(f"input-{one['name']}", "") for one in found.inputs}
            approving.approve(actor=request.user, approval=found, diff=diff, comment=comment, inputs=given)
    except Problem as problem:
        said = "; ".join(f"{one['path'].removeprefix('inputs.')} {one['message']}" for one in problem.errors)
        messages.error(request, f"{problem.detail} {said}".strip())
        return _shown(request, _found(request, pk), status=problem.status)
    return redirect("execution", pk=found.execution_id)


@page
@require_POST
def check_again(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will have what would be done worked out again."""
    try:
        approving.check_again(actor=request.user, approval=_found(request, pk))
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("approval", pk=pk)


def _shown(request: PageRequest, found: Approval, status: int = 200) -> HttpResponse:
    """The page of an approval; what was entered and refused stands in its form again."""
    document = approval_queries.approval_document(found, request.user)
    asked = document["inputs"]
    fields = [(one, request.POST.get(f"input-{one['name']}", one["defaultValue"])) for one in asked]
    context = {
        "approval": found,
        "document": document,
        "fields": fields,
        "comment": request.POST.get("comment", ""),
        "history": _history(request, found) if found.with_history else (),
        "is_checking": found.is_being_checked,
        "is_stale": bool(found.checked_at and timezone.now() - found.checked_at > approving.FRESH),
    }
    return render(request, "deployments/approvals/detail.html", context, status=status)


def _history(request: PageRequest, approval: Approval) -> list[Execution]:
    """The runs of the pipeline before this one, newest first."""
    execution = approval.execution
    earlier = queries.visible_executions(request.user).filter(
        pipeline=execution.pipeline, number__lt=execution.number
    )
    return list(earlier.order_by("-created_at")[:MOST_EARLIER])


def _found(request: PageRequest, pk: uuid.UUID) -> Approval:
    rows = Approval.objects.select_related(
        "execution__pipeline__scope", "execution__scope", "execution__started_by", "step__stage"
    )
    return get_visible(request, VIEW, rows.prefetch_related("decisions"), pk=pk)
