"""Addresses of the pages of this app."""

from django.urls import path

from delegates import views

urlpatterns = [
    path("connectors/<int:pk>/test/", views.test, name="test-connector"),
]
