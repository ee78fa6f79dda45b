"""Addresses of the REST API of scopes, people, roles and keys."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
