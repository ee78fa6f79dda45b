"""The Django app of the overview."""

from django.apps import AppConfig


class OverviewConfig(AppConfig):
    """Overview."""

    name = "overview"
    verbose_name = "Overview"
