"""Addresses of the REST API of connectors, secrets and files."""

from django.urls import path

from connectors.api import connectors, files, secrets

urlpatterns = [
    path("connectors", connectors.Connectors.as_view(), name="api-connectors"),
    path("connectors/<int:pk>", connectors.OneConnector.as_view(), name="api-connector"),
    path("secrets", secrets.Secrets.as_view(), name="api-secrets"),
    path("secrets/<int:pk>", secrets.OneSecret.as_view(), name="api-secret"),
    path("files", files.Files.as_view(), name="api-files"),
    path("files/<path:path>", files.OneFile.as_view(), name="api-file"),
]
