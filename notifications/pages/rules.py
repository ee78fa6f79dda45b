"""Pages of notification rules and their notifications."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from notifications.events import SUBSCRIBABLE_EVENTS
from notifications.forms.rules import EditNotificationRuleForm, NewNotificationRuleForm
from notifications.models import Notification, NotificationRule
from notifications.operations import (
    DELETE,
    EDIT,
    VIEW,
    create_rule,
    create_test_notification,
    delete_rule,
    resend_notification,
    update_rule,
)
from rbac.policy import can_anywhere, get_permissions, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import DeletePage, ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Conflict, Problem, VersionConflict

GET_OR_POST: Final = ["GET", "HEAD", "POST"]
EVENT_TITLES: Final = dict(SUBSCRIBABLE_EVENTS)
VERSION_CONFLICT_MESSAGE: Final = (
    "Somebody changed this rule after you opened it. Saving again replaces what they saved."
)


def get_rule(request: PageRequest, pk: int) -> NotificationRule:
    """Return the rule of the address. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, NotificationRule.objects.select_related("scope"), pk=pk)


class NotificationRulePage(ResourcePage[NotificationRule]):
    """A page about a notification rule."""

    load = staticmethod(get_rule)
    noun = "notification rule"
    parents = (("Notifications", "notification-rules"),)
    detail = "notification-rule"


@require_sign_in
@require_safe
def list_rules(request: PageRequest) -> HttpResponse:
    """List the notification rules."""
    found = list_visible(request, VIEW, NotificationRule.objects.select_related("scope"))
    shown = paginate_queryset(found.defer("url", "secret"), request)
    content = {
        "page": shown,
        "rows": [(rule, get_event_titles(rule)) for rule in shown.items],
        "can_add": can_anywhere(request.user, EDIT),
    }
    return render(request, "notifications/list.html", content)


@require_sign_in
@require_safe
def show_rule(request: PageRequest, pk: int) -> HttpResponse:
    """Show a rule and what it was told, the newest first."""
    found = get_rule(request, pk)
    told = Notification.objects.filter(rule=found).defer("body")
    content = {
        "rule": found,
        "events": get_event_titles(found),
        "rights": get_permissions(request.user, found),
        "page": paginate_queryset(told, request, order="created_at"),
    }
    return render(request, "notifications/rule.html", content)


@require_sign_in
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def new_rule(request: PageRequest) -> HttpResponse:
    """Make a rule."""
    form = NewNotificationRuleForm(get_posted_data(request), person=request.user, scope=request.current_scope)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = create_rule(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                spec=form.build_spec(),
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"{made.name} is there. Send a test to see that it arrives.")
            return redirect("notification-rule", pk=made.pk)
    content = {"form": form, "rule": None}
    return render(request, "notifications/edit.html", content, status=form.http_status)


@require_sign_in
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def edit_rule(request: PageRequest, pk: int) -> HttpResponse:
    """Save a rule."""
    found = get_rule(request, pk)
    require(request.user, EDIT, found)
    form = EditNotificationRuleForm(get_posted_data(request), rule=found)
    if request.method == "POST" and form.is_valid():
        try:
            version = form.cleaned_data["version"] or 0
            update_rule(actor=request.user, rule=found, spec=form.build_spec(), version=version)
        except VersionConflict:
            return _render_version_conflict(request, form, pk)
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"{found.name} is saved.")
            return redirect("notification-rule", pk=pk)
    content = {"form": form, "rule": found}
    return render(request, "notifications/edit.html", content, status=form.http_status)


def _render_version_conflict(request: PageRequest, form: EditNotificationRuleForm, pk: int) -> HttpResponse:
    """Show what was entered; the next save means to replace what was saved meanwhile."""
    stored = get_rule(request, pk)
    entered = request.POST.copy()
    entered["version"] = str(stored.version)
    form.data = entered
    form.add_error(None, VERSION_CONFLICT_MESSAGE)
    return render(request, "notifications/edit.html", {"form": form, "rule": stored}, status=409)


class DeleteNotificationRule(NotificationRulePage, DeletePage[NotificationRule]):
    """Delete a notification rule with its notifications."""

    permission = DELETE

    def get_texts(self) -> list[str]:
        text = f"Nothing is sent to {self.object.host} any more."
        return [text, "Waiting notifications and the list of sent ones are deleted."]

    def perform(self, **given: Any) -> None:
        delete_rule(actor=self.request.user, rule=self.object)


def get_event_titles(rule: NotificationRule) -> list[str]:
    """What a rule tells of, as people read it."""
    return [EVENT_TITLES[value] for value in rule.events if value in EVENT_TITLES]


SENDING_MESSAGE: Final = "It is on its way. What came of it is shown here in a moment; load the page again."


@require_sign_in
@require_POST
def test_rule(request: PageRequest, pk: int) -> HttpResponse:
    """Send a test to a rule's address."""
    found = get_rule(request, pk)
    require(request.user, EDIT, found)
    create_test_notification(actor=request.user, rule=found)
    messages.success(request, f"The test is sent. {SENDING_MESSAGE}")
    return redirect("notification-rule", pk=pk)


@require_sign_in
@require_POST
def resend(request: PageRequest, pk: str) -> HttpResponse:
    """Send a notification once more."""
    rows = Notification.objects.select_related("rule__scope")
    found = get_visible(request, VIEW, rows, pk=pk)
    require(request.user, EDIT, found.rule)
    try:
        resend_notification(actor=request.user, notification=found)
    except Conflict as problem:
        messages.warning(request, problem.detail)
    else:
        messages.success(request, SENDING_MESSAGE)
    return redirect("notification-rule", pk=found.rule_id)
