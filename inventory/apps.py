"""The Django app of the inventory."""

from django.apps import AppConfig


class InventoryConfig(AppConfig):
    """Instances, drift, adoption and dashboards."""

    name = "inventory"
    verbose_name = "Inventory"

    def ready(self) -> None:
        # Says what becomes of a scan's call as a delegate takes it, answers or is lost.
        from delegates.owners import register_owner
        from deployments.watching.badges import also_counted
        from inventory.drift.badge import BADGE, drifted_counts
        from inventory.drift.ownership import owners
        from inventory.drift.progress import Look
        from inventory.drift.tasks import look_soon
        from inventory.sync.chains.delegated import ChainOwner
        from inventory.sync.owning import also_owned
        from inventory.sync.progress import Sync
        from inventory.sync.tasks import sync_soon

        also_counted(BADGE, drifted_counts)
        also_owned(owners)
        register_owner(Sync.OWNER, ChainOwner(Sync, sync_soon))
        register_owner(Look.OWNER, ChainOwner(Look, look_soon))

        # What pages hear of what runs where, and of an adoption while it is read back.
        from inventory.drift.news import ADOPTIONS
        from inventory.sync.news import CLUSTERS
        from web.news import enter

        enter(CLUSTERS)
        enter(ADOPTIONS)
