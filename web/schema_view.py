"""Hands out the description of the API as a document that each process writes once."""

from functools import cache
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

from web.described import for_everybody

_WRITERS = {one.media_type: one for one in SpectacularAPIView.renderer_classes}


class DescriptionView(SpectacularAPIView):
    """This will hand out the OpenAPI document; anybody may ask, and writing it takes long."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        named = super().get(request, *args, **kwargs)["Content-Disposition"]
        writer = request.accepted_renderer
        kind = "; charset=".join(filter(None, (writer.media_type, writer.charset)))
        return HttpResponse(
            _written(writer.media_type), content_type=kind, headers={"Content-Disposition": named}
        )


@cache
def _written(media_type: str) -> Any:
    return _WRITERS[media_type]().render(for_everybody(), media_type, {})
