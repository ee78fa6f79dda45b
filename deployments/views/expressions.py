"""Pages that list what expressions may name: in a run with the values of now, in a pipeline without."""

import uuid

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from deployments.knowledge.names import LONGEST_SEARCH, listed
from deployments.knowledge.of_run import Run
from deployments.models import Execution
from web.pages import PageRequest, get_visible, page
from web.paging import paged

VIEW = "core_pipeline_view"


@page
@require_safe
def expressions_of_execution(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will list what is known at a step of a run, and its last value."""
    everything = Execution.objects.select_related("pipeline__scope", "scope")
    found = get_visible(request, VIEW, everything, pk=pk)
    run, text = Run(found), request.GET.get("q", "")[:LONGEST_SEARCH]
    moment = run.moment(request.GET.get("at", ""))
    names = listed(run.known_at(moment, request.user), text)
    context = {
        "execution": found,
        "stages": run.stages,
        "moments": run.moments(),
        "moment": moment,
        "text": text.strip(),
        "count": len(names),
        "page": paged(names, request, key=lambda one: one.path),
    }
    return render(request, "deployments/expressions.html", context)
