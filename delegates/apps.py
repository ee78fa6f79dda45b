"""The app of delegates."""

from django.apps import AppConfig


class DelegatesConfig(AppConfig):
    """Delegates, and the doors to what connectors name."""

    name = "delegates"
    verbose_name = "Delegates"

    def ready(self) -> None:
        from delegates.inquiring import OWNER
        from delegates.inquiry_tasks import InquiryOwner
        from delegates.owners import register_owner

        register_owner(OWNER, InquiryOwner())
