"""Registers the app; its tables are those of `rbac`."""

from django.apps import AppConfig


class AccessAppConfig(AppConfig):
    """The pages and routes of access."""

    name = "access"
