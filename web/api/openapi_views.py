"""View of the OpenAPI document, rendered once per process."""

from functools import cache
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

from web.api.openapi import get_public_schema

_RENDERERS = {renderer.media_type: renderer for renderer in SpectacularAPIView.renderer_classes}


class OpenApiView(SpectacularAPIView):
    """OpenAPI document for everyone, cached because generating it is slow."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        disposition = super().get(request, *args, **kwargs)["Content-Disposition"]
        writer = request.accepted_renderer
        kind = "; charset=".join(filter(None, (writer.media_type, writer.charset)))
        return HttpResponse(
            _render_schema(writer.media_type), content_type=kind, headers={"Content-Disposition": disposition}
        )


@cache
def _render_schema(media_type: str) -> Any:
    return _RENDERERS[media_type]().render(get_public_schema(), media_type, {})
