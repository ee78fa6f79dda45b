"""URLs of the health endpoints."""

from django.urls import path

from ops.health import healthz, readyz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
]
