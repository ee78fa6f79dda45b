"""URLs of the OpenAPI document, of the API reference, and of the reasons why work waits."""

from django.urls import path

from web.api.openapi_views import OpenApiView
from web.api.reference_pages import api_reference, api_resource
from web.api.work_delays import WorkDelays

urlpatterns = [
    path("schema/", OpenApiView.as_view(), name="schema"),
    path("docs/", api_reference, name="docs-api"),
    path("docs/<slug:tag>/", api_resource, name="docs-api-resource"),
    path("v1/delays", WorkDelays.as_view(), name="api-delays"),
]
