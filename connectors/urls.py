"""Addresses of the pages of this app."""

from django.urls import path

from connectors import views

urlpatterns = [
    path("connectors/", views.connectors, name="connectors"),
    path("files/", views.files, name="files"),
]
