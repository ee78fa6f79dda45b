"""Django app configuration that connects the apps once all of them are loaded."""

from django.apps import AppConfig


class WiringConfig(AppConfig):
    """The last of our apps: its `ready` runs when the others are known."""

    name = "config"

    def ready(self) -> None:
        from config.wiring import connect_apps

        connect_apps()
