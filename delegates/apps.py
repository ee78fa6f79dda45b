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

        # What pages hear of delegates, and of what they are asked.
        from delegates.inquiry_news import INQUIRIES
        from delegates.log_news import LOGS
        from delegates.news import DELEGATES
        from delegates.task_news import TASKS
        from web.news import enter

        enter(DELEGATES)
        enter(TASKS)
        enter(INQUIRIES)
        enter(LOGS)
