"""The Django app of what runs where."""

from django.apps import AppConfig


class InstancesConfig(AppConfig):
    """Instances."""

    name = "instances"
    verbose_name = "Instances"

    def ready(self) -> None:
        # Says what becomes of a sync's call as a delegate takes it, answers or is lost.
        from delegates.owners import register_owner
        from instances.chains.delegated import ChainOwner
        from instances.progress import Sync
        from instances.tasks import sync_soon

        register_owner(Sync.OWNER, ChainOwner(Sync, sync_soon))

        # What pages hear of what runs where.
        from instances.news import CLUSTERS
        from web.news import enter

        enter(CLUSTERS)
