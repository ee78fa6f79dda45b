"""Registers the app, whose tables are those of `rbac`, and the library's list of sessions."""

from allauth.usersessions.apps import UserSessionsConfig
from django.apps import AppConfig


class AccessAppConfig(AppConfig):
    """The pages and routes of access."""

    name = "accounts"
    default = True


class SessionListConfig(UserSessionsConfig):
    """The list of sessions without what the library does by itself, which would write their keys down."""

    def ready(self) -> None:
        """Leave its signals alone: `accounts.people.sessions` fills the list."""
