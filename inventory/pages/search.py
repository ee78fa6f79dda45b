"""Search over all pages and resources: the results page, and the hits of the search box."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from inventory.queries.search import search
from web.forms.lists import read_search_text
from web.forms.pages import PageRequest, require_sign_in


@require_sign_in
@require_safe
def show_results(request: PageRequest) -> HttpResponse:
    """Show the results of a search as a page."""
    return render(request, "inventory/search/results.html", _build_context(request))


@require_sign_in
@require_safe
def render_hits(request: PageRequest) -> HttpResponse:
    """Render the results as options of the search box."""
    return render(request, "inventory/search/_options.html", _build_context(request))


def _build_context(request: PageRequest) -> dict[str, Any]:
    text = read_search_text(request)
    return {"text": text, "hits": search(request.user, text, is_staff=request.user.is_staff)}
