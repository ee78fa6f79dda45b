"""What pages have sent: a test, or a notification once more."""

from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from notifications.models import Notification
from notifications.operations import EDIT, VIEW, send_again, send_test
from notifications.pages.rules import found_rule
from rbac.policy import require
from web.pages import PageRequest, get_visible, page
from web.problems import Conflict

ON_ITS_WAY: Final = "It is on its way. What came of it is shown here in a moment; load the page again."


@page
@require_POST
def test(request: PageRequest, pk: int) -> HttpResponse:
    """This will send a test to a rule's address."""
    found = found_rule(request, pk)
    require(request.user, EDIT, found)
    send_test(actor=request.user, rule=found)
    messages.success(request, f"The test is sent. {ON_ITS_WAY}")
    return redirect("notification-rule", pk=pk)


@page
@require_POST
def again(request: PageRequest, pk: str) -> HttpResponse:
    """This will send a notification once more."""
    rows = Notification.objects.select_related("rule__scope")
    found = get_visible(request, VIEW, rows, pk=pk)
    require(request.user, EDIT, found.rule)
    try:
        send_again(actor=request.user, notification=found)
    except Conflict as problem:
        messages.warning(request, problem.detail)
    else:
        messages.success(request, ON_ITS_WAY)
    return redirect("notification-rule", pk=found.rule_id)
