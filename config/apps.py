"""Django app configuration that connects the apps once all of them are loaded."""

from django.apps import AppConfig


class WiringConfig(AppConfig):
    """Last app; its `ready` runs after all other apps are loaded."""

    name = "config"

    def ready(self) -> None:
        from config.error_reports import start_error_reporting
        from config.wiring import connect_apps

        connect_apps()
        start_error_reporting()
