"""Addresses of the pages of adoption and drift."""

from django.urls import path

from inventory.drift.pages import adoption, drift

urlpatterns = [
    path("drift/", drift.drift, name="drift"),
    path("drift/<int:pk>/", drift.comparison, name="drift-of-service"),
    path("drift/<int:pk>/look", drift.look, name="look-for-drift"),
    path("drift/<int:pk>/decide", drift.decide, name="decide-about-drift"),
    path("infrastructures/<int:pk>/unknown/", adoption.unknown, name="unknown-services"),
    path("infrastructures/<int:pk>/unknown/read", adoption.read, name="read-for-adoption"),
    path("adoptions/<int:pk>/", adoption.adoption, name="adoption"),
    path("adoptions/<int:pk>/take-back", adoption.take_back, name="take-back-adoption"),
]
