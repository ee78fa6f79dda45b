"""Django app configuration of `rbac`."""

from django.apps import AppConfig


class RbacConfig(AppConfig):
    """Access: the lowest app, known to all others."""

    name = "rbac"
    verbose_name = "Access"
