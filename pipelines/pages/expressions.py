"""Pages that list what expressions may name: in a run with the values of now, in a pipeline without."""

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_POST, require_safe

from pipelines.completion.names import LONGEST_SEARCH, Known, listed
from pipelines.completion.of_text import Draft, names_of_pipeline, written_names
from pipelines.editor.places import path_from
from pipelines.models import Pipeline
from rbac.policy import scopes_where
from web.pages import PageRequest, get_visible, page
from web.paging import paged

VIEW = "core_pipeline_view"
MOST_DIGITS = 7


@page
@require_safe
def expressions_of_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """This will list what may be written at a step of a pipeline; values are known to its runs alone."""
    found = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    chosen, names = names_of_pipeline(found, request.GET.get("at", ""), request.user)
    context = {"pipeline": found, "choices": Draft(found.yaml).choices(), "chosen": chosen}
    return expressions_page(request, names, context)


def expressions_page(request: PageRequest, names: list[Known], context: dict[str, Any]) -> HttpResponse:
    text = request.GET.get("q", "")[:LONGEST_SEARCH]
    shown = paged(listed(names, text), request, key=lambda one: one.path)
    return render(request, "deployments/expressions.html", {**context, "text": text.strip(), "page": shown})


@page
@require_POST
def expressions_here(request: PageRequest) -> HttpResponse:
    """This will say what may be named at a place of the text that is being written; the editor asks.

    The place is a `line` of the text (from 1), or the path of a form in `at`.
    """
    scope = get_object_or_404(scopes_where(request.user, VIEW), path=request.POST.get("in_scope", ""))
    draft, line = Draft(request.POST.get("yaml", "")), request.POST.get("line", "")
    is_line = line.isascii() and line.isdigit() and len(line) <= MOST_DIGITS
    at = request.POST.get("at", "")[:LONGEST_SEARCH]
    mark = draft.at_line(int(line)) if is_line else draft.at_path(path_from(at))
    names = listed(written_names(draft, mark, scope, request.user))
    shown = [{"value": one.path, "detail": one.about or one.source} for one in names]
    return JsonResponse({"expressions": shown})
