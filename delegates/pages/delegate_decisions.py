"""What people do with a delegate on its pages: edit it, let it work or not, delete it."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from delegates.forms.delegates import DelegateForm
from delegates.models import Delegate
from delegates.operations import delegates as operations
from delegates.pages.delegate import uses, with_all
from delegates.queries import delegates as queries
from delegates.queries.delegate_uses import uses_of_delegate
from rbac.policy import require
from web.clock import database_now
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.problems import Problem

EDIT: Final = operations.EDIT
DELETE: Final = operations.DELETE
GET_OR_POST: Final = ["GET", "HEAD", "POST"]


@page
@require_http_methods(GET_OR_POST)
def edit_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """This will change the description, the tags and the configuration of a delegate."""
    found = _found(request, pk, EDIT)
    values = {
        "description": found.description,
        "tags": ", ".join(found.tags),
        "configuration": found.configuration_id,
        "shares_scripts": found.shares_scripts,
    }
    form = DelegateForm(posted(request), person=request.user, delegate=found, initial=values)
    if request.method == "POST" and form.is_valid():
        try:
            operations.update_delegate(actor=request.user, delegate=found, **form.cleaned_data)
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"{found.name} is saved.")
            return redirect("delegate", pk=pk)
    content = {"delegate": found, "form": form}
    return render(request, "delegates/edit.html", content, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def disable_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """This will name the connectors that then stop, before a delegate gets no more tasks."""
    found = _found(request, pk, EDIT)
    if request.method == "POST":
        return _decided(request, found, operations.disable_delegate, f"{found.name} gets no more tasks.")
    content = {"delegate": found, "uses": uses(request.user, found, database_now())}
    return render(request, "delegates/disable.html", content)


@page
@require_http_methods(GET_OR_POST)
def remove_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """This will ask before a delegate goes, and name the connectors that choose it by its tags."""
    found = _found(request, pk, DELETE)
    refusal = ""
    if request.method == "POST":
        try:
            operations.delete_delegate(
                actor=request.user, delegate=found, although_used=bool(request.POST.get("although_used"))
            )
        except Problem as problem:
            refusal = problem.detail
        else:
            messages.success(request, f"The delegate {found.name} is deleted.")
            return redirect("delegates")
    content = {
        "delegate": found,
        "refusal": refusal,
        "uses": uses_of_delegate(found, request.user),
        "running": operations.tasks_of(found),
    }
    return render(request, "delegates/delete.html", content, status=409 if refusal else 200)


@page
@require_POST
def approve_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """This will let a delegate work that waits for approval."""
    found = _found(request, pk, EDIT)
    return _decided(request, found, operations.approve_delegate, f"{found.name} is approved.")


@page
@require_POST
def reject_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """This will refuse a delegate that waits for approval."""
    found = _found(request, pk, EDIT)
    return _decided(request, found, operations.reject_delegate, f"{found.name} is rejected.")


@page
@require_POST
def enable_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """This will let a delegate work again."""
    found = _found(request, pk, EDIT)
    return _decided(request, found, operations.enable_delegate, f"{found.name} gets tasks again.")


@page
@require_POST
def drain_delegate(request: PageRequest, pk: int) -> HttpResponse:
    """This will let a delegate finish what it has, and take nothing new."""
    found = _found(request, pk, EDIT)
    said = f"{found.name} finishes what it has and takes nothing new."
    return _decided(request, found, operations.drain_delegate, said)


@page
@require_POST
def lift_block(request: PageRequest, pk: int, entry: int) -> HttpResponse:
    """This will let a delegate be tried again for what it could not reach."""
    found = _found(request, pk, EDIT)
    operations.lift_block(actor=request.user, delegate=found, entry=entry)
    messages.success(request, "It is tried again from now on.")
    return redirect(f"{reverse('delegate', args=[pk])}?tab=lists")


def _found(request: PageRequest, pk: int, permission: str) -> Delegate:
    found = get_visible(request, queries.VIEW, with_all(Delegate.objects.defer("token__value")), pk=pk)
    require(request.user, permission, found)
    return found


def _decided(request: PageRequest, found: Delegate, operation: Callable[..., Any], said: str) -> HttpResponse:
    try:
        operation(actor=request.user, delegate=found)
    except Problem as problem:
        messages.error(request, problem.detail)
    else:
        messages.success(request, said)
    return redirect("delegate", pk=found.pk)
