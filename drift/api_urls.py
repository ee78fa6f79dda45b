"""Addresses of the REST API of adoption and drift."""

from django.urls import path

from drift.api import drift

urlpatterns = [
    path("drift", drift.Drifts.as_view(), name="api-drift"),
    path("drift/<int:pk>", drift.DriftOfService.as_view(), name="api-drift-of-service"),
    path("drift/<int:pk>/look", drift.LookForDrift.as_view(), name="api-look-for-drift"),
    path("drift/<int:pk>/accept", drift.AcceptDrift.as_view(), name="api-accept-drift"),
    path("drift/<int:pk>/withdraw", drift.WithdrawDrift.as_view(), name="api-withdraw-drift"),
]
