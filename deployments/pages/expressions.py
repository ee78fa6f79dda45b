"""The page of the expressions of an execution, with their values."""

import uuid

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from deployments.models import Execution
from deployments.run_expressions import Run
from pipelines.pages.expressions import VIEW, render_expressions
from web.forms.pages import PageRequest, get_visible, require_sign_in


@require_sign_in
@require_safe
def expressions_of_execution(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """List what is known at a step of a run, and its last value."""
    everything = Execution.objects.select_related("pipeline__scope", "scope")
    found = get_visible(request, VIEW, everything, pk=pk)
    run = Run(found)
    moment = run.moment(request.GET.get("at", ""))
    context = {
        "execution": found,
        "choices": [one.choice for one in run.moments()],
        "chosen": moment.key if moment else "",
    }
    return render_expressions(request, run.known_at(moment, request.user), context)
