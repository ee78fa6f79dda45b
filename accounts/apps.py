"""Django app configuration of `accounts` and of the library's session list."""

from allauth.usersessions.apps import UserSessionsConfig
from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """The pages and routes of access."""

    name = "accounts"
    default = True


class SessionListConfig(UserSessionsConfig):
    """The list of sessions without what the library does by itself, which would write their keys down."""

    def ready(self) -> None:
        """Leave its signals alone: `accounts.authentication.sessions` fills the list."""
