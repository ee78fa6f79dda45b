"""The page of the expressions of an execution, with their values."""

import uuid

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from deployments.models import Execution
from deployments.run_expressions import Run
from pipelines.pages.expressions import VIEW, expressions_page
from web.pages import PageRequest, get_visible, page


@page
@require_safe
def expressions_of_execution(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """This will list what is known at a step of a run, and its last value."""
    everything = Execution.objects.select_related("pipeline__scope", "scope")
    found = get_visible(request, VIEW, everything, pk=pk)
    run = Run(found)
    moment = run.moment(request.GET.get("at", ""))
    context = {
        "execution": found,
        "choices": [one.choice for one in run.moments()],
        "chosen": moment.key if moment else "",
    }
    return expressions_page(request, run.known_at(moment, request.user), context)
