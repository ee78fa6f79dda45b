"""Addresses of the REST API of adoption and drift."""

from django.urls import path

from inventory.drift.api import adoption, drift

urlpatterns = [
    path("drift", drift.Drifts.as_view(), name="api-drift"),
    path("drift/<int:pk>", drift.DriftOfService.as_view(), name="api-drift-of-service"),
    path("drift/<int:pk>/look", drift.LookForDrift.as_view(), name="api-look-for-drift"),
    path("drift/<int:pk>/accept", drift.AcceptDrift.as_view(), name="api-accept-drift"),
    path("drift/<int:pk>/withdraw", drift.WithdrawDrift.as_view(), name="api-withdraw-drift"),
    path(
        "infrastructures/<int:pk>/unknown-services",
        adoption.UnknownServices.as_view(),
        name="api-unknown-services",
    ),
    path("infrastructures/<int:pk>/adoptions", adoption.Adoptions.as_view(), name="api-adoptions"),
    path("adoptions/<int:pk>", adoption.OneAdoption.as_view(), name="api-adoption"),
    path("adoptions/<int:pk>/adopt", adoption.Adopt.as_view(), name="api-adopt"),
    path("adoptions/<int:pk>/take-back", adoption.TakeBack.as_view(), name="api-take-back-adoption"),
]
