"""Addresses of the API's description: the OpenAPI document and the pages that let people try it."""

from django.urls import path
from drf_spectacular.views import SpectacularSwaggerSplitView

from web.schema_view import DescriptionView

urlpatterns = [
    path("schema/", DescriptionView.as_view(), name="schema"),
    path("docs/", SpectacularSwaggerSplitView.as_view(template_name="web/api_docs.html"), name="api-docs"),
]
