"""Pages of executions: the list, one execution live, and what people ask of one."""

import uuid
from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from deployments import freezes, operations, queries
from deployments.execution_documents import execution_document
from deployments.models import Execution
from deployments.onboarding import way_to_first_run
from rbac.policy import can
from steps.states import TERMINAL, Status
from web.lists import topics_here
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import Problem
from web.statuses import LOOKS

VIEW: Final = "core_pipeline_view"

LONGEST_SEARCH: Final = 128
# What the filter above the list offers: its word in the address, its title, its statuses.
FILTERS: Final = (
    ("", "All", ()),
    ("open", "Under way", tuple(status for status in Status if status not in TERMINAL)),
    ("success", "Success", (Status.SUCCESS, Status.IGNORE_FAILED)),
    ("failed", "Failed", (Status.FAILED, Status.EXPIRED, Status.APPROVAL_REJECTED)),
    ("rolled-back", "Rolled back", (Status.ROLLED_BACK,)),
    ("aborted", "Aborted", (Status.ABORTED,)),
)


@page
@require_safe
def executions(request: PageRequest) -> HttpResponse:
    """This will list executions, newest first."""
    chosen = request.GET.get("status", "")
    statuses = next((statuses for name, _, statuses in FILTERS if name == chosen), ())
    found = queries.visible_executions(request.user, request.current_scope)
    if statuses:
        found = found.filter(status__in=statuses)
    text = request.GET.get("q", "")[:LONGEST_SEARCH]
    shown = keyset(queries.searched(found, request.user, text), request, order="created_at")
    context = {
        "page": shown,
        "filters": FILTERS,
        "chosen": chosen if statuses else "",
        "text": text.strip(),
        "topics": topics_here(request, "executions"),
    }
    if request.current_scope and not (statuses or text or shown.items):
        context["way"] = way_to_first_run(request.current_scope, request.user)
    return render(request, "deployments/executions.html", context)


def _found(request: PageRequest, pk: uuid.UUID) -> Execution:
    everything = Execution.objects.select_related("pipeline__scope", "scope", "started_by")
    return get_visible(request, VIEW, everything, pk=pk)


@page
@require_safe
def execution(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will show one execution; its script keeps it up to date."""
    found = _found(request, pk)
    context = {
        "document": execution_document(found, request.user),
        "statuses": LOOKS,
        "execution_page": True,
        "may_run": can(request.user, "core_pipeline_execute", found.pipeline),
        "frozen": freezes.retry_frozen_for(request.user, found),
    }
    return render(request, "deployments/execution.html", context)


@page
@require_POST
def abort(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will ask the engine to stop, and to put things back if that was chosen."""
    found = _found(request, pk)
    roll_back = bool(request.POST.get("roll_back"))
    try:
        operations.abort_execution(actor=request.user, execution=found, roll_back=roll_back)
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("execution", pk=pk)


@page
@require_POST
def decide(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will pass on what a person decided about a step that waits."""
    found = _found(request, pk)
    choice, _, chosen = request.POST.get("choice", "").partition(" ")
    step = request.POST.get("step", chosen)[:128]
    decision = request.POST.get("decision", choice)[:32]
    try:
        operations.decide(actor=request.user, execution=found, step=step, decision=decision)
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("execution", pk=pk)


@page
@require_POST
def roll_back(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will ask for a rollback; it may become an execution of its own."""
    found = _found(request, pk)
    try:
        found = operations.roll_back_execution(actor=request.user, execution=found)
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("execution", pk=found.pk)


@page
@require_POST
def retry(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will ask for another attempt of the step that failed."""
    found, override = _found(request, pk), bool(request.POST.get("override_freeze"))
    try:
        operations.retry_execution(actor=request.user, execution=found, override_freeze=override)
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("execution", pk=pk)
