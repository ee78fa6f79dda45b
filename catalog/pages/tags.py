"""What the lists under the fields for tags ask: the tags of an image as its registry has them now (R179)."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalog.artifacts import tags
from catalog.models import Service
from delegates.doors import DoorClosed
from delegates.images import SeenTags, page_of
from delegates.models import Inquiry
from rbac.models import Scope
from rbac.policy import NotVisible, scopes_where
from web.pages import PageRequest, get_visible, page
from web.problems import Problem

EDIT: Final = "core_service_edit"
SHOWN: Final = 50
# No list of tags has more pages.
MOST_PAGES: Final = 1000
# What a form says of a source that is not saved.
NAMES: Final = ("type", "connector", "imagePath", "region")
Found = SeenTags | Inquiry


def address_of(name: str, scope: Scope | None) -> str:
    """Where the form of a service asks for a list; without a scope the form says which."""
    said = urlencode({"scope": scope.path}) if scope else ""
    return f"{reverse(name)}?{said}"


@page
@require_safe
def tags_of_service(request: PageRequest, pk: int) -> HttpResponse:
    """This will list tags of the image of a service."""
    found = get_visible(request, "core_service_view", Service.objects.select_related("scope"), pk=pk)
    return tag_list_response(request, lambda: tags.tags_of_service(actor=request.user, service=found))


@page
@require_safe
def tags_of_source(request: PageRequest) -> HttpResponse:
    """This will list tags for a form that somebody fills in: of what it says now."""
    scope, said = _scope(request), _said(request)
    said["tagPattern"] = request.GET.get("pattern", "").strip()
    return tag_list_response(
        request,
        lambda: tags.tags_of_source(actor=request.user, scope=scope, source=said, is_narrowed=True),
    )


@page
@require_safe
def repositories_of_source(request: PageRequest) -> HttpResponse:
    """This will list the repositories of a registry or of ECR for a form that somebody fills in (R180)."""
    scope, said = _scope(request), _said(request)
    return tag_list_response(
        request, lambda: tags.repositories_of_source(actor=request.user, scope=scope, source=said)
    )


def _said(request: PageRequest) -> dict[str, str]:
    return {name: request.GET[name].strip() for name in NAMES if request.GET.get(name)}


def _scope(request: PageRequest) -> Scope:
    """The scope of the service that is written. Raises `NotVisible` (404) where nobody may write one."""
    found = scopes_where(request.user, EDIT).filter(path=request.GET.get("scope", "")).first()
    if found is None:
        raise NotVisible("There is no such scope, or you may not change services there.")
    return found


def tag_list_response(request: PageRequest, ask: Callable[[], Found]) -> HttpResponse:
    number = _number(request.GET.get("page", ""))
    try:
        found = ask()
    except Problem as problem:
        # That a registry refuses is an answer to the question, and no fault of the page's.
        status = 200 if isinstance(problem, DoorClosed) else problem.status
        return JsonResponse({"problem": _sentence(problem)}, status=status)
    if isinstance(found, Inquiry):
        return JsonResponse({"waits": found.reason}, status=202)
    return JsonResponse(_document(found, request.GET.get("search", ""), number))


def _document(found: SeenTags, search: str, number: int) -> Mapping[str, Any]:
    shown = page_of(found.tags, search=search, page=number, limit=SHOWN)
    return {
        "results": [{"name": one.name, "pushed_at": one.pushed_at} for one in shown.tags],
        "next": shown.following,
        "matching": shown.matching,
        "is_cut": found.is_cut,
    }


def _sentence(problem: Problem) -> str:
    return " ".join([problem.detail, *(str(one["message"]).rstrip(".") + "." for one in problem.errors)])


def _number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) < 5
    return min(max(int(text), 1), MOST_PAGES) if is_number else 1
