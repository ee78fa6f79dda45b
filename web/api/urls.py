"""URLs of the OpenAPI document and of the API browser."""

from django.urls import path
from drf_spectacular.views import SpectacularSwaggerSplitView

from web.api.openapi_views import OpenApiView

urlpatterns = [
    path("schema/", OpenApiView.as_view(), name="schema"),
    path("docs/", SpectacularSwaggerSplitView.as_view(template_name="web/api_docs.html"), name="api-docs"),
]
