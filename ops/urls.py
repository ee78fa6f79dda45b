"""Addresses for whoever watches over the installation."""

from django.urls import path

from ops.health import healthz, readyz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
]
