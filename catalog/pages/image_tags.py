"""Lists of image tags and repositories for pickers, as JSON (R179)."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalog.artifacts import image_tags
from catalog.models import Service
from delegates.access.aws_access import ConnectorUnavailable
from delegates.access.images import ImageTags, paginate_tags
from delegates.models import LookupRequest
from rbac.models import Scope
from rbac.policy import NotVisible, list_permitted_scopes
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.http.problems import Problem

EDIT: Final = "core_service_edit"
PAGE_SIZE: Final = 50
# No list of tags has more pages.
MOST_PAGES: Final = 1000
# Form fields of an unsaved image source.
SOURCE_PARAMETERS: Final = ("type", "connector", "imagePath", "region")
TagResult = ImageTags | LookupRequest


def build_tag_list_url(name: str, scope: Scope | None) -> str:
    """Return the URL of the tag list for a service form; the form supplies the scope if it is not given."""
    query = urlencode({"scope": scope.path}) if scope else ""
    return f"{reverse(name)}?{query}"


@require_sign_in
@require_safe
def list_service_tags(request: PageRequest, pk: int) -> HttpResponse:
    """List tags of the image of a service."""
    service = get_visible(request, "core_service_view", Service.objects.select_related("scope"), pk=pk)
    return build_tag_response(
        request, lambda: image_tags.list_service_tags(actor=request.user, service=service)
    )


@require_sign_in
@require_safe
def list_source_tags(request: PageRequest) -> HttpResponse:
    """List the image tags for the current values of a service form."""
    scope, source = _get_scope(request), _parse_source(request)
    source["tagPattern"] = request.GET.get("pattern", "").strip()
    return build_tag_response(
        request,
        lambda: image_tags.list_source_tags(actor=request.user, scope=scope, source=source, is_narrowed=True),
    )


@require_sign_in
@require_safe
def list_source_repositories(request: PageRequest) -> HttpResponse:
    """List the repositories of a registry or of ECR for a service form (R180)."""
    scope, source = _get_scope(request), _parse_source(request)
    return build_tag_response(
        request, lambda: image_tags.list_source_repositories(actor=request.user, scope=scope, source=source)
    )


def _parse_source(request: PageRequest) -> dict[str, str]:
    return {name: request.GET[name].strip() for name in SOURCE_PARAMETERS if request.GET.get(name)}


def _get_scope(request: PageRequest) -> Scope:
    """Return the scope of the edited service. Raises `NotVisible` (404) if the user cannot edit one there."""
    scope = list_permitted_scopes(request.user, EDIT).filter(path=request.GET.get("scope", "")).first()
    if scope is None:
        raise NotVisible("The scope does not exist, or you cannot edit services in it.")
    return scope


def build_tag_response(request: PageRequest, ask: Callable[[], TagResult]) -> HttpResponse:
    number = _parse_page_number(request.GET.get("page", ""))
    try:
        result = ask()
    except Problem as problem:
        # That a registry refuses is an answer to the question, and no fault of the page's.
        status = 200 if isinstance(problem, ConnectorUnavailable) else problem.status
        return JsonResponse({"problem": _describe_problem(problem)}, status=status)
    if isinstance(result, LookupRequest):
        return JsonResponse({"waits": result.reason}, status=202)
    return JsonResponse(_serialize_tags(result, request.GET.get("search", ""), number))


def _serialize_tags(tags: ImageTags, search: str, number: int) -> Mapping[str, Any]:
    page = paginate_tags(tags.tags, search=search, page=number, limit=PAGE_SIZE)
    return {
        "results": [{"name": tag.name, "pushed_at": tag.pushed_at} for tag in page.tags],
        "next": page.following,
        "matching": page.matching,
        "is_cut": tags.is_cut,
    }


def _describe_problem(problem: Problem) -> str:
    return " ".join([problem.detail, *(str(error["message"]).rstrip(".") + "." for error in problem.errors)])


def _parse_page_number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) < 5
    return min(max(int(text), 1), MOST_PAGES) if is_number else 1
