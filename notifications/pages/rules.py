"""Pages of notification rules and their notifications."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from notifications.channels.registry import CHANNELS
from notifications.events import OUTCOMES, SUBSCRIBABLE_EVENTS
from notifications.filters import FILTER_NAMES
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
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import CreatePage, DeletePage, EditPage, ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Conflict, VersionConflict

EVENT_TITLES: Final = dict(SUBSCRIBABLE_EVENTS)
VERSION_CONFLICT_MESSAGE: Final = (
    "Another user changed this rule after you opened it. Saving again overwrites that change."
)


def get_rule(request: PageRequest, pk: int) -> NotificationRule:
    """Return a visible rule. Raises `NotVisible` (404)."""
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
    rules = list_visible(request, VIEW, NotificationRule.objects.select_related("scope"))
    page = paginate_queryset(rules.defer("url", "secret"), request)
    content = {
        "page": page,
        "rows": [(rule, get_event_titles(rule)) for rule in page.items],
        "can_add": can_anywhere(request.user, EDIT),
    }
    return render(request, "notifications/list.html", content)


@require_sign_in
@require_safe
def show_rule(request: PageRequest, pk: int) -> HttpResponse:
    """Show a rule and its notifications, the newest first."""
    rule = get_rule(request, pk)
    notifications = Notification.objects.filter(rule=rule).defer("body")
    content = {
        "rule": rule,
        "events": get_event_titles(rule),
        "filters": list_filter_rows(rule),
        "rights": get_permissions(request.user, rule),
        "page": paginate_queryset(notifications, request, order="created_at"),
    }
    return render(request, "notifications/rule.html", content)


@method_decorator(sensitive_post_parameters(), name="dispatch")
class NewNotificationRule(NotificationRulePage, CreatePage[NotificationRule]):
    """Create a notification rule."""

    template_name = "notifications/new.html"
    permission = EDIT
    form_class = NewNotificationRuleForm
    here = "New"
    done = "Notification rule {name} created. Send a test to verify it."

    def get_form_options(self) -> dict[str, Any]:
        requested = self.request.GET.get("kind", "")
        kind = requested if requested in CHANNELS else NotificationRule.Kind.WEBHOOK
        return {**super().get_form_options(), "kind": kind}

    def get_context(self, form: NewNotificationRuleForm) -> dict[str, Any]:
        return {"kind": form.kind, "kinds": NotificationRule.Kind.choices}

    def save(self, form: NewNotificationRuleForm) -> NotificationRule:
        data = form.cleaned_data
        return create_rule(
            actor=self.request.user,
            scope=data["in_scope"],
            identifier=data["identifier"],
            kind=form.kind,
            spec=form.build_spec(),
        )


@method_decorator(sensitive_post_parameters(), name="dispatch")
class EditNotificationRule(NotificationRulePage, EditPage[NotificationRule]):
    """Edit a notification rule. Its address and secret are never shown, so a conflict shows no difference."""

    permission = EDIT
    form_class = EditNotificationRuleForm

    def get_form_options(self) -> dict[str, Any]:
        return {"rule": self.object}

    def save(self, form: EditNotificationRuleForm) -> NotificationRule:
        version = form.cleaned_data["version"] or 0
        return update_rule(actor=self.request.user, rule=self.object, spec=form.build_spec(), version=version)

    def render_conflict(self, form: EditNotificationRuleForm, problem: VersionConflict) -> HttpResponse:
        self.prepare()
        entered = self.request.POST.copy()
        entered["version"] = str(self.object.version)
        form.data = entered
        form.add_error(None, VERSION_CONFLICT_MESSAGE)
        return self.render_form(form, 409)


class DeleteNotificationRule(NotificationRulePage, DeletePage[NotificationRule]):
    """Delete a notification rule with its notifications."""

    permission = DELETE

    def get_texts(self) -> list[str]:
        text = f"Events are no longer sent to {self.object.host}."
        return [text, "Queued and past deliveries are deleted."]

    def perform(self, **values: Any) -> None:
        delete_rule(actor=self.request.user, rule=self.object)


def get_event_titles(rule: NotificationRule) -> list[str]:
    """Return the titles of a rule's events."""
    return [EVENT_TITLES[value] for value in rule.events if value in EVENT_TITLES]


def list_filter_rows(rule: NotificationRule) -> list[tuple[str, str]]:
    """Return the title and the values of each filter of a rule."""
    titles = dict(OUTCOMES)
    return [
        (name.capitalize(), ", ".join(titles.get(value, value) for value in rule.filters[name]))
        for name in FILTER_NAMES
        if rule.filters.get(name)
    ]


SENDING_MESSAGE: Final = "Delivery queued. Reload the page in a few seconds for its result."


@require_sign_in
@require_POST
def test_rule(request: PageRequest, pk: int) -> HttpResponse:
    """Send a test notification to a rule's URL."""
    rule = get_rule(request, pk)
    require(request.user, EDIT, rule)
    create_test_notification(actor=request.user, rule=rule)
    messages.success(request, f"Test: {SENDING_MESSAGE}")
    return redirect("notification-rule", pk=pk)


@require_sign_in
@require_POST
def resend(request: PageRequest, pk: str) -> HttpResponse:
    """Send a notification again."""
    rows = Notification.objects.select_related("rule__scope")
    notification = get_visible(request, VIEW, rows, pk=pk)
    require(request.user, EDIT, notification.rule)
    try:
        resend_notification(actor=request.user, notification=notification)
    except Conflict as problem:
        messages.warning(request, problem.detail)
    else:
        messages.success(request, SENDING_MESSAGE)
    return redirect("notification-rule", pk=notification.rule_id)
