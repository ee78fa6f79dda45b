"""Django app of the inventory."""

from django.apps import AppConfig


class InventoryConfig(AppConfig):
    """Instances, drift, adoption and dashboards."""

    name = "inventory"
    verbose_name = "Inventory"
