"""Pages of firings of triggers: one firing, and its redelivery."""

import json
import uuid

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from pipelines.models import TriggerFiring
from pipelines.pages.triggers import list_event_values, list_trigger_parents
from pipelines.triggers import operations
from rbac.policy import can
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import Breadcrumb
from web.http.problems import Conflict

QUEUED_MESSAGE = "The event is handled again. Reload the page in a few seconds for its result."


@require_sign_in
@require_safe
def show_firing(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Show an event, the decision about it, and why."""
    firing = _get_firing(request, pk)
    pipeline = firing.trigger.pipeline
    content = {
        "firing": firing,
        "trigger": firing.trigger,
        "payload": json.dumps(firing.payload, indent=2, ensure_ascii=False),
        "values": list_event_values(firing.values),
        "may_redeliver": can(request.user, operations.EXECUTE, pipeline),
        "breadcrumbs": [
            *list_trigger_parents(pipeline),
            Breadcrumb(firing.trigger.name, reverse("trigger", args=[firing.trigger_id])),
        ],
        "here": "Firing",
    }
    return render(request, "pipelines/triggers/firing.html", content)


@require_sign_in
@require_POST
def redeliver_firing(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Handle a stored event again."""
    firing = _get_firing(request, pk)
    try:
        made = operations.redeliver(actor=request.user, firing=firing)
    except Conflict as problem:
        messages.warning(request, problem.detail)
        return redirect("trigger-firing", pk=pk)
    messages.success(request, QUEUED_MESSAGE)
    return redirect("trigger-firing", pk=made.pk)


def _get_firing(request: PageRequest, pk: uuid.UUID) -> TriggerFiring:
    rows = TriggerFiring.objects.filter(trigger__pipeline__deleted_at=None)
    rows = rows.select_related("trigger__pipeline__scope", "redelivered_by")
    return get_visible(request, operations.VIEW, rows, pk=pk)
