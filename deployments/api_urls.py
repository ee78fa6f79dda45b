"""Addresses of the REST API of this app."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
