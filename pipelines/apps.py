"""Django app of pipelines."""

from django.apps import AppConfig


class PipelinesConfig(AppConfig):
    """Pipelines and input sets."""

    name = "pipelines"
    verbose_name = "Pipelines"
