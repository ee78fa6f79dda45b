"""Django app configuration of `rbac`."""

from django.apps import AppConfig


class RbacConfig(AppConfig):
    """App of access control, below all other apps."""

    name = "rbac"
    verbose_name = "Access"
