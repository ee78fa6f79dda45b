"""The Django app of adoption and drift."""

from django.apps import AppConfig


class DriftConfig(AppConfig):
    """Adoption and drift."""

    name = "drift"
    verbose_name = "Adoption and drift"

    def ready(self) -> None:
        # Says what becomes of a look's call as a delegate takes it, answers or is lost.
        from delegates.owners import register_owner
        from deployments.watching.badges import also_counted
        from drift.badge import BADGE, drifted_counts
        from drift.ownership import owners
        from drift.progress import Look
        from drift.tasks import look_soon
        from instances.chains.delegated import ChainOwner
        from instances.owning import also_owned

        also_counted(BADGE, drifted_counts)
        also_owned(owners)
        register_owner(Look.OWNER, ChainOwner(Look, look_soon))

        # What the page of an adoption hears while it is read back.
        from drift.news import ADOPTIONS
        from web.news import enter

        enter(ADOPTIONS)
