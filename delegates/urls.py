"""Addresses of the pages of this app."""

from django.urls import path

from delegates.views import connector_tests

urlpatterns = [
    path("connectors/<int:pk>/test/", connector_tests.test, name="test-connector"),
]
