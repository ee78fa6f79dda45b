"""Pages of freeze windows: the list, and the forms that write them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from catalog.pages.changes import compared
from deployments import freezes
from deployments.forms.freezes import FreezeForm, NewFreezeForm, values_of
from deployments.freezing import next_period, period_at, spoken_times
from deployments.models import FreezeWindow
from rbac.policy import can_anywhere, require
from web.lists import visible_here
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import ChangedMeanwhile, Problem

MANAGE: Final = freezes.MANAGE
GET_OR_POST: Final = ["GET", "HEAD", "POST"]
# As many windows of scopes above as the list shows.
MOST_ABOVE: Final = 50


@page
@require_safe
def windows(request: PageRequest) -> HttpResponse:
    """This will list freeze windows, those of the scopes above beside them, and say which are in force."""
    found = visible_here(request, MANAGE, FreezeWindow.objects.select_related("scope"))
    shown, now, scope = keyset(found, request), timezone.now(), request.current_scope
    above = list(freezes.windows_above(request.user, scope).order_by("pk")[: MOST_ABOVE + 1]) if scope else []
    context = {
        "page": shown,
        "rows": _rows(shown.items, now),
        "above": _rows(above[:MOST_ABOVE], now),
        "is_more_above": len(above) > MOST_ABOVE,
        "may_add": can_anywhere(request.user, MANAGE),
    }
    return render(request, "deployments/freezes/list.html", context)


def _rows(windows: Iterable[FreezeWindow], now: datetime) -> list[tuple[Any, ...]]:
    """Each window with the period it is in, the next one, and its times in words."""
    return [
        (one, one.enabled and period_at(one, now), next_period(one, now), spoken_times(one))
        for one in windows
    ]


@page
@require_http_methods(GET_OR_POST)
def new_window(request: PageRequest) -> HttpResponse:
    """This will create a freeze window."""
    form = NewFreezeForm(posted(request), person=request.user, permission=MANAGE, scope=request.current_scope)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = freezes.create_freeze(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                spec=form.spec(),
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"{made.name} is there.")
            return redirect("freezes")
    context = {"form": form, "window": None}
    return render(request, "deployments/freezes/edit.html", context, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def edit_window(request: PageRequest, pk: int) -> HttpResponse:
    """This will save a freeze window."""
    found = _found(request, pk)
    require(request.user, MANAGE, found)
    if request.method != "POST":
        context = {"form": FreezeForm(initial=values_of(found)), "window": found}
        return render(request, "deployments/freezes/edit.html", context)
    form = FreezeForm(request.POST)
    if form.is_valid():
        try:
            version = form.cleaned_data["version"] or 0
            freezes.update_freeze(actor=request.user, window=found, spec=form.spec(), version=version)
        except ChangedMeanwhile:
            return _changed_meanwhile(request, form, pk)
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"{found.name} is saved.")
            return redirect("freezes")
    context = {"form": form, "window": found}
    return render(request, "deployments/freezes/edit.html", context, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def delete_window(request: PageRequest, pk: int) -> HttpResponse:
    """This will ask before a freeze window goes."""
    found = _found(request, pk)
    require(request.user, MANAGE, found)
    if request.method == "POST":
        freezes.delete_freeze(actor=request.user, window=found)
        messages.success(request, f"{found.name} is deleted.")
        return redirect("freezes")
    return render(request, "deployments/freezes/delete.html", {"window": found})


def _changed_meanwhile(request: PageRequest, form: FreezeForm, pk: int) -> HttpResponse:
    """Show what was entered over what was saved meanwhile; the next save means to replace that."""
    stored = values_of(_found(request, pk))
    version = stored.pop("version")
    entered = {name: form.cleaned_data[name] for name in stored}
    context = {
        "form": FreezeForm(initial=entered | {"version": version}),
        "window": _found(request, pk),
        "diff": compared(stored, entered),
    }
    return render(request, "deployments/freezes/edit.html", context, status=409)


def _found(request: PageRequest, pk: int) -> FreezeWindow:
    return get_visible(request, MANAGE, FreezeWindow.objects.select_related("scope"), pk=pk)
