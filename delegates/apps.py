"""The app of delegates."""

from django.apps import AppConfig


class DelegatesConfig(AppConfig):
    """Django app of delegates and of access to the targets of connectors."""

    name = "delegates"
    verbose_name = "Delegates"
