"""Django app configuration of `accounts` and of the library's session list."""

from allauth.usersessions.apps import UserSessionsConfig
from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """The pages and routes of access."""

    name = "accounts"
    default = True


class SessionListConfig(UserSessionsConfig):
    """Session list without the library's own signals, which would store session keys in the clear."""

    def ready(self) -> None:
        """Skip the library's signals: `accounts.authentication.sessions` maintains the list."""
