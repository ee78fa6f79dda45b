"""Pages of freeze windows: list and forms."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from catalog.pages.edit_conflicts import diff_values
from deployments.forms import FreezeForm, NewFreezeForm, build_initial_values
from deployments.freezes import operations
from deployments.freezes.schedule import describe_times, get_next_period, get_period_at
from deployments.models import FreezeWindow
from rbac.policy import can_anywhere, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import DeletePage, ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Problem, VersionConflict

MANAGE: Final = operations.MANAGE
GET_OR_POST: Final = ["GET", "HEAD", "POST"]
# As many windows of scopes above as the list shows.
MOST_ABOVE: Final = 50


def _get_window(request: PageRequest, pk: int) -> FreezeWindow:
    return get_visible(request, MANAGE, FreezeWindow.objects.select_related("scope"), pk=pk)


class FreezePage(ResourcePage[FreezeWindow]):
    """A page about a freeze window."""

    load = staticmethod(_get_window)
    permission = MANAGE
    noun = "freeze window"
    parents = (("Freeze windows", "freezes"),)


@require_sign_in
@require_safe
def list_windows(request: PageRequest) -> HttpResponse:
    """List freeze windows, those of the scopes above beside them, and say which are in force."""
    found = list_visible(request, MANAGE, FreezeWindow.objects.select_related("scope"))
    shown, now, scope = paginate_queryset(found, request), timezone.now(), request.current_scope
    above = (
        list(operations.list_inherited_windows(request.user, scope).order_by("pk")[: MOST_ABOVE + 1])
        if scope
        else []
    )
    context = {
        "page": shown,
        "rows": _list_rows(shown.items, now),
        "above": _list_rows(above[:MOST_ABOVE], now),
        "is_more_above": len(above) > MOST_ABOVE,
        "may_add": can_anywhere(request.user, MANAGE),
    }
    return render(request, "deployments/freezes/list.html", context)


def _list_rows(windows: Iterable[FreezeWindow], now: datetime) -> list[tuple[Any, ...]]:
    """Each window with the period it is in, the next one, and its times in words."""
    return [
        (one, one.enabled and get_period_at(one, now), get_next_period(one, now), describe_times(one))
        for one in windows
    ]


@require_sign_in
@require_http_methods(GET_OR_POST)
def new_window(request: PageRequest) -> HttpResponse:
    """Create a freeze window."""
    form = NewFreezeForm(
        get_posted_data(request), person=request.user, permission=MANAGE, scope=request.current_scope
    )
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = operations.create_freeze(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                spec=form.spec(),
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"{made.name} is there.")
            return redirect("freezes")
    context = {"form": form, "window": None}
    return render(request, "deployments/freezes/edit.html", context, status=form.http_status)


@require_sign_in
@require_http_methods(GET_OR_POST)
def edit_window(request: PageRequest, pk: int) -> HttpResponse:
    """Save a freeze window."""
    found = _get_window(request, pk)
    require(request.user, MANAGE, found)
    if request.method != "POST":
        context = {"form": FreezeForm(initial=build_initial_values(found)), "window": found}
        return render(request, "deployments/freezes/edit.html", context)
    form = FreezeForm(request.POST)
    if form.is_valid():
        try:
            version = form.cleaned_data["version"] or 0
            operations.update_freeze(actor=request.user, window=found, spec=form.spec(), version=version)
        except VersionConflict:
            return _changed_meanwhile(request, form, pk)
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"{found.name} is saved.")
            return redirect("freezes")
    context = {"form": form, "window": found}
    return render(request, "deployments/freezes/edit.html", context, status=form.http_status)


class DeleteFreeze(FreezePage, DeletePage[FreezeWindow]):
    """Delete a freeze window."""

    text = "Deployments that it holds back can be run again at once."

    def perform(self, **given: Any) -> None:
        operations.delete_freeze(actor=self.request.user, window=self.object)


def _changed_meanwhile(request: PageRequest, form: FreezeForm, pk: int) -> HttpResponse:
    """Show what was entered over what was saved meanwhile; the next save means to replace that."""
    stored = build_initial_values(_get_window(request, pk))
    version = stored.pop("version")
    entered = {name: form.cleaned_data[name] for name in stored}
    context = {
        "form": FreezeForm(initial=entered | {"version": version}),
        "window": _get_window(request, pk),
        "diff": diff_values(stored, entered),
    }
    return render(request, "deployments/freezes/edit.html", context, status=409)
