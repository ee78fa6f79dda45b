"""Search over all pages and resources: the results page, and the hits of the search box."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from guards.limits import NAME_CHARACTERS
from guards.text import sanitize_text
from inventory.queries.search import SearchHit, search
from web.forms.pages import PageRequest, require_sign_in


@require_sign_in
@require_safe
def show_results(request: PageRequest) -> HttpResponse:
    """Show the results of a search as a page."""
    text = _read_text(request)
    context = {"text": text, "hits": _search(request, text)}
    return render(request, "inventory/search/results.html", context)


@require_sign_in
@require_safe
def render_hits(request: PageRequest) -> HttpResponse:
    """Render the results as options of the search box."""
    return render(request, "inventory/search/_options.html", {"hits": _search(request, _read_text(request))})


def _read_text(request: PageRequest) -> str:
    return sanitize_text(request.GET.get("q", "")).strip()[:NAME_CHARACTERS]


def _search(request: PageRequest, text: str) -> list[SearchHit]:
    return search(request.user, text, is_staff=request.user.is_staff)
