"""The app of delegates."""

from django.apps import AppConfig


class DelegatesConfig(AppConfig):
    """Delegates, and the doors to what connectors name."""

    name = "delegates"
    verbose_name = "Delegates"
