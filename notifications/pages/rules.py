"""Pages of notification rules: which there are, one with what it was told, and the forms that write them."""

from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from notifications.facts import CHOOSABLE
from notifications.forms.rules import EditRuleForm, NewRuleForm
from notifications.models import Notification, NotificationRule
from notifications.operations import DELETE, EDIT, VIEW, create_rule, delete_rule, update_rule
from rbac.policy import can_anywhere, permissions_at, require
from web.lists import visible_here
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import ChangedMeanwhile, Problem

GET_OR_POST: Final = ["GET", "HEAD", "POST"]
TITLES: Final = dict(CHOOSABLE)
CHANGED: Final = "Somebody changed this rule after you opened it. Saving again replaces what they saved."


@page
@require_safe
def rules(request: PageRequest) -> HttpResponse:
    """This will list the notification rules."""
    found = visible_here(request, VIEW, NotificationRule.objects.select_related("scope"))
    shown = keyset(found.defer("url", "secret"), request)
    content = {
        "page": shown,
        "rows": [(rule, titles_of(rule)) for rule in shown.items],
        "can_add": can_anywhere(request.user, EDIT),
    }
    return render(request, "notifications/list.html", content)


@page
@require_safe
def rule(request: PageRequest, pk: int) -> HttpResponse:
    """This will show a rule and what it was told, the newest first."""
    found = found_rule(request, pk)
    told = Notification.objects.filter(rule=found).defer("body")
    content = {
        "rule": found,
        "events": titles_of(found),
        "rights": permissions_at(request.user, found),
        "page": keyset(told, request, order="created_at"),
    }
    return render(request, "notifications/rule.html", content)


@page
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def new_rule(request: PageRequest) -> HttpResponse:
    """This will make a rule."""
    form = NewRuleForm(posted(request), person=request.user, scope=request.current_scope)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = create_rule(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                spec=form.spec(),
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"{made.name} is there. Send a test to see that it arrives.")
            return redirect("notification-rule", pk=made.pk)
    content = {"form": form, "rule": None}
    return render(request, "notifications/edit.html", content, status=form.http_status)


@page
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def edit_rule(request: PageRequest, pk: int) -> HttpResponse:
    """This will save a rule."""
    found = found_rule(request, pk)
    require(request.user, EDIT, found)
    form = EditRuleForm(posted(request), rule=found)
    if request.method == "POST" and form.is_valid():
        try:
            version = form.cleaned_data["version"] or 0
            update_rule(actor=request.user, rule=found, spec=form.spec(), version=version)
        except ChangedMeanwhile:
            return _changed_meanwhile(request, form, pk)
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"{found.name} is saved.")
            return redirect("notification-rule", pk=pk)
    content = {"form": form, "rule": found}
    return render(request, "notifications/edit.html", content, status=form.http_status)


def _changed_meanwhile(request: PageRequest, form: EditRuleForm, pk: int) -> HttpResponse:
    """Show what was entered; the next save means to replace what was saved meanwhile."""
    stored = found_rule(request, pk)
    entered = request.POST.copy()
    entered["version"] = str(stored.version)
    form.data = entered
    form.add_error(None, CHANGED)
    return render(request, "notifications/edit.html", {"form": form, "rule": stored}, status=409)


@page
@require_http_methods(GET_OR_POST)
def remove_rule(request: PageRequest, pk: int) -> HttpResponse:
    """This will ask before a rule goes."""
    found = found_rule(request, pk)
    require(request.user, DELETE, found)
    if request.method == "POST":
        delete_rule(actor=request.user, rule=found)
        messages.success(request, f"{found.name} is deleted.")
        return redirect("notification-rules")
    return render(request, "notifications/delete.html", {"rule": found})


def found_rule(request: PageRequest, pk: int) -> NotificationRule:
    """The rule of the address. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, NotificationRule.objects.select_related("scope"), pk=pk)


def titles_of(rule: NotificationRule) -> list[str]:
    """What a rule tells of, as people read it."""
    return [TITLES[value] for value in rule.events if value in TITLES]
