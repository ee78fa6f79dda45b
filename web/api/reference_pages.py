"""Pages of the API reference, for everyone, as the OpenAPI document is."""

from collections.abc import Mapping

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from web.api.reference import list_resources

MAX_SEARCH_CHARACTERS = 100


@require_safe
def api_reference(request: HttpRequest) -> HttpResponse:
    """List the operations of all resources, or those that contain each word of a search."""
    text = request.GET.get("q", "")[:MAX_SEARCH_CHARACTERS]
    words = text.lower().split()
    matches = (
        (resource, [operation for operation in resource.operations if operation.contains(words)])
        for resource in list_resources(settings.PUBLIC_URL)
    )
    resources = [(resource, operations) for resource, operations in matches if operations]
    content = {"resources": resources, "text": text, "base_url": settings.PUBLIC_URL}
    return _render(request, "web/api/reference.html", content)


@require_safe
def api_resource(request: HttpRequest, tag: str) -> HttpResponse:
    """Show the operations of one resource with their fields and an example of each."""
    resources = list_resources(settings.PUBLIC_URL)
    resource = next((resource for resource in resources if resource.tag == tag), None)
    if resource is None:
        raise Http404
    return _render(request, "web/api/resource.html", {"resource": resource})


def _render(request: HttpRequest, template: str, content: Mapping[str, object]) -> HttpResponse:
    frame = "base.html" if request.user.is_authenticated else "public.html"
    return render(request, template, {**content, "frame": frame})
