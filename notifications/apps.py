"""Django app configuration of `notifications`."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    """Notification rules and their outbox."""

    name = "notifications"
    verbose_name = "Notifications"
