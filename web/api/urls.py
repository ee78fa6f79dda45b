"""URLs of the OpenAPI document and of the API reference."""

from django.urls import path

from web.api.openapi_views import OpenApiView
from web.api.reference_pages import api_reference, api_resource

urlpatterns = [
    path("schema/", OpenApiView.as_view(), name="schema"),
    path("docs/", api_reference, name="docs-api"),
    path("docs/<slug:tag>/", api_resource, name="docs-api-resource"),
]
