"""Pages that list the expressions available in a pipeline."""

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_POST, require_safe

from pipelines.completion.drafts import PipelineDraft, list_draft_items, list_pipeline_items
from pipelines.completion.items import LONGEST_SEARCH, CompletionItem, search_items
from pipelines.editor.tree_paths import parse_path
from pipelines.models import Pipeline
from rbac.policy import list_permitted_scopes
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.http.pagination import paginate_items

VIEW = "core_pipeline_view"
MAX_LINE_DIGITS = 7


@require_sign_in
@require_safe
def list_pipeline_expressions(request: PageRequest, pk: int) -> HttpResponse:
    """List the expressions available at a step of a pipeline; only its runs have the values."""
    pipeline = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    chosen, names = list_pipeline_items(pipeline, request.GET.get("at", ""), request.user)
    context = {"pipeline": pipeline, "choices": PipelineDraft(pipeline.yaml).list_choices(), "chosen": chosen}
    return render_expressions(request, names, context)


def render_expressions(
    request: PageRequest, names: list[CompletionItem], context: dict[str, Any]
) -> HttpResponse:
    text = request.GET.get("q", "")[:LONGEST_SEARCH]
    page = paginate_items(search_items(names, text), request, key=lambda item: item.path)
    return render(request, "deployments/expressions.html", {**context, "text": text.strip(), "page": page})


@require_sign_in
@require_POST
def list_draft_expressions(request: PageRequest) -> HttpResponse:
    """Return the expressions available at a position of an unsaved text, for the editor.

    The position is a `line` of the text (from 1), or the path of a form in `at`.
    """
    scope = get_object_or_404(
        list_permitted_scopes(request.user, VIEW), path=request.POST.get("in_scope", "")
    )
    draft, line = PipelineDraft(request.POST.get("yaml", "")), request.POST.get("line", "")
    is_line = line.isascii() and line.isdigit() and len(line) <= MAX_LINE_DIGITS
    at = request.POST.get("at", "")[:LONGEST_SEARCH]
    mark = draft.find_node_at_line(int(line)) if is_line else draft.find_node_at_path(parse_path(at))
    names = search_items(list_draft_items(draft, mark, scope, request.user))
    expressions = [{"value": item.path, "detail": item.about or item.source} for item in names]
    return JsonResponse({"expressions": expressions})
