"""Django app of connectors, secrets and files."""

from django.apps import AppConfig


class ConnectorsConfig(AppConfig):
    """Connectors, secrets and the file store."""

    name = "connectors"
    verbose_name = "Connectors"
