"""Pages of delegate tasks: list, detail with routing decisions, abort, connectivity check."""

import uuid
from dataclasses import replace
from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from delegates.live import TASK_SOURCE_NAME
from delegates.models import Delegate, DelegateTask
from delegates.operations.tasks import abort_task, start_connectivity_check, start_diagnosis
from delegates.queries import tasks as queries
from delegates.queries.explanations import RoutingExplanation
from delegates.queries.routing_candidates import build_routing_request
from delegates.queries.tasks import explain_current_decision, list_explained_decisions
from delegates.routing.rules import RoutingRule
from guards.text import format_plain
from rbac.policy import can, filter_visible
from web.clock import get_database_time
from web.forms.pages import (
    PageRequest,
    get_list_topics,
    get_visible,
    list_visible,
    require_sign_in,
)
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

VIEW: Final = "core_delegate_view"
EDIT: Final = "core_delegate_edit"
Status = DelegateTask.Status
# Filters of the list: query value, title, statuses.
FILTERS: Final = (
    ("", "All", ()),
    ("queued", "Queued", (Status.QUEUED,)),
    ("running", "Running", (Status.STARTED,)),
    ("succeeded", "Succeeded", (Status.SUCCEEDED,)),
    ("failed", "Failed", (Status.FAILED, Status.EXPIRED)),
    ("aborted", "Aborted", (Status.ABORTED,)),
)


@require_sign_in
@require_safe
def list_tasks(request: PageRequest) -> HttpResponse:
    """List delegate tasks, newest first, of one delegate or of all, with or without background tasks."""
    chosen = request.GET.get("status", "")
    statuses = next((statuses for name, _, statuses in FILTERS if name == chosen), ())
    tasks = list_visible(request, VIEW, queries.list_tasks())
    if statuses:
        tasks = tasks.filter(status__in=statuses)
    hides_background = request.GET.get("background") == "hide"
    if hides_background:
        tasks = queries.exclude_background(tasks)
    delegate = _get_filtered_delegate(request)
    if delegate:
        tasks = queries.filter_by_delegate(tasks, delegate.pk)
    page = paginate_queryset(tasks, request, order="queued_at")
    places = queries.get_queue_positions(page.items, get_database_time())
    content = {
        "page": page,
        "rows": [(task, places.get(task.pk)) for task in page.items],
        "filters": FILTERS,
        "chosen": chosen if statuses else "",
        "hides_background": hides_background,
        "delegate": delegate,
        "topics": get_list_topics(request, TASK_SOURCE_NAME, is_shared=True),
    }
    return render(request, "delegates/tasks.html", content)


def _get_filtered_delegate(request: PageRequest) -> Delegate | None:
    key = request.GET.get("delegate", "")
    return get_visible(request, VIEW, Delegate.objects.all(), pk=key) if key else None


@require_sign_in
@require_safe
def show_task(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Show one delegate task with its log and its routing decisions."""
    task = get_visible(request, VIEW, queries.list_tasks(), pk=pk)
    now = get_database_time()
    decisions = list_explained_decisions(task, request.user)
    is_queued = task.status == Status.QUEUED
    holder = queries.get_task_holder(task)
    content = {
        "task": task,
        "delegate": holder,
        "delegate_visible": _can_view_delegate(request, holder),
        "names_delegate": build_routing_request(task).names_delegate,
        "only_delegate": queries.find_only_delegate(task, request.user),
        "offered_now": queries.is_offered(task, now),
        "position": queries.get_queue_positions([task], now).get(task.pk),
        "topics": _build_topics(request, task),
        "why": explain_current_decision(task, request.user, now)
        if is_queued
        else (decisions[0] if decisions else None),
        "earlier": decisions if is_queued else decisions[1:],
        "reached": queries.get_reached_address(task),
        "findings": queries.list_findings(task),
        "lines": [replace(line, text=format_plain(line.text)) for line in queries.read_last_lines(task)],
        "attempts": task.taken.select_related("instance__delegate").order_by("-fence"),
        "late": task.late_answers.select_related("instance").defer("body").order_by("-at"),
        "may_abort": task.is_open and not task.abort_requested and can(request.user, EDIT, task),
    }
    return render(request, "delegates/task.html", content)


@require_sign_in
@require_safe
def show_task_delegates(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Explain for all delegates why they are eligible for a task now, or why not."""
    task = get_visible(request, VIEW, queries.list_tasks(), pk=pk)
    failed = request.GET.get("failed", "")
    explanation = RoutingExplanation(task, request.user, get_database_time())
    delegates = explanation.list_delegates(failed if failed in list(RoutingRule) else "")
    page = paginate_queryset(delegates, request, oldest_first=True)
    content = {
        "task": task,
        "decision": task.decisions.order_by("-number").first(),
        "counts": explanation.count(),
        "failed": failed if failed in list(RoutingRule) else "",
        "page": page,
        "lines": explanation.list_lines(page.items),
    }
    return render(request, "delegates/task_delegates.html", content)


def _build_topics(request: PageRequest, task: DelegateTask) -> str:
    if not task.is_open:
        return ""
    topics = [f"delegate-task:{task.pk}"]
    if task.status == Status.QUEUED:
        # The page shows the queue before the task and the candidate delegates.
        topics += [get_list_topics(request, name, is_shared=True) for name in (TASK_SOURCE_NAME, "delegates")]
    return " ".join(topics)


def _can_view_delegate(request: PageRequest, delegate: Delegate | None) -> bool:
    if delegate is None:
        return False
    return filter_visible(request.user, VIEW, Delegate.objects.filter(pk=delegate.pk)).exists()


@require_sign_in
@require_POST
def abort_delegate_task(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """End a queued task, or request an abort of a running one."""
    task = get_visible(request, VIEW, queries.list_tasks(), pk=pk)
    ended = abort_task(actor=request.user, task=task)
    if ended.is_open:
        messages.info(request, "Abort requested.")
    return redirect("delegate-task", pk=pk)


@require_sign_in
@require_POST
def diagnose_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """Let a delegate examine its own place, and redirect to its task."""
    delegate = get_visible(request, VIEW, Delegate.objects.select_related("scope"), pk=pk)
    try:
        started = start_diagnosis(actor=request.user, delegate=delegate)
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect("delegate", pk=pk)
    return redirect("delegate-task", pk=started.pk)


@require_sign_in
@require_POST
def check_connectivity(request: PageRequest, pk: int) -> HttpResponse:
    """Start a connectivity check through a delegate, and redirect to its task."""
    delegate = get_visible(request, VIEW, Delegate.objects.select_related("scope"), pk=pk)
    try:
        started = start_connectivity_check(
            actor=request.user, delegate=delegate, url=request.POST.get("url", "")
        )
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect("delegate", pk=pk)
    return redirect("delegate-task", pk=started.pk)
