"""Django app of the catalog."""

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    """Services, environments and infrastructures."""

    name = "catalog"
    verbose_name = "Catalog"
