"""The page of what deployments left behind: looked at first, then deleted by an execution."""

import uuid

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from deployments import clean_up
from deployments.models import Execution
from web.pages import PageRequest, get_visible, page
from web.problems import BadInput, Conflict

VIEW = "core_pipeline_view"


@page
@require_http_methods(["GET", "HEAD", "POST"])
def leftovers(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will list the ECS services beside the one that serves, and delete those that are chosen."""
    everything = Execution.objects.select_related("pipeline__scope", "scope")
    found = get_visible(request, VIEW, everything, pk=pk)
    if request.method == "POST":
        return _clean_up(request, found)
    context = {"execution": found, "found": clean_up.leftovers(actor=request.user, execution=found)}
    return render(request, "deployments/leftovers.html", context)


def _clean_up(request: PageRequest, execution: Execution) -> HttpResponse:
    try:
        services = request.POST.getlist("services")
        begun = clean_up.clean_up(actor=request.user, execution=execution, services=services)
    except (BadInput, Conflict) as problem:
        messages.error(request, problem.detail)
        return redirect("execution", pk=execution.pk)
    return redirect("execution", pk=begun.pk)
