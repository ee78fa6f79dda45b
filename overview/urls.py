"""Addresses of the pages of the overview."""

from django.urls import path

from overview.views import overview

urlpatterns = [
    path("", overview.overview, name="overview"),
]
