"""Pages of delegate tasks: the list, one task and why it went where it went, ending one."""

import uuid
from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from delegates.models import Delegate, DelegateTask
from delegates.operations.checks import start_check
from delegates.operations.tasks import abort_task
from delegates.queries import tasks as queries
from delegates.queries.why import decisions_of, why_now
from delegates.task_news import SUBJECT
from rbac.policy import can, visible_to
from web.clock import database_now
from web.lists import topics_here, visible_on_long_list
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import Problem

VIEW: Final = "core_delegate_view"
EDIT: Final = "core_delegate_edit"
Status = DelegateTask.Status
# What the filter above the list offers: its word in the address, its title, its statuses.
FILTERS: Final = (
    ("", "All", ()),
    ("queued", "Queued", (Status.QUEUED,)),
    ("running", "Running", (Status.STARTED,)),
    ("succeeded", "Succeeded", (Status.SUCCEEDED,)),
    ("failed", "Failed", (Status.FAILED, Status.EXPIRED)),
    ("aborted", "Aborted", (Status.ABORTED,)),
)


@page
@require_safe
def tasks(request: PageRequest) -> HttpResponse:
    """This will list delegate tasks, newest first, of one delegate or of all."""
    chosen = request.GET.get("status", "")
    statuses = next((statuses for name, _, statuses in FILTERS if name == chosen), ())
    found = visible_on_long_list(request, VIEW, queries.shown_tasks())
    if statuses:
        found = found.filter(status__in=statuses)
    delegate = _delegate_of(request)
    if delegate:
        found = queries.of_delegate(found, delegate.pk)
    shown = keyset(found, request, order="queued_at")
    places = queries.positions(shown.items, database_now())
    content = {
        "page": shown,
        "rows": [(task, places.get(task.pk)) for task in shown.items],
        "filters": FILTERS,
        "chosen": chosen if statuses else "",
        "delegate": delegate,
        "topics": topics_here(request, SUBJECT, is_shared=True),
    }
    return render(request, "delegates/tasks.html", content)


def _delegate_of(request: PageRequest) -> Delegate | None:
    given = request.GET.get("delegate", "")
    return get_visible(request, VIEW, Delegate.objects.all(), pk=given) if given else None


@page
@require_safe
def task(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will show one delegate task, its lines, and why it went to its delegate or waits."""
    found = get_visible(request, VIEW, queries.shown_tasks(), pk=pk)
    now = database_now()
    decisions = decisions_of(found, request.user)
    waits = found.status == Status.QUEUED
    holder = queries.holder_of(found)
    content = {
        "task": found,
        "delegate": holder,
        "delegate_visible": _sees(request, holder),
        "offered_now": queries.is_offered(found, now),
        "position": queries.positions([found], now).get(found.pk),
        "topics": _topics(request, found),
        "why": why_now(found, request.user, now) if waits else (decisions[0] if decisions else None),
        "earlier": decisions if waits else decisions[1:],
        "reached": queries.reached(found),
        "lines": queries.last_lines(found),
        "attempts": found.taken.select_related("instance__delegate").order_by("-fence"),
        "late": found.late_answers.select_related("instance").defer("body").order_by("-at"),
        "may_abort": found.is_open and not found.abort_requested and can(request.user, EDIT, found),
    }
    return render(request, "delegates/task.html", content)


def _topics(request: PageRequest, task: DelegateTask) -> str:
    if not task.is_open:
        return ""
    found = [f"delegate-task:{task.pk}"]
    if task.status == Status.QUEUED:
        # The queue before it, and who could take it, are part of what is shown.
        found += [topics_here(request, name, is_shared=True) for name in (SUBJECT, "delegates")]
    return " ".join(found)


def _sees(request: PageRequest, delegate: Delegate | None) -> bool:
    if delegate is None:
        return False
    return visible_to(request.user, VIEW, Delegate.objects.filter(pk=delegate.pk)).exists()


@page
@require_POST
def abort(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will end a queued task, and ask the delegate of a running one to stop."""
    found = get_visible(request, VIEW, queries.shown_tasks(), pk=pk)
    ended = abort_task(actor=request.user, task=found)
    if ended.is_open:
        messages.info(request, "The delegate was asked to stop.")
    return redirect("delegate-task", pk=pk)


@page
@require_POST
def check(request: PageRequest, pk: int) -> HttpResponse:
    """This will ask a delegate whether it reaches an address, and lead to where the answer appears."""
    delegate = get_visible(request, VIEW, Delegate.objects.select_related("scope"), pk=pk)
    try:
        started = start_check(actor=request.user, delegate=delegate, url=request.POST.get("url", ""))
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect("delegate", pk=pk)
    return redirect("delegate-task", pk=started.pk)
