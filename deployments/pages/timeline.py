"""Timeline page of an execution."""

import uuid

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from deployments.execution.timelines import build_timeline
from deployments.models import Execution
from deployments.pages.executions import VIEW
from web.clock import get_database_time
from web.forms.pages import PageRequest, get_visible, require_sign_in


@require_sign_in
@require_safe
def show_timeline(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Show what happened in an execution on one time axis; live while it runs."""
    rows = Execution.objects.select_related("pipeline", "scope").defer("yaml", "pipeline__yaml")
    execution = get_visible(request, VIEW, rows, pk=pk)
    context = {"execution": execution, "timeline": build_timeline(execution, get_database_time())}
    return render(request, "deployments/timeline.html", context)
