"""Pages of executions: list, detail, requests to the engine, leftovers and expressions."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from deployments.execution import leftovers, operations, queries
from deployments.execution.delays import list_execution_delays
from deployments.execution.documents import build_call_document, build_execution_document
from deployments.execution.onboarding import list_onboarding_steps
from deployments.execution.planning.attempts import filter_attempts
from deployments.models import Execution
from deployments.pages.log_tab import build_log_tab, parse_log_address
from deployments.rehearsal.sandbox_access import is_sandbox_installed
from deployments.run_expressions import Run
from pipelines.models import Trigger, TriggerFiring
from pipelines.pages.expressions import render_expressions
from rbac.policy import can, get_permissions_anywhere
from steps.states import TERMINAL_STATUSES, Status
from web.clock import get_database_time
from web.forms.pages import PageRequest, get_list_topics, get_visible, require_get_or_post, require_sign_in
from web.http.pagination import paginate_queryset
from web.http.problems import BadInput, Conflict, Problem
from web.statuses import STATUS_BADGES

VIEW: Final = "core_pipeline_view"
LONGEST_SEARCH: Final = 128
# What the filter above the list offers: its word in the address, its title, its statuses.
FILTERS: Final = (
    ("", "All", ()),
    ("open", "In progress", tuple(status for status in Status if status not in TERMINAL_STATUSES)),
    ("success", "Success", (Status.SUCCESS, Status.IGNORE_FAILED)),
    ("failed", "Failed", (Status.FAILED, Status.EXPIRED, Status.APPROVAL_REJECTED)),
    ("rolled-back", "Rolled back", (Status.ROLLED_BACK,)),
    ("aborted", "Aborted", (Status.ABORTED,)),
)
TABS: Final = ("log", "outputs", "calls", "checklist")
# Rows that the page has before its script runs; the script loads the others.
CALLS: Final = 50


@require_sign_in
@require_safe
def list_executions(request: PageRequest) -> HttpResponse:
    """List executions, newest first."""
    chosen = request.GET.get("status", "")
    statuses = next((statuses for name, _, statuses in FILTERS if name == chosen), ())
    executions = queries.list_visible_executions(request.user, request.current_scope)
    if statuses:
        executions = executions.filter(status__in=statuses)
    trigger = find_trigger(request)
    if trigger is not None:
        executions = queries.filter_by_trigger(executions, trigger.pk)
    text = request.GET.get("q", "")[:LONGEST_SEARCH]
    found = queries.filter_by_text(executions, request.user, text)
    page = paginate_queryset(found, request, order="created_at", columns=queries.select_list_columns())
    context = {
        "page": page,
        "filters": FILTERS,
        "chosen": chosen if statuses else "",
        "trigger": trigger,
        "text": text.strip(),
        "may_run": "core_pipeline_execute" in get_permissions_anywhere(request.user),
        "topics": get_list_topics(request, "executions"),
    }
    if request.current_scope and not (statuses or trigger or text or page.items):
        context["way"] = list_onboarding_steps(request.current_scope, request.user)
    return render(request, "deployments/executions.html", context)


def find_trigger(request: PageRequest) -> Trigger | None:
    """Return the visible trigger that `?trigger=` names, if any."""
    number = request.GET.get("trigger", "")
    if not number:
        return None
    return get_visible(request, VIEW, Trigger.objects.select_related("pipeline"), pk=number)


def _get_execution(request: PageRequest, pk: uuid.UUID) -> Execution:
    everything = Execution.objects.select_related("pipeline__scope", "scope", "started_by")
    return get_visible(request, VIEW, everything, pk=pk)


@require_sign_in
@require_safe
def show_execution(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Show one execution with the rows of the chosen tab; its script keeps it up to date."""
    execution = _get_execution(request, pk)
    document = build_execution_document(execution, request.user)
    tab = request.GET.get("tab", "")
    context = {
        "document": document,
        **_list_tab_rows(execution, tab if tab in TABS else "log", request.GET),
        "has_outputs": any(step["outputs"] for stage in document["stages"] for step in stage["steps"]),
        "statuses": STATUS_BADGES,
        "execution_page": True,
        "may_rehearse": is_sandbox_installed(),
        "may_run": can(request.user, "core_pipeline_execute", execution.pipeline),
        "firing": TriggerFiring.objects.filter(execution_id=pk).only("pk").first()
        if execution.cause
        else None,
        "attempts": list(filter_attempts(execution).select_related("started_by")),
        **_build_delays(execution),
    }
    return render(request, "deployments/execution.html", context)


@require_sign_in
@require_safe
def show_execution_delays(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Show why an execution waits, as a part of its page, which fetches it again while it is open."""
    execution = get_visible(request, VIEW, Execution.objects.select_related("pipeline", "scope"), pk=pk)
    return render(request, "parts/_delays.html", _build_delays(execution))


def _build_delays(execution: Execution) -> dict[str, Any]:
    url = "" if execution.is_over else reverse("execution-delays", args=[execution.pk])
    return {"delays": list_execution_delays(execution, get_database_time()), "delays_url": url}


def _list_tab_rows(execution: Execution, tab: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the name of the open tab and its first calls or the log lines that the query names."""
    rows: dict[str, Any] = {"tab": tab}
    if tab == "calls":
        calls = queries.list_calls(execution).order_by("pk")[:CALLS]
        rows["calls"] = [build_call_document(call) for call in calls]
    elif tab == "log":
        rows |= build_log_tab(execution, parse_log_address(query))
    return rows


@require_sign_in
@require_POST
def abort_execution(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Request an abort, with a rollback if the form says so."""
    execution = _get_execution(request, pk)
    roll_back = bool(request.POST.get("roll_back"))
    try:
        operations.abort_execution(actor=request.user, execution=execution, roll_back=roll_back)
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("execution", pk=pk)


@require_sign_in
@require_POST
def decide_step(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Record the decision of a user about a waiting step."""
    execution = _get_execution(request, pk)
    choice, _, chosen = request.POST.get("choice", "").partition(" ")
    step = request.POST.get("step", chosen)[:128]
    decision = request.POST.get("decision", choice)[:32]
    try:
        operations.decide_step(actor=request.user, execution=execution, step=step, decision=decision)
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("execution", pk=pk)


@require_sign_in
@require_POST
def roll_back_execution(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Ask for a rollback; it may become an execution of its own."""
    execution = _get_execution(request, pk)
    try:
        execution = operations.roll_back_execution(actor=request.user, execution=execution)
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("execution", pk=execution.pk)


VIEW_LEFTOVERS = "core_pipeline_view"


@require_sign_in
@require_get_or_post
def show_leftovers(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """List the leftover ECS services, and delete the selected ones."""
    everything = Execution.objects.select_related("pipeline__scope", "scope")
    execution = get_visible(request, VIEW_LEFTOVERS, everything, pk=pk)
    if request.method == "POST":
        return _delete_leftovers(request, execution)
    context = {
        "execution": execution,
        "found": leftovers.list_leftovers(actor=request.user, execution=execution),
    }
    return render(request, "deployments/leftovers.html", context)


def _delete_leftovers(request: PageRequest, execution: Execution) -> HttpResponse:
    try:
        services = request.POST.getlist("services")
        begun = leftovers.delete_leftovers(actor=request.user, execution=execution, services=services)
    except (BadInput, Conflict) as problem:
        messages.error(request, problem.detail)
        return redirect("execution", pk=execution.pk)
    return redirect("execution", pk=begun.pk)


@require_sign_in
@require_safe
def list_expressions(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """List the expressions at a step of an execution, with their latest values."""
    execution = _get_execution(request, pk)
    run = Run(execution)
    moment = run.moment(request.GET.get("at", ""))
    context = {
        "execution": execution,
        "choices": [run_moment.choice for run_moment in run.moments()],
        "chosen": moment.key if moment else "",
    }
    return render_expressions(request, run.list_completions(moment, request.user), context)
